"""Texts in English and Chinese, filled from pairs of templates."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from schemas.printable import Count

Language = Literal["zh", "en"]
"""A language that texts for readers are written in."""


class Text(msgspec.Struct, frozen=True):
    """One text in English and in Chinese. Words from pages, models and news are the same in both."""

    en: str = ""
    zh: str = ""

    def __bool__(self) -> bool:
        return bool(self.en)

    def of(self, language: Language) -> str:
        """Return the text in this language."""
        return self.zh if language == "zh" else self.en


def fill(en: str, zh: str, **parts: Any) -> Text:
    """Return both templates, filled. A :class:`Text` part is inserted in each language; ``{n:page|pages}`` picks the English plural."""
    return Text(*(template.format(**_parts_in(lang, parts)) for lang, template in (("en", en), ("zh", zh))))


def _parts_in(language: str, parts: dict[str, Any]) -> dict[str, Any]:
    def part(value: Any) -> Any:
        if isinstance(value, Text):
            return getattr(value, language)
        return Count(value) if isinstance(value, int) else value

    return {name: part(value) for name, value in parts.items()}


def joined(parts: Iterable[Text | str], en: str = ", ", zh: str = "，") -> Text:
    """Return the non-empty parts, joined."""
    kept = [p if isinstance(p, Text) else Text(p, p) for p in parts if p]
    return Text(en.join(p.en for p in kept), zh.join(p.zh for p in kept))


def closed_up(text: Text) -> Text:
    """Return the text without spaces between Chinese characters. Templates have them for names in Latin letters."""
    return Text(text.en, _BETWEEN.sub("", text.zh))


_BETWEEN = re.compile(r"(?<=[\u4e00-\u9fff“”（）]) (?=[\u4e00-\u9fff“”（）])")


def references(numbers: Iterable[int]) -> str:
    """Return "[1][3]"."""
    return "".join(f"[{n}]" for n in numbers)


def term(word: str) -> Text:
    """Return a code word as people read it. A word without a Chinese form stays as it is."""
    kind, _, why = word.partition(":")
    plain = kind.replace("_", " ")
    named = Text(plain, _ZH.get(kind, plain))
    return joined((named, term(why)), ": ", "：") if why else named


def headings(columns: Iterable[str], language: Language) -> tuple[str, ...]:
    """Return the headings of a table in this language."""
    return tuple(term(column.replace(" ", "_")).of(language) for column in columns)


_WORDS = """
asset=资产 action=操作 confidence=置信度 verdict=结论 support=支持信源 sources=信源 flags=标记 summary=摘要 after=用时 phase=阶段
what_happened=经过 why=原因 domain=域名 independent=独立 says=内容 published=发布时间 credibility=可信度 quality=质量 title=标题
who_speaks=发言者 in_these_words=原文 why_not=未采用原因 address=地址 claim=说法 reliability=可靠性 says_so=依据 reason=理由
rule=规则 change=变化 revision=修订 stage=阶段 decided_(UTC)=判断时间（UTC） notes=说明 event=事件 by=来自 mode=模式 prompt=提示词
ms=毫秒 tokens=词元 USD=美元 error=错误 offset=位置 appended=写入时间 cause=起因 supports=支持 denies=否认 hedges=含糊
earlier=更早的事件 unrelated=无关 yes=是 none=无 offline=离线 live=实时 simulated=模拟
idle=等待 planning=规划 executing=判读 searching=搜索 scraping=打开网页 expanding=扩展关键词 critiquing=核查
synthesizing=得出信号 recovering=重试 completed=完成 failed=失败 short_term=短期 medium_term=中期 long_term=长期
buy=买入 sell=卖出 observe=观望 long=做多 short=做空 neutral=中性 low=低 medium=中 high=高 listing=上下架 hack=攻击 regulation=监管
partnership=合作 depeg=脱锚 liquidation=清算 funding=融资 whale=巨鲸 product=产品 macro=宏观 governance=治理 airdrop=空投
celebrity=名人 scam_alert=骗局警示 other=其他 asserted=断言 planned=计划 rumoured=传闻 denied=否认 corrected=更正 final=最终
preliminary=初判 retracted=已撤回 superseded=被取代 confirmed=已证实 likely=很可能 unconfirmed=未证实 stale=旧闻 disputed=有争议
refuted=不实 unchecked=未核查 gate=常规消息，不作核查 disabled=搜索已关闭 not_planned=未安排搜索 budget=预算不足 language=该语言的搜索服务没有响应
search_failed=搜索失败 degraded=深入核查失败 duplicate=重复 same_story=同一事件 unchanged=维持不变 second_look=再次核查 look_again=再次核查 spam=广告或无内容 empty=没有文字 timeout=超时 network=网络故障 rate_limit=请求过多
unavailable=不可用 auth=密钥无效 plan_limit=套餐额度用尽 not_open=该密钥不可用此模型 invalid_output=输出无效 cut=回复被截断
invalid_request=请求无效 blocked=被拦截 refused=被拒绝 too_large=过大 not_configured=未配置 breaker_open=熔断中 crash=崩溃
deadline=超过期限 cancelled=已取消 internal=内部错误 triage=初判 recall=回忆 plan=计划 search=搜索 scrape=打开网页 expand=扩展关键词 critique=核查
synthesize=得出信号 single_pass=单步判断 retract=撤回 conclude=收尾 degrade=降级 give_up=放弃 model=模型 market=行情
duplicate_check=查重 earlier_claims=查找先前说法 story=查找同一事件 find_story=查找同一事件 close_telling=并入同一事件 corroborated=多方佐证 call=调用 news=新闻 official=官方 general=综合 price=价格 price_low_2h=两小时最低价
price_high_2h=两小时最高价 candles_2h=两小时K线数 price_check=查价格 onchain_check=查链上 macro_check=查宏观
analyze_sentiment=分析情绪 memory_search=查记忆 web_scrape=打开网页 platform_search=平台搜索 competitor_lookup=查竞争对手 timeline_query=查时间线 lists=上线 delists=下架 files=提交申请 opens_trading=开放交易
halts_trading=暂停交易 hacked=遭攻击 leaks_data=泄露数据 account_taken_over=账号被盗 halts=暂停 recovers_funds=追回资金
reimburses=赔付 approves=批准 rejects=驳回 delays=推迟 proposes=提议 enacts=颁布 permits=许可 bans=禁止 licenses=发牌
sanctions=制裁 investigates=调查 sues=起诉 charges=指控 fines=罚款 settles=和解 dismisses=撤案 rules=裁定 arrests=逮捕
sentences=判刑 seizes=没收 partners=合作 acquires=收购 invests=投资 accepts_payment=接受付款 integrates=接入 ends=终止 depegs=脱锚
recovers_peg=恢复锚定 halts_redemption=暂停赎回 liquidated=被清算 bankrupt=破产 halts_withdrawals=暂停提币
resumes_withdrawals=恢复提币 raises=融资 goes_public=上市 buys_back=回购 buys=买入 sells=卖出 transfers=转移 withdraws=提取
mints=增发 burns=销毁 holds=持有 unlocks=解锁 launches=推出 upgrades=升级 discontinues=停止 resumes=恢复 raises_rate=加息
cuts_rate=降息 holds_rate=维持利率 reports_figure=公布数据 passes=通过 appoints=任命 resigns=辞职 airdrops=空投
opens_claims=开放领取 cancels=取消 says=表示 endorses=站台 scams=诈骗 warns=警告 freezes=冻结 lays_off=裁员
received=收到 asking=请求 triaged=初判 recalled=回忆 searched=搜索 scraped=打开网页 expanded=扩展关键词 critiqued=核查 ended=结束
retracting=撤回 corroborating=多方佐证 unknown=未知 cap=上限 bounds=范围 memory=历史案例 choice_clamped=超出区间 expired=已过期
"""
_ZH = dict(pair.split("=") for pair in _WORDS.split())
