"""Translation of the reasons that rules wrote into the log.

An event holds a reason in one language: English, or that of the news. The templates of these reasons are listed here in
pairs. A text that consists only of them is parsed and written again in the other language. Text of a model or a person is
not a template: it stays as written, and is marked as the original for readers of another language.
"""

from __future__ import annotations

import re
from functools import cache, partial

from agents.evidence.policy import VERDICT_EN, VERDICT_ZH
from agents.text.matching import has_cjk
from agents.text.wording import Text, joined, term

_FIELDS = {"n": r"[+-]?\d+(?:\.\d+)?(?:e[+-]?\d+)?", "w": r"[a-z_]+(?::[a-z_]+)?", "id": r"[\w-]+", "t": r"[\d: UTC-]+", "refs": r"(?:\[\d+\])+"}  # fmt: skip
"""Fields of a template, ``{name:kind}``: numbers, words of the code (translated by :func:`term`), ids, times, references."""
_PLACE = re.compile(r"\{(\w+):(\w+)\}")
_AS_WRITTEN = {
    "，": "(?:，|, )",
    "：": "(?:：|: )",
    "；": "(?:；|; )",
    "（": "[（(]",
    "）": "[）)]",
    "信源": "(?:信源|来源)",
}
_ALSO = re.compile("|".join(_AS_WRITTEN))
"""How records from before write the marks and words of a Chinese template."""

_EITHER = (
    *((VERDICT_EN[v], VERDICT_ZH[v]) for v in VERDICT_EN),
    ("Preliminary {a:n} → final {b:n}, because: ", "初判 {a:n} → 最终 {b:n}，依据："),
    ("supporting sources: {count:n}", "{count:n} 个信源支持"),
    ("official {refs:refs}", "官方 {refs:refs}"),
    ("supporting {refs:refs}", "支持 {refs:refs}"),
    ("denying {refs:refs}", "否认 {refs:refs}"),
    ("hedging {refs:refs}", "未肯定 {refs:refs}"),
    ("earlier {refs:refs}", "旧事 {refs:refs}"),
    ("pages left out as dated after the news: {count:n}", "{count:n} 个网页日期晚于新闻，未采用"),
    ("a similar past case was taken into account", "参考了相似的历史案例"),
    ("the news is of {at:t}, so its order expired at {until:t}", "新闻发布于 {at:t}，操作建议已于 {until:t} 过期"),
    ("confidence {a:n} is below the selling rule's {b:n}, so there is no order", "置信度 {a:n} 低于操作门槛 {b:n}，此类消息失实过多，不给出操作"),
    ("at any confidence too many claims were false, so there is no order", "任何置信度的消息失实比例都过高，不给出操作"),
    ("denied by case {case:id} ({at:t})", "案例 {case:id}（{at:t}）否认了该信号"),
    ("corrected by case {case:id} ({at:t})", "案例 {case:id}（{at:t}）更正了该信号"),
    ("1 other source reports the same event (the last one: case {case:id}, {at:t})", "另有 1 个信源报道了同一事件（最近为案例 {case:id}，{at:t}）"),
    ("{n:n} other sources report the same event (the last one: case {case:id}, {at:t})", "另有 {n:n} 个信源报道了同一事件（最近为案例 {case:id}，{at:t}）"),
    ("a better-founded report of the same event: case {case:id} ({at:t})", "案例 {case:id}（{at:t}）对同一事件的报道依据更充分"),
    ("a better-founded report of the same event: case {case:id}", "案例 {case:id} 对同一事件的报道依据更充分"),
    ("the case ended without a final signal ({why:w}): the first judgement is withdrawn", "该案例未得出最终信号（{why:w}），初判撤回"),
    ("an earlier signal of the event has the order (case {case:id})", "同一事件的较早信号已给出操作（案例 {case:id}）"),
    (VERDICT_EN["likely"], "可能属实：有信源支持，但不足以证实"),
    (VERDICT_EN["stale"], "疑为旧闻：支持的页面均已过时"),
    (VERDICT_EN["refuted"], "已被否认：当事方、主管机构、实测数据或可信信源否认"),
    ("; ", "；"),
    (": {why:w}", "：{why:w}"),
)  # fmt: skip
"""Written in the language of the news (``agents.evidence.policy.notes``, ``agents.retraction``, ``streams.publish.revisions``)."""
_ENGLISH = (
    ("; duplicates were not checked ({why:w})", "；未能查重（{why:w}）"),
    (", but the deep path is switched off", "，但深入核查已关闭"),
    (", but bucket {bucket:n} is outside the rollout {share:n}", "，但分桶 {bucket:n} 不在放量范围 {share:n} 之内"),
    (", and strength {s:w} with action {a:w} gives no reason to doubt it", "，强度{s:w}、操作“{a:w}”也没有存疑的理由"),
    ("{kind:w} is never analysed deeply", "“{kind:w}”类新闻从不深入核查"),
    ("news with a claim {how:w} is always of value", "“{how:w}”性质的新闻一律核查"),
    ("{kind:w} is always of value", "“{kind:w}”类新闻一律核查"),
    ("{kind:w} is no forced type", "“{kind:w}”不在必查类型之列"),
    ("{kind:w} is forced for listed sources alone", "“{kind:w}”类仅对已登记的信源必查"),
    ("confidence {a:n} ≥ {b:n}", "置信度 {a:n} ≥ {b:n}"),
    ("confidence {a:n} is below {b:n}", "置信度 {a:n} 低于 {b:n}"),
    ("strength {s:w} with ", "强度{s:w}且"),
    ("action {a:w}", "操作为{a:w}"),
    (" and ", "、"),
    ("an unnamed source", "信源匿名"),
    ("rumoured", "属传闻"),
    ("planned", "尚在计划"),
    (", ", "，"),
    ("every tool that could bring evidence is switched off", "所有能带来证据的工具都已关闭"),
    ("the rounds of this case are used up", "本案例的轮次已用完"),
    ("news of this type is never searched for", "这类新闻从不搜索"),
    ("independent sources agree already", "独立信源已经一致"),
    ("a search is forced for {kind:w}; no keywords from the model ({why:w})", "“{kind:w}”类必须搜索；模型未给出关键词（{why:w}）"),
    ("no keywords: {why:w}", "没有关键词：{why:w}"),
    ("second look {n:n}: what case {case:id} found was {verdict:w}", "第 {n:n} 次再次核查：案例 {case:id} 的结论为“{verdict:w}”"),
    ("looked again {n:n} min after the first decision, which was {verdict:w}", "首次结论（{verdict:w}）后 {n:n} 分钟再次核查"),
    ("the same search, once more", "同样的搜索再做一次"),
    ("no page that the first case did not have", "没有首次核查之外的网页"),
    ("the new pages leave it {verdict:w}", "新网页没有改变结论：{verdict:w}"),
    ("{step:w} failed ({why:w})", "“{step:w}”失败（{why:w}）"),
    ("the text holds no word: there is nothing to judge", "正文没有文字，无可判断"),
    ("an earlier case tells the same event", "更早的案例报道了同一事件"),
    ("another case has the same text", "另一案例的正文与此相同"),
    ("advertising, or no claim at all", "是广告，或没有任何说法"),
    ("the model chose {a:n}, the verdict allows {b:n} to {c:n}", "模型选了 {a:n}，结论只允许 {b:n} 到 {c:n}"),
    ("a past case like this one (similarity {a:n}) ended at {b:n}", "一个相似的历史案例（相似度 {a:n}）终值为 {b:n}"),
    ("{verdict:w} leaves at most {cap:n}", "“{verdict:w}”的置信度上限为 {cap:n}"),
    ("confidence is held in 0-1", "置信度限制在 0 到 1 之间"),
)  # fmt: skip
"""Written in English whatever the news (``gate``, ``plan``, ``expand``, ``triage``, ``policy``)."""


def translate_reason(text: str) -> Text:
    """Return a recorded reason in both languages.

    Words of a model may follow after a full stop. They stay as written.
    """
    for chinese in (False, True):
        made, rest = _taken_apart(text, chinese=chinese)
        if made and (not rest or rest.startswith((". ", "。"))):
            # Older records have half-width marks and other words: what is read in Chinese is written anew.
            both = Text(made, _taken_apart(made, chinese=False)[0]) if chinese else Text(text.removesuffix(rest), made)
            return joined((both, translate_reason(rest.removeprefix(". ").removeprefix("。"))), ". ", "。")
    return as_written(text)


def as_written(text: str) -> Text:
    """Return words of a model or a person. For Chinese readers, words in another language are marked as such."""
    return Text(text, text if has_cjk(text) or not text else f"原文：“{text}”")


def _taken_apart(text: str, *, chinese: bool) -> tuple[str, str]:
    """Return the text in the other language as far as templates match, and the rest of the text."""
    made, at = "", 0
    while hit := next(((m, other) for p, other in _templates(chinese) if (m := p.match(text, at))), None):
        match, other = hit
        words = () if chinese else [name for name, kind in _PLACE.findall(other) if kind == "w"]
        values = {name: term(value).zh if name in words else value for name, value in match.groupdict().items()}
        made += _PLACE.sub(partial(_filled, values), other)
        at = match.end()
    return made, text[at:]


def _filled(values: dict[str, str], place: re.Match[str]) -> str:
    return values[place[1]]


@cache
def _templates(chinese: bool) -> tuple[tuple[re.Pattern[str], str], ...]:
    pairs = [(zh, en) for en, zh in _EITHER] if chinese else [*_ENGLISH, *_EITHER]
    return tuple((_pattern(template), other) for template, other in pairs)


def _pattern(template: str) -> re.Pattern[str]:
    parts = _PLACE.split(template)
    fixed = [_ALSO.sub(lambda m: _AS_WRITTEN[m[0]], re.escape(part)) for part in parts[::3]]
    places = [f"(?P<{name}>{_FIELDS[kind]})" for name, kind in zip(parts[1::3], parts[2::3], strict=True)]
    return re.compile("".join(a + b for a, b in zip(fixed, [*places, ""], strict=True)))
