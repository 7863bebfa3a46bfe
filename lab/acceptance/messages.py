"""The messages of an acceptance run: three from the requirements and others of their kinds, in Chinese and English.

Some are made up: no source can have them, so whatever is found, no order may follow from them.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from schemas.news import News

SOURCE = "acceptance"


class Message(msgspec.Struct, frozen=True):
    """One message in both languages. ``kind`` names it in tables. Only the texts enter the pipeline.

    ``searched``: the requirements say that it triggers a search. ``false``: it is made up. ``unconfirmed``: it must end
    unconfirmed, because no source can have it.
    """

    kind: str
    zh: str
    en: str
    searched: bool = False
    false: bool = False
    unconfirmed: bool = False


MESSAGES = (
    Message(
        "rumour",
        "Coinbase 即将上线 XYZ 代币,内部人士透露下周公布",
        "Coinbase is about to list the XYZ token, insiders say it will be announced next week",
        searched=True,
        false=True,
        unconfirmed=True,
    ),
    Message(
        "policy",
        "SEC 批准比特币现货 ETF,将于下周开始交易",
        "SEC approves spot Bitcoin ETFs, trading starts next week",
        searched=True,
    ),
    Message(
        "hack",
        "XXX DeFi 协议遭受闪电贷攻击,损失超过 $100M USDC",
        "The XXX DeFi protocol was hit by a flash loan attack, losses exceed $100M in USDC",
        searched=True,
        false=True,
    ),
    Message(
        "depeg",
        "USDC 脱锚跌至 0.88 美元,Circle 确认 33 亿美元储备存放于硅谷银行",
        "USDC loses its peg and falls to $0.88 after Circle confirms $3.3 billion of reserves at Silicon Valley Bank",
    ),
    Message(
        "liquidation",
        "全网 24 小时爆仓超过 190 亿美元,比特币闪崩",
        "More than $19 billion in leveraged crypto positions liquidated within 24 hours as Bitcoin plunges",
    ),
    Message(
        "partnership",
        "PayPal 宣布与 Paxos 合作,向美国用户开放加密货币买卖",
        "PayPal announces a partnership with Paxos to let US customers buy and sell cryptocurrencies",
    ),
    Message(
        "airdrop",
        "ZZZ 链宣布将向早期用户空投 5% 的代币",
        "The ZZZ chain announces an airdrop of 5% of its tokens to early users",
        false=True,
    ),
    Message(
        "macro",
        "美联储宣布加息 25 个基点,符合市场预期",
        "The Federal Reserve raises interest rates by 25 basis points, as markets expected",
    ),
)


def ids_of(message: Message) -> tuple[str, str]:
    """Return the ids of its two news items, Chinese first."""
    return f"{message.kind}-zh", f"{message.kind}-en"


def acceptance_news(published_at: datetime) -> list[News]:
    """Return every message as news published at this time (UTC, aware)."""
    return [
        News(source=SOURCE, external_id=name, language=lang, text=text, published_at=published_at)
        for m in MESSAGES
        for name, lang, text in zip(ids_of(m), ("zh", "en"), (m.zh, m.en), strict=True)
    ]
