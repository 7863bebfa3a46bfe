"""The policy: confidence, order, flags and notes that follow from a verdict.

Adjustments apply in this order, starting from the uncapped draft: the verdict's own (a model may choose it inside the
range), memory, the verdict's cap, and the bounds 0-1. Each is listed, and they add up to the change of confidence.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import msgspec

from agents.evidence.verdict import Judgement
from agents.evidence.witnesses import CheckedPage
from schemas.evidence import MemoryEntry, SearchReference
from schemas.signals import ACTED_ON, NO_ASSET, Action, Adjustment, Draft, Verdict

MEMORY_SIMILARITY = 0.8
"""Cosine similarity above which a past case counts."""
MEMORY_PULL = 0.10
"""The maximum change of confidence by memory, in either direction."""
LOW_CONFIDENCE = 0.4
"""Below this confidence the signal carries ``confidence_low``."""
DIGITS = 4


class Conclusion(msgspec.Struct, frozen=True, kw_only=True):
    """A draft after the rules. ``adjustments`` add up to ``confidence`` minus the draft's, to 4 decimals."""

    confidence: float
    action: Action
    adjustments: tuple[Adjustment, ...]
    risk_flags: tuple[str, ...]


def conclude(
    draft: Draft,
    judgement: Judgement,
    *,
    memory: tuple[MemoryEntry, ...] = (),
    chosen: float | None = None,
    extra_flags: tuple[str, ...] = (),
    thin: bool = False,
) -> Conclusion:
    """Apply a judgement to a draft.

    ``chosen``: the change that a model chose, clamped to the verdict's range; the clamp is listed. Without one (None or NaN)
    the middle applies. Only a verdict in ``ACTED_ON`` about a known asset keeps the draft's order. ``thin``: the result of
    :func:`is_thin`.
    """
    level = draft.confidence if math.isfinite(draft.confidence) else 0.0
    steps = list(_verdict_steps(judgement, chosen))
    level += sum(step.amount for step in steps)
    pull = list(_memory_steps(level, judgement, memory))
    steps += pull
    level += sum(step.amount for step in pull)
    for rule, least, most in (("cap", -math.inf, judgement.cap), ("bounds", 0.0, 1.0)):
        if (amount := round(min(most, max(least, level)) - level, DIGITS)) != 0.0:
            steps.append(Adjustment(rule=rule, amount=amount, reason=_held(rule, judgement)))
            level += amount
    confidence = round(level, DIGITS)
    acts = judgement.verdict in ACTED_ON and draft.asset != NO_ASSET
    return Conclusion(
        confidence=confidence,
        action=draft.action if acts else "observe",
        adjustments=tuple(steps),
        risk_flags=_flags(draft, judgement, confidence=confidence, extra=extra_flags, thin=thin),
    )


def is_thin(judgement: Judgement, pages: Sequence[CheckedPage]) -> bool:
    """Return whether the evidence is too thin, so that the signal gets ``data_incomplete``.

    It is thin for a disputed claim and without any page. For a likely or unconfirmed claim it is thin if fewer than two
    usable pages are about the claim, or if only their titles are known.
    """
    if judgement.verdict == "disputed" or not pages:
        return True
    if judgement.verdict not in {"likely", "unconfirmed"}:
        return False
    related = [page.reference for page in pages if page.stance != "unrelated"]
    return len(related) < 2 or all(is_title_only(r) for r in related)


def is_title_only(page: SearchReference) -> bool:
    """Return whether only the title of a page is known: it was not opened, and its search result had no text."""
    return (page.passage or page.snippet).strip() in {"", page.title.strip()}


def _amount(judgement: Judgement, chosen: float | None) -> float:
    if chosen is None or math.isnan(chosen):
        return round((judgement.low + judgement.high) / 2, DIGITS)
    return round(min(judgement.high, max(judgement.low, chosen)), DIGITS)


def _verdict_steps(judgement: Judgement, chosen: float | None) -> Iterator[Adjustment]:
    if judgement.verdict == "unchecked":
        return
    amount = _amount(judgement, chosen)
    yield Adjustment(rule=judgement.verdict, amount=amount, reason=VERDICT_EN[judgement.verdict])
    has_width = judgement.low != judgement.high
    if has_width and chosen is not None and (math.isnan(chosen) or abs(amount - chosen) > 10**-DIGITS):
        # The amount above is already the allowed one, so the clamp adds 0 and the list still adds up.
        low, high = judgement.low, judgement.high
        reason = f"the model chose {chosen:+.2f}, the verdict allows {low:+.2f} to {high:+.2f}"
        yield Adjustment(rule="choice_clamped", amount=0.0, reason=reason)


def _memory_steps(level: float, judgement: Judgement, memory: tuple[MemoryEntry, ...]) -> Iterator[Adjustment]:
    """Yield the pull of the nearest past case on ``level``, the confidence after the verdict."""
    # Cases judged by the first rules have no verdict, and were confident without evidence.
    near = [
        m
        for m in memory
        if m.withdrawn is None and m.verdict and m.similarity > MEMORY_SIMILARITY and math.isfinite(m.confidence)
    ]
    if not near or judgement.verdict == "unchecked":
        return
    best = max(near, key=lambda m: (m.similarity, m.decided_at, m.case_id))
    amount = round(min(MEMORY_PULL, max(-MEMORY_PULL, best.confidence - level)), DIGITS)
    # A past case raises the confidence only where the verdict does: for a confirmed claim that was read.
    if amount == 0.0 or (amount > 0.0 and (judgement.verdict != "confirmed" or judgement.high <= 0.0)):
        return
    reason = f"a past case like this one (similarity {best.similarity:.2f}) ended at {best.confidence:.2f}"
    yield Adjustment(rule="memory", amount=amount, reason=reason)


def _held(rule: str, judgement: Judgement) -> str:
    if rule == "bounds":
        return "confidence is held in 0-1"
    return f"{judgement.verdict} leaves at most {judgement.cap:.2f}"


def _flags(
    draft: Draft, judgement: Judgement, *, confidence: float, extra: tuple[str, ...], thin: bool
) -> tuple[str, ...]:
    flags = [*draft.risk_flags, *extra, *judgement.flags]
    if thin:
        flags.append("data_incomplete")
    if judgement.verdict == "stale":
        flags.append("old_news")
    if judgement.verdict == "refuted":
        flags.append("refuted")
    # A preliminary doubt that verification has lifted must not remain on the final signal.
    kept = [f for f in flags if f != "confidence_low"]
    if confidence < LOW_CONFIDENCE:
        kept.append("confidence_low")
    return tuple(dict.fromkeys(kept))


def notes(
    language: str,
    preliminary: float,
    conclusion: Conclusion,
    judgement: Judgement,
    pages: Sequence[CheckedPage],
    why: str | None,
    dated_later: int = 0,
) -> str:
    """Return the notes of a signal in the language of its news: the findings and their references.

    ``why``: the reason for the verdict ``unchecked``, which has no references. ``dated_later``: number of pages dropped because
    they are dated after the news; without it, “0 sources” would read as if nobody had reported it.
    """
    zh = language == "zh"
    verdict = VERDICT_ZH[judgement.verdict] if zh else VERDICT_EN[judgement.verdict]
    parts = [f"{verdict}{'：' if zh else ': '}{why}" if why else verdict]
    parts += _evidence_parts(judgement, pages, zh) if judgement.verdict != "unchecked" else []
    if dated_later:
        parts.append(
            f"{dated_later} 个网页日期晚于新闻，未采用"
            if zh
            else f"pages left out as dated after the news: {dated_later}"
        )
    if any(a.rule == "memory" for a in conclusion.adjustments):
        parts.append("参考了相似的历史案例" if zh else "a similar past case was taken into account")
    change = f"{preliminary:.2f} → {'最终' if zh else 'final'} {conclusion.confidence:.2f}"
    return f"初判 {change}，依据：{'；'.join(parts)}" if zh else f"Preliminary {change}, because: {'; '.join(parts)}"


VERDICT_ZH: dict[Verdict, str] = {
    "confirmed": "已证实：官方、足够的独立信源或实测数据支持",
    "likely": "很可能：有信源支持，但不足以证实",
    "unconfirmed": "未证实：已搜索，支持不足",
    "stale": "旧闻：支持的网页均已过时",
    "disputed": "有争议：信源互相矛盾，或仅有非官方的否认",
    "refuted": "不实：当事方、主管机构、实测数据或可信信源否认",
    "unchecked": "未核查",
}
VERDICT_EN: dict[Verdict, str] = {
    "confirmed": "confirmed by an official page, by enough sources or by a measurement",
    "likely": "supported, but by too little to call it confirmed",
    "unconfirmed": "searched for, and too little supports it",
    "stale": "what supports it is old: this looks like an earlier story told again",
    "disputed": "sources contradict one another, or somebody without authority denies it",
    "refuted": "the party, an authority, a measurement or an established source says that it is false",
    "unchecked": "not checked",
}
"""The meaning of each verdict, for reasons and notes. The log holds these words (``newsproof.report.rule_words``)."""


def _evidence_parts(judgement: Judgement, pages: Sequence[CheckedPage], zh: bool) -> list[str]:
    groups: tuple[tuple[str, str, list[CheckedPage]], ...] = (
        ("官方", "official", [page for page in pages if page.reference.official and page.stance == "supports"]),
        ("支持", "supporting", [page for page in pages if not page.reference.official and page.stance == "supports"]),
        ("否认", "denying", [page for page in pages if page.stance == "denies"]),
        ("未肯定", "hedging", [page for page in pages if page.stance == "hedges"]),
        ("旧事", "earlier", [page for page in pages if page.stance == "earlier"]),
    )
    parts = [
        f"{z if zh else e} {''.join(f'[{page.reference.reference_number}]' for page in hs)}"
        for z, e, hs in groups
        if hs
    ]
    count = judgement.supporting_sources
    return [f"{count} 个信源支持" if zh else f"supporting sources: {count}", *parts]
