"""The offline rules of an investigation: its sub-questions, the claims of pages by their titles, and plain sentences."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from infra.offline.claims import modality_of
from infra.offline.rules import event_type_of, is_zh, new_names
from schemas.effects import CallModel, ModelReply, Trusted, Untrusted

_FACTS = "Facts computed by code: "
_LANGUAGE = re.compile(r"Subject, .*, language ([a-z]+)")
LAST_DAY = datetime(2026, 2, 10, tzinfo=UTC)
"""The day after the last page of the bundled subject: what an investigation looks from while nobody says otherwise."""
ONE_EVENT = timedelta(days=5)
"""Pages of one type within this time tell of one event."""
_QUESTIONS: tuple[tuple[str, str, str, str], ...] = (
    ("product", "What has {} released or announced?", "{} 发布或宣布了什么?", "{} release model launch 发布 模型"),
    (
        "regulation",
        "What do authorities do about {}?",
        "监管机构对 {} 采取了什么行动?",
        "{} ban order authority 禁令 监管",
    ),
    ("funding", "Is {} raising money?", "{} 是否在融资?", "{} raise funding investors 融资 投资者"),
    ("hack", "Did {} have a security incident?", "{} 是否发生安全事件?", "{} breach leaked database 泄露 数据库"),
)
"""Event type → question in English and in Chinese, and the words that such a page uses."""
_PLATFORMS = ("What is said of {} on social platforms?", "社交平台上怎么说 {}?", "{}")


def framed(call: CallModel) -> ModelReply:
    """Return one sub-question for each of four kinds of events, and one for social platforms."""
    subject, zh = _texts(call, "subject")[0], _language(call) == "zh"
    asked = [
        {"question": (in_zh if zh else in_en).format(subject), "query": query.format(subject), "platforms": False}
        for _, in_en, in_zh, query in _QUESTIONS
    ]
    said = {"question": _PLATFORMS[zh].format(subject), "query": _PLATFORMS[2].format(subject), "platforms": True}
    return ModelReply(data={"questions": [*asked, said]})


def expanded(call: CallModel) -> ModelReply:
    """Return the names that several references give and no search asked for."""
    subject, asked = _texts(call, "subject")[0], " ".join(_texts(call, "searched"))
    names = [n.removeprefix("The ") for n in new_names(subject, asked, _texts(call, "reference"))]
    names = [n for n in dict.fromkeys(names) if n.lower() not in asked.lower()]
    reason = "names that several references give" if names else "the evidence names nothing new"
    return ModelReply(data={"keywords": names, "reason": f"offline rules: {reason}"})


def stated(call: CallModel) -> ModelReply:
    """Return one claim for each event: the title of the first page in the language of the question that tells it."""
    zh, dates = _language(call) == "zh", {r["number"]: r["date"] for r in _facts(call)["references"]}
    subject = _texts(call, "subject")[0].lower()
    told = [(label, text) for label, text in _parts(call, "reference") if subject in text.lower()]
    pages = [(int(label.split()[1]), text.partition("\n")[0], text) for label, text in told]
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
    return ModelReply(data={"claims": [_claim(event, zh) for event in reversed(events)]})


def written(call: CallModel) -> ModelReply:
    """Return each claim as it was stated, with the references that say anything of it."""
    claims = {int(label.split()[1]): text for label, text in _parts(call, "claim")}
    sentences = [
        {"claim": one["number"], "text": claims[one["number"]] + " " + "".join(f"[{n}]" for n in one["references"])}
        for one in _facts(call)["claims"]
    ]
    return ModelReply(data={"sentences": sentences})


def _claim(event: dict[str, Any], zh: bool) -> dict[str, Any]:
    told = [p for p in event["pages"] if p[2] not in ("denied", "corrected")] or event["pages"]
    _, title, modality = next((p for p in told if is_zh(p[1]) == zh), told[0])
    places = {kind: n for n, (kind, *_) in enumerate(_QUESTIONS, start=1)}
    return {
        "claim": title,
        "event_type": event["kind"],
        "modality": modality,
        "told_by": [number for number, *_ in event["pages"]],
        "question": places.get(event["kind"]),
    }


def _near(one: datetime | None, other: datetime | None) -> bool:
    return one is None or other is None or abs(one - other) <= ONE_EVENT


def _parts(call: CallModel, label: str) -> list[tuple[str, str]]:
    return [(p.label, p.text) for p in call.parts if isinstance(p, Untrusted) and p.label.startswith(label)]


def _texts(call: CallModel, label: str) -> list[str]:
    return [text for _, text in _parts(call, label)]


def _language(call: CallModel) -> str:
    found = (_LANGUAGE.match(p.text) for p in call.parts if isinstance(p, Trusted))
    return next((m[1] for m in found if m), "en")


def _facts(call: CallModel) -> dict[str, Any]:
    line = next(p.text for p in call.parts if isinstance(p, Trusted) and p.text.startswith(_FACTS))
    return dict(json.loads(line.removeprefix(_FACTS)))


INVESTIGATION_RULES: dict[str, Callable[[CallModel], ModelReply]] = {
    "investigate_frame": framed,
    "investigate_expand": expanded,
    "investigate_claims": stated,
    "investigate_brief": written,
}
