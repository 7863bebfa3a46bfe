"""The evidence of a single pass, and its signal when the budget denies the last model call."""

from __future__ import annotations

from msgspec.structs import replace

from agents.core.case import Case, Replies
from agents.core.step import StepFailure
from agents.judging import Judged, judged_case
from agents.planning.rounds import judged_again, skipped_flags
from agents.signal import judged_signal
from schemas.effects import SearchReply
from schemas.events import Event, ProviderOutcome, SignalSynthesized


def evidence_of_pass(case: Case, replies: Replies, searched: tuple[ProviderOutcome, ...] = ()) -> Judged:
    """Judge the results of this step's searches together with what the deep path found before it failed.

    What a critic read by then stands alone: nobody has read the later pages.
    """
    if case.critique is not None and case.critique.stances is not None:
        return judged_case(case)
    found = replies.all(SearchReply)
    query = next((r.query for r in found), "")
    findings = judged_again(case, query=query, answers=[r.results for r in found], searched_at=replies.at)
    return judged_case(case, findings=findings, outcomes=searched, unread=True)


def unpaid(case: Case, replies: Replies, stop: StepFailure) -> Event:
    """Return a signal that needs no further call: triage's draft, judged by the evidence that was already paid for.

    Raises:
        StepFailure: ``stop``, if it is not a denial by the budget, or if there is no draft.
    """
    if stop.failure.kind != "budget" or case.triaged is None:
        raise stop
    answered = tuple(
        ProviderOutcome(provider=r.provider, query=r.query, hits=len(r.results)) for r in replies.all(SearchReply)
    )
    judged = evidence_of_pass(case, replies, answered)
    signal = judged_signal(
        case,
        replies,
        case.draft,
        replace(judged, why="budget") if judged.why == "not_planned" else judged,
        memory=case.context.entries if case.context else (),
        extra_flags=(*skipped_flags(s.outcomes for s in case.searches), *(() if case.degraded else _NOT_DEEP)),
    )
    return SignalSynthesized(
        signal=signal, path="degraded" if case.degraded else "single_pass", adjustments=signal.adjustments
    )


_NOT_DEEP = ("not_deep_analysed",)
