"""The quantified rules of synthesis, enforced by code: by these (rules 1) it is decided whether a case is refuted.

Signals follow them today. :mod:`agents.evidence.verdict` holds rules 2, which no step uses yet, only ``newsproof eval``.

The first base rule that matches applies; then memory adjusts the result, and it is clamped to 0-1. Every adjustment is
listed, and the amounts add up to the change of confidence.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal

import msgspec

from schemas.evidence import Findings, MemoryEntry, SearchReference
from schemas.signals import Action, Adjustment, Direction, Draft

Verdict = Literal["supported", "refuted", "conflicting", "not_enough_evidence"]
BaseRule = Literal[
    "denied_or_conflict",
    "stale",
    "multi_source_official",
    "multi_source",
    "official_alone",
    "few_sources",
    "no_evidence",
]

RANGES: dict[BaseRule, tuple[float, float]] = {
    "denied_or_conflict": (-0.20, -0.20),
    "stale": (-0.20, -0.20),
    "multi_source_official": (0.15, 0.20),
    "multi_source": (0.05, 0.10),
    "official_alone": (-0.10, -0.10),
    "few_sources": (-0.20, -0.10),
    "no_evidence": (-0.20, -0.10),
}
"""Rule -> (lowest, highest) change of confidence."""
MEMORY_SIMILARITY = 0.8
"""A past case counts above this cosine similarity."""
MEMORY_PULL = 0.10
"""The maximum change of confidence by memory, in either direction."""
LOW_CONFIDENCE = 0.4
"""Below this confidence the signal carries ``confidence_low``."""
DIGITS = 4
_DIRECTIONS: dict[Action, Direction] = {"buy": "long", "sell": "short", "observe": "neutral"}


class Conclusion(msgspec.Struct, frozen=True, kw_only=True):
    """A draft after the rules. ``adjustments`` add up to ``confidence`` minus the draft's, to 4 decimals."""

    confidence: float
    action: Action
    direction: Direction
    adjustments: tuple[Adjustment, ...]
    risk_flags: tuple[str, ...]
    base_rule: BaseRule


def bounds(findings: Findings | None, verdict: Verdict | None) -> tuple[BaseRule, float, float]:
    """Return the base rule that applies, and the lowest and highest change that the model may choose."""
    rule = _base_rule(findings, verdict)
    return rule, *RANGES[rule]


def conclude(
    draft: Draft,
    findings: Findings | None,
    *,
    verdict: Verdict | None,
    memory: tuple[MemoryEntry, ...],
    chosen: float | None,
    extra_flags: tuple[str, ...] = (),
) -> Conclusion:
    """Apply the rules to a draft. ``findings`` is None if nothing was searched; ``chosen`` is the model's change.

    Without a choice (None, or NaN) the middle of the range applies. A choice outside the range is clamped to it, and
    listed. ``chosen`` never moves the result out of the rule's range. A claim that the critique refutes, or that an
    official page denies and none confirms, ends as ``observe`` with the flag ``refuted``, model or not.
    """
    rule, low, high = bounds(findings, verdict)
    start = draft.confidence if math.isfinite(draft.confidence) else 0.0
    steps = list(_base_steps(rule, low, high, chosen))
    level = start + sum(s.amount for s in steps)
    pull = _memory_step(level, memory)
    if pull is not None:
        steps.append(pull)
        level += pull.amount
    held = min(1.0, max(0.0, level))
    if round(held - level, DIGITS) != 0.0:
        steps.append(Adjustment(rule="bounds", amount=round(held - level, DIGITS), reason="confidence is held in 0-1"))
    confidence = round(held, DIGITS)
    action: Action = "observe" if _is_refuted(findings, verdict) else draft.action
    return Conclusion(
        confidence=confidence,
        action=action,
        direction=_DIRECTIONS[action],
        adjustments=tuple(steps),
        risk_flags=_flags(draft, findings, rule, verdict, confidence=confidence, extra=extra_flags),
        base_rule=rule,
    )


def _is_refuted(findings: Findings | None, verdict: Verdict | None) -> bool:
    # A denial by the party itself needs no critic, and no critic outweighs it: nobody trades on what the party denies.
    # Two official sources that disagree are a conflict, not a refutation.
    official = {r.stance for r in findings.references if r.official} if findings else set()
    return verdict == "refuted" or ("denies" in official and "supports" not in official)


def _base_rule(findings: Findings | None, verdict: Verdict | None) -> BaseRule:
    against = verdict in {"refuted", "conflicting"}
    if findings is None:
        return "denied_or_conflict" if against else "no_evidence"
    if against or findings.denied or findings.conflict:
        return "denied_or_conflict"
    if findings.stale:
        return "stale"
    if findings.multi_source:
        return "multi_source_official" if findings.official_confirmed else "multi_source"
    if findings.official_confirmed:
        return "official_alone"
    return "few_sources" if findings.references else "no_evidence"


_REASONS: dict[BaseRule, str] = {
    "denied_or_conflict": "a source denies the claim, or sources contradict one another",
    "stale": "every page that supports the claim is older than 30 days",
    "multi_source_official": "enough independent sources, and an official page confirms",
    "multi_source": "enough independent sources, no official page",
    "official_alone": "an official page confirms, but there are too few independent sources",
    "few_sources": "too few independent sources support the claim",
    "no_evidence": "no usable evidence",
}


def _base_steps(rule: BaseRule, low: float, high: float, chosen: float | None) -> Iterable[Adjustment]:
    if chosen is None or math.isnan(chosen):
        amount = round((low + high) / 2, DIGITS)
    else:
        amount = round(min(high, max(low, chosen)), DIGITS)
    yield Adjustment(rule=rule, amount=amount, reason=_REASONS[rule])
    if chosen is not None and (math.isnan(chosen) or abs(amount - chosen) > 10**-DIGITS):
        # The amount above is already the allowed one, so the clamp adds 0 and the list still adds up.
        reason = f"the model chose {chosen:+.2f}, the rule allows {low:+.2f} to {high:+.2f}"
        yield Adjustment(rule="choice_clamped", amount=0.0, reason=reason)


def _memory_step(level: float, memory: tuple[MemoryEntry, ...]) -> Adjustment | None:
    standing = [m for m in memory if m.withdrawn is None]
    near = [m for m in standing if m.similarity > MEMORY_SIMILARITY and math.isfinite(m.confidence)]
    if not near:
        return None
    best = max(near, key=lambda m: (m.similarity, m.decided_at, m.case_id))
    amount = round(min(MEMORY_PULL, max(-MEMORY_PULL, best.confidence - level)), DIGITS)
    if amount == 0.0:
        return None
    reason = f"a past case like this one (similarity {best.similarity:.2f}) ended at {best.confidence:.2f}"
    return Adjustment(rule="memory", amount=amount, reason=reason)


def _flags(
    draft: Draft,
    findings: Findings | None,
    rule: BaseRule,
    verdict: Verdict | None,
    *,
    confidence: float,
    extra: tuple[str, ...],
) -> tuple[str, ...]:
    flags = [*draft.risk_flags, *extra, *(findings.risk_flags if findings else ())]
    if rule in {"denied_or_conflict", "no_evidence"} or findings is None or not findings.references:
        flags.append("data_incomplete")
    if rule == "stale":
        flags.append("old_news")
    if _is_refuted(findings, verdict):
        flags.append("refuted")
    # A preliminary doubt that verification has lifted must not remain on the final signal.
    kept = [f for f in flags if f != "confidence_low"]
    if confidence < LOW_CONFIDENCE:
        kept.append("confidence_low")
    return tuple(dict.fromkeys(kept))


def notes(language: str, preliminary: float, final: float, conclusion: Conclusion, findings: Findings | None) -> str:
    """Return the notes of a signal in the language of its news: the changes, and the references behind them."""
    zh = language == "zh"
    parts = [_ZH[conclusion.base_rule] if zh else _EN[conclusion.base_rule]]
    parts += _evidence_parts(findings, zh) if findings else []
    if any(a.rule == "memory" for a in conclusion.adjustments):
        parts.append("参考了相似的历史案例" if zh else "a similar past case was taken into account")
    if zh:
        return f"初判 {preliminary:.2f} → 最终 {final:.2f}, 依据: {'; '.join(parts)}"
    return f"Preliminary {preliminary:.2f} → final {final:.2f}, because: {'; '.join(parts)}"


_ZH: dict[BaseRule, str] = {
    "denied_or_conflict": "有来源否认该说法, 或来源互相矛盾",
    "stale": "支持该说法的页面均早于 30 天, 疑为旧闻",
    "multi_source_official": "多个独立来源支持, 且官方已确认",
    "multi_source": "多个独立来源支持, 尚无官方确认",
    "official_alone": "官方已确认, 但独立来源不足",
    "few_sources": "支持该说法的独立来源不足",
    "no_evidence": "没有可用证据",
}
_EN: dict[BaseRule, str] = {
    "denied_or_conflict": "a source denies the claim or sources contradict one another",
    "stale": "every page that supports it is older than 30 days, so this looks like old news",
    "multi_source_official": "several independent sources and an official page support it",
    "multi_source": "several independent sources support it, without an official page",
    "official_alone": "an official page confirms it, but independent sources are too few",
    "few_sources": "too few independent sources support it",
    "no_evidence": "no usable evidence was found",
}


def _evidence_parts(findings: Findings, zh: bool) -> list[str]:
    refs = findings.references
    groups: tuple[tuple[str, str, list[SearchReference]], ...] = (
        ("官方", "official", [r for r in refs if r.official and r.stance == "supports"]),
        ("支持", "supporting", [r for r in refs if not r.official and r.stance == "supports"]),
        ("否认", "denying", [r for r in refs if r.stance == "denies"]),
        ("未证实", "unconfirmed", [r for r in refs if r.stance == "hedges"]),
    )
    parts = [f"{z if zh else e} {''.join(f'[{r.reference_number}]' for r in rs)}" for z, e, rs in groups if rs]
    count = findings.independent_sources
    return [f"{count} 个独立来源" if zh else f"independent sources: {count}", *parts]
