"""The findings of a single pass, and its signal when the budget denies the last model call."""

from __future__ import annotations

from agents.core.case import Case, Replies
from agents.core.step import StepFailure
from agents.evidence.claim import claim_of
from agents.evidence.findings import assess
from agents.planning.rounds import judged_as, skipped_flags
from agents.signal import judged_signal
from schemas.effects import SearchReply
from schemas.events import Event, SignalSynthesized
from schemas.evidence import Findings
from schemas.signals import Draft


def findings_of(case: Case, draft: Draft, replies: Replies, query: str) -> Findings:
    """Judge the results of this step's searches by the rules of evidence."""
    hits = tuple(hit for reply in replies.all(SearchReply) for hit in reply.results)
    return assess(claim_of(judged_as(case, draft)), hits, query=query, snapshot=case.config)


def unpaid(case: Case, replies: Replies, stop: StepFailure) -> Event:
    """Return a signal that needs no further call: triage's draft, judged by the evidence that was already paid for.

    Raises:
        StepFailure: ``stop``, if it is not a denial by the budget, or if there is no draft.
    """
    if stop.failure.kind != "budget" or case.triaged is None:
        raise stop
    found = replies.all(SearchReply)
    earlier = case.searches[-1].findings if case.searches else None
    signal = judged_signal(
        case,
        replies,
        case.draft,
        findings_of(case, case.draft, replies, found[0].query) if found else earlier,
        status="degraded" if case.degraded else "preliminary_only",
        memory=case.context.entries if case.context else (),
        extra_flags=(*skipped_flags(s.outcomes for s in case.searches), *(() if case.degraded else _NOT_DEEP)),
    )
    return SignalSynthesized(
        signal=signal, path="degraded" if case.degraded else "single_pass", adjustments=signal.adjustments
    )


_NOT_DEEP = ("not_deep_analysed",)
