"""The give-up step: ends a case whose last resort failed, or that a person cancelled.

A triaged case that was not cancelled publishes triage's draft, judged by the evidence so far and marked with the failure.
A second look leaves the signal unchanged. Any other case ends as ``CaseFailed`` and leaves a dead letter.
"""

from __future__ import annotations

from agents.core.case import Case
from agents.core.step import AskOnly, On
from agents.judging import judge_case, unchecked_case
from agents.planning.rounds import skipped_flags
from agents.signal import judged_signal
from agents.verification.second_look import unchanged
from schemas.events import CancelRequested, CaseDropped, CaseFailed, Event, SignalSynthesized, StepFailed


class GiveUp(AskOnly):
    """Ends the case without an effect. The runtime writes the dead letter."""

    name = "give_up"
    takes = (On(StepFailed, outcome="give_up"), On(CancelRequested))
    emits = (SignalSynthesized, CaseFailed, CaseDropped)

    def ask(self, case: Case) -> Event:
        head = case.head
        if isinstance(head, CancelRequested):
            return CaseFailed(reason=f"cancelled by {head.requested_by}: {head.reason}", failed_step="", attempts=0)
        failed: StepFailed = head
        if case.look is not None:
            return unchanged(f"{failed.step} failed ({failed.failure.kind})")
        if case.triaged is not None:
            return _ended(case, failed)
        reason = f"{failed.failure.kind}: {failed.failure.message}"
        return CaseFailed(reason=reason, failed_step=failed.step, attempts=failed.attempt)


def _ended(case: Case, failed: StepFailed) -> SignalSynthesized:
    # Pages found before the failure still count, above all those that deny the claim.
    flags = (f"degraded:{failed.failure.kind}", *skipped_flags(s.outcomes for s in case.searches))
    judged = judge_case(case, unread=True) if case.searches else unchecked_case(f"degraded:{failed.failure.kind}")
    signal = judged_signal(case, case.replies, case.draft, judged, extra_flags=flags)
    return SignalSynthesized(signal=signal, path="degraded", adjustments=signal.adjustments)


STEP = GiveUp()
