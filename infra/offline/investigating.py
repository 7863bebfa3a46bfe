"""The offline rules of an investigation: its sub-questions, the claims of pages by their titles, and plain sentences."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from infra.offline import lexicon as lx
from infra.offline.call_parts import facts_of, language_of, part_of, parts_of, texts_of
from infra.offline.claims import modality_of
from infra.offline.rules import event_type_of, is_zh, new_names
from schemas.effects import CallModel, ModelReply

LAST_DAY = datetime(2026, 2, 10, tzinfo=UTC)
"""The day after the last page of the bundled subject: what an investigation looks from while nobody says otherwise."""
ONE_EVENT = timedelta(days=5)
"""Pages of one type within this time tell of one event."""
SUBJECTS = ("DeepSeek", "Kraken", "Tether", "Uniswap")
"""Subjects of the bundled corpus. About any other, an offline investigation finds nothing."""
_Question = tuple[str, str, str, str]
"""Event type, question in English and in Chinese, and the words that such a page uses."""
_AUTHORITIES = ("regulation", "What do authorities do about {}?", "监管机构对 {} 采取了什么行动?")
_INCIDENT = ("hack", "Did {} have a security incident?", "{} 是否发生安全事件?")
_COMPANY: tuple[_Question, ...] = (
    ("product", "What has {} released or announced?", "{} 发布或宣布了什么?", "{} release model launch 发布 模型"),
    (*_AUTHORITIES, "{} ban order authority 禁令 监管"),
    ("funding", "Is {} raising money?", "{} 是否在融资?", "{} raise funding investors 融资 投资者"),
    (*_INCIDENT, "{} breach leaked database 泄露 数据库"),
)
_EXCHANGE: tuple[_Question, ...] = (
    ("listing", "What does {} list or delist?", "{} 上线或下架了什么?", "{} lists listed token 上线 下架"),
    ("liquidation", "Does {} pay out withdrawals?", "{} 提币是否正常?", "{} pauses withdrawals 暂停提币"),
    (*_AUTHORITIES, "{} sues court 起诉"),
    (*_INCIDENT, "{} breach 漏洞"),
)
_STABLECOIN: tuple[_Question, ...] = (
    (
        "depeg",
        "Does the stablecoin of {} hold its peg?",
        "{} 的稳定币是否维持锚定?",
        "{} loses its peg redemption 脱锚 赎回",
    ),
    ("product", "On which networks does {} issue?", "{} 在哪些网络上发行?", "{} launches network tokens 主网 推出"),
    (*_AUTHORITIES, "{} bans order 禁止"),
    (*_INCIDENT, "{} breach 漏洞"),
)
_PROTOCOL: tuple[_Question, ...] = (
    ("product", "What has {} launched or upgraded?", "{} 推出或升级了什么?", "{} launches upgrade mainnet 主网 升级"),
    (
        "governance",
        "What do the holders of {} vote on?",
        "{} 在就什么投票?",
        "{} governance vote proposal 治理 投票 提案",
    ),
    (*_AUTHORITIES, "{} sues court 起诉"),
    (*_INCIDENT, "{} exploit drained"),
)
_ISSUERS = ("tether", "circle", "paxos", "泰达", "稳定币", "stablecoin")
_PLATFORMS = ("What is said of {} on social platforms?", "社交平台上怎么说 {}?", "{}")


def _questions_for(subject: str) -> tuple[_Question, ...]:
    """Return the questions for a subject: for an exchange, a stablecoin, a coin or protocol, else for a company."""
    low, words = subject.lower(), set(re.findall(r"[a-z0-9]+", subject.lower()))
    if any(name in low for name in _ISSUERS) or words & {ticker.lower() for ticker in lx.STABLE}:
        return _STABLECOIN
    if any(name.lower() in (words if name.isalnum() and name.isascii() else low) for name in lx.EXCHANGES):
        return _EXCHANGE
    is_coin = any(name in low for name in lx.ASSETS) or words & {ticker.lower() for ticker in lx.TICKERS}
    return _PROTOCOL if is_coin else _COMPANY


def framed(call: CallModel) -> ModelReply:
    """Return one sub-question for each of four kinds of events that fit the subject, and one for social platforms."""
    subject, zh = part_of(call, "subject"), language_of(call) == "zh"
    asked = [
        {"question": (in_zh if zh else in_en).format(subject), "query": query.format(subject), "platforms": False}
        for _, in_en, in_zh, query in _questions_for(subject)
    ]
    platforms = {"question": _PLATFORMS[zh].format(subject), "query": _PLATFORMS[2].format(subject), "platforms": True}
    return ModelReply(data={"questions": [*asked, platforms]})


def expanded(call: CallModel) -> ModelReply:
    """Return the names that several references give and no search asked for."""
    subject, asked = part_of(call, "subject"), " ".join(texts_of(call, "searched"))
    names = [n.removeprefix("The ") for n in new_names(subject, asked, texts_of(call, "reference"))]
    names = [n for n in dict.fromkeys(names) if n.lower() not in asked.lower()]
    reason = "names that several references give" if names else "the evidence names nothing new"
    return ModelReply(data={"keywords": names, "reason": f"offline rules: {reason}"})


def stated(call: CallModel) -> ModelReply:
    """Return one claim for each event: the title of the first page in the language of the question that tells it."""
    zh, dates = language_of(call) == "zh", {r["number"]: r["date"] for r in facts_of(call)["references"]}
    subject = part_of(call, "subject")
    about_subject = [(label, text) for label, text in parts_of(call, "reference") if subject.lower() in text.lower()]
    pages = [(int(label.split()[1]), text.partition("\n")[0], text) for label, text in about_subject]
    pages.sort(key=lambda p: (dates[p[0]] is None, dates[p[0]] or "", p[0]))
    events: list[dict[str, Any]] = []
    for number, title, text in pages:
        kind, modality = event_type_of(text), modality_of(title)
        at = None if dates[number] is None else datetime.fromisoformat(dates[number])
        # A denial and a correction belong to what they deny, however late they come.
        known = [e for e in events if e["kind"] == kind and (modality in ("denied", "corrected") or _near(e["at"], at))]
        event = known[-1] if known else {"kind": kind, "at": at, "pages": []}
        events += [] if known else [event]
        event["pages"].append((number, title, modality))
    places = {kind: n for n, (kind, *_) in enumerate(_questions_for(subject), start=1)}
    return ModelReply(data={"claims": [_claim(event, places, zh) for event in reversed(events)]})


def written(call: CallModel) -> ModelReply:
    """Return each claim as it was stated, with the references that say anything of it."""
    claims = {int(label.split()[1]): text for label, text in parts_of(call, "claim")}
    sentences = [
        {"claim": fact["number"], "text": claims[fact["number"]] + " " + "".join(f"[{n}]" for n in fact["references"])}
        for fact in facts_of(call)["claims"]
    ]
    return ModelReply(data={"sentences": sentences})


def _claim(event: dict[str, Any], places: dict[str, int], zh: bool) -> dict[str, Any]:
    affirming = [p for p in event["pages"] if p[2] not in ("denied", "corrected")] or event["pages"]
    _, title, modality = next((p for p in affirming if is_zh(p[1]) == zh), affirming[0])
    return {
        "claim": title,
        "event_type": event["kind"],
        "modality": modality,
        "told_by": [number for number, *_ in event["pages"]],
        "question": places.get(event["kind"]),
    }


def _near(at: datetime | None, other: datetime | None) -> bool:
    return at is None or other is None or abs(at - other) <= ONE_EVENT


INVESTIGATION_RULES: dict[str, Callable[[CallModel], ModelReply]] = {
    "investigate_frame": framed,
    "investigate_expand": expanded,
    "investigate_claims": stated,
    "investigate_brief": written,
}
