"""The give-up step: ends a case whose last resort failed, or that a person cancelled.

A triaged case that was not cancelled publishes its preliminary signal, marked with the failure. Any other case ends as
``CaseFailed`` and leaves a dead letter.
"""

from __future__ import annotations

from msgspec.structs import replace

from agents.core.case import Case, Replies
from agents.core.step import Asked, On
from agents.planning.rounds import skipped_flags
from agents.signal import preliminary_signal
from schemas.events import CancelRequested, CaseFailed, Event, SignalSynthesized, StepFailed


class GiveUp:
    """Needs no effect; the runtime writes the dead letter."""

    name = "give_up"
    takes = (On(StepFailed, outcome="give_up"), On(CancelRequested))
    emits = (SignalSynthesized, CaseFailed)

    def ask(self, case: Case) -> Asked:
        return self.tell(case, case.replies)

    def tell(self, case: Case, replies: Replies) -> Event:
        head = case.head
        if isinstance(head, CancelRequested):
            return CaseFailed(reason=f"cancelled by {head.requested_by}: {head.reason}", failed_step="", attempts=0)
        failed: StepFailed = head
        if case.triaged is not None:
            return _unverified(case, failed)
        reason = f"{failed.failure.kind}: {failed.failure.message}"
        return CaseFailed(reason=reason, failed_step=failed.step, attempts=failed.attempt)


def _unverified(case: Case, failed: StepFailed) -> SignalSynthesized:
    signal = preliminary_signal(case)
    skipped = skipped_flags(s.outcomes for s in case.searches)
    flags = (*signal.risk_flags, f"degraded:{failed.failure.kind}", *skipped)
    return SignalSynthesized(signal=replace(signal, risk_flags=tuple(dict.fromkeys(flags))), path="degraded")


STEP = GiveUp()
