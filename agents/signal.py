"""The construction of signals: no other module turns a case into a signal."""

from __future__ import annotations

from datetime import datetime, timedelta

from agents.core.case import Case, Replies, denied_kinds
from agents.evidence.policy import Conclusion, conclude, notes
from schemas.evidence import Findings, MemoryEntry
from schemas.ids import content_hash, signal_id
from schemas.signals import (
    SIGNAL_SCHEMA_VERSION,
    Draft,
    PromptUse,
    Signal,
    SignalEvidence,
    SignalStatus,
    Timeframe,
)

HORIZON_S: dict[Timeframe, int] = {"short": 24 * 3600, "medium": 7 * 24 * 3600, "long": 30 * 24 * 3600}
"""Seconds in each timeframe: a day, a week, a month (30 days). The backtest measures returns over them."""


def preliminary_signal(case: Case) -> Signal:
    """Return the signal of a case that the gate kept off the deep path: triage's draft, flagged as such."""
    return _drafted(case, case.replies, status="preliminary_only", at=case.head_at)


def first_signal(case: Case, replies: Replies) -> Signal:
    """Return the first signal of a case that goes on: triage's unverified draft. ``replies`` are triage's."""
    return _drafted(case, replies, status="preliminary", at=replies.at or case.head_at)


def _drafted(case: Case, replies: Replies, *, status: SignalStatus, at: datetime) -> Signal:
    low = ("confidence_low",) if case.draft.confidence < 0.4 else ()
    flags = (*case.draft.risk_flags, "not_deep_analysed", *case_flags(case), *budget_flags(case, replies), *low)
    return _signal(case, case.draft, status=status, flags=flags, text=case.draft.notes, at=at, replies=replies)


def judged_signal(
    case: Case,
    replies: Replies,
    draft: Draft,
    findings: Findings | None,
    *,
    status: SignalStatus,
    chosen: float | None = None,
    memory: tuple[MemoryEntry, ...] = (),
    extra_flags: tuple[str, ...] = (),
    reason: str = "",
) -> Signal:
    """Return the signal of a case after its evidence was judged, bounded by the rules of :mod:`agents.evidence.policy`.

    ``draft`` is the starting point of the rules, ``chosen`` the change of confidence that the model chose, and
    ``reason`` the model's own words.
    """
    verdict = case.critique.verdict if case.critique else None
    flags = (*extra_flags, *case_flags(case), *budget_flags(case, replies))
    end = conclude(draft, findings, verdict=verdict, memory=memory, chosen=chosen, extra_flags=flags)
    text = notes(case.language, draft.confidence, end.confidence, end, findings)
    return _signal(
        case,
        draft,
        status=status,
        flags=end.risk_flags,
        text=f"{text}. {reason}" if reason else text,
        at=replies.at or case.head_at,
        replies=replies,
        findings=findings,
        end=end,
    )


def case_flags(case: Case) -> tuple[str, ...]:
    """Return the flags that follow from the course of the case, not from its evidence."""
    flags = []
    if case.triaged is not None and case.triaged.injection_suspected:
        flags.append("injection_suspected")
    if case.context is not None and case.context.memory == "unavailable":
        flags.append("memory_unavailable")
    if case.degraded is not None:
        flags.append(f"degraded:{case.degraded.reason}")
    if case.config.provider_mode != "live":
        flags.append("offline")
    return tuple(flags)


def budget_flags(case: Case, replies: Replies) -> tuple[str, ...]:
    """Return one flag for each kind of call that the budget denied. ``replies`` are the ones not folded yet."""
    denied = dict.fromkeys((*case.denied, *denied_kinds(replies.calls)))
    return tuple(dict.fromkeys("model_skipped:budget" if k == "model" else "search_skipped:budget" for k in denied))


def _signal(
    case: Case,
    draft: Draft,
    *,
    status: SignalStatus,
    flags: tuple[str, ...],
    text: str,
    at: datetime,
    replies: Replies,
    findings: Findings | None = None,
    end: Conclusion | None = None,
) -> Signal:
    evidence = evidence_of(findings)
    horizon = HORIZON_S[draft.timeframe]
    prompts, model = _made_with(case, replies)
    return Signal(
        schema_version=SIGNAL_SCHEMA_VERSION,
        signal_id=signal_id(case.run_id, case.case_id),
        revision=1,
        supersedes=None,
        status=status,
        case_id=case.case_id,
        summary=draft.summary,
        event_type=draft.event_type,
        asset=draft.asset,
        asset_name=draft.asset_name,
        symbol=None,
        venue=None,
        action=end.action if end else draft.action,
        direction=end.direction if end else draft.direction,
        confidence=end.confidence if end else draft.confidence,
        confidence_calibrated=None,
        preliminary_confidence=draft.confidence,
        strength=draft.strength,
        timeframe=draft.timeframe,
        horizon=horizon,
        valid_until=at + timedelta(seconds=horizon),
        decided_at=at,
        published_at=case.news.published_at,
        reference_price=_reference_price(case),
        notes=text,
        links=tuple(dict.fromkeys(e.url for e in evidence)),
        evidence=evidence,
        independent_sources=findings.independent_sources if findings else 0,
        risk_flags=tuple(dict.fromkeys(flags)),
        adjustments=end.adjustments if end else (),
        prompt_versions=prompts,
        model=model,
        provider_mode=case.config.provider_mode,
        news_source=case.news.source,
        language=case.language,
    )


def evidence_of(findings: Findings | None) -> tuple[SignalEvidence, ...]:
    return tuple(
        SignalEvidence(
            url=r.url,
            hash=content_hash((r.title, r.snippet)),
            stance=r.stance,
            reference_number=r.reference_number,
            official=r.official,
            independent=r.independent,
            published_at=r.published_at,
        )
        for r in (findings.references if findings else ())
    )


def _made_with(case: Case, replies: Replies) -> tuple[tuple[PromptUse, ...], str | None]:
    # The calls of the closing event are not folded yet, so they are added to those of the case.
    calls = [c for c in replies.calls if c.kind == "model" and c.prompt_name is not None]
    now = (PromptUse(name=c.prompt_name or "", version=c.prompt_version or "", hash=c.prompt_hash or "") for c in calls)
    models = [c.model for c in calls if c.model]
    return tuple(dict.fromkeys((*case.prompts, *now))), models[-1] if models else case.model


def _reference_price(case: Case) -> float | None:
    prices = [v for s in case.searches for v in s.market if v.name == "price" and v.unit.upper() == "USD"]
    return prices[-1].value if prices else None
