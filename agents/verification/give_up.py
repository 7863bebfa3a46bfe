"""Give up: a case that nothing worked for, or that a person cancelled, ends without a signal and says why."""

from __future__ import annotations

from agents.case import Case, Replies
from agents.step import Asked, On
from schemas.events import CancelRequested, CaseFailed, Event, StepFailed


class GiveUp:
    """Needs nothing from the world; the runtime writes the dead letter."""

    name = "give_up"
    takes = (On(StepFailed, outcome="give_up"), On(CancelRequested))
    emits = (CaseFailed,)

    def ask(self, case: Case) -> Asked:
        return self.tell(case, case.replies)

    def tell(self, case: Case, replies: Replies) -> Event:
        head = case.head
        if isinstance(head, CancelRequested):
            return CaseFailed(reason=f"cancelled by {head.requested_by}: {head.reason}", failed_step="", attempts=0)
        failed: StepFailed = head
        reason = f"{failed.failure.kind}: {failed.failure.message}"
        return CaseFailed(reason=reason, failed_step=failed.step, attempts=failed.attempt)


STEP = GiveUp()
