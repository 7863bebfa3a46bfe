"""Degrade: the deep path gave up on a step; the single-pass analysis takes over, and the signal will say why."""

from __future__ import annotations

from agents.core.case import Case, Replies
from agents.core.step import Asked, On
from schemas.events import CaseDegraded, Event, StepFailed


class DegradeCase:
    """The reason is the kind of the failure, never its text: error text is no content."""

    name = "degrade"
    takes = (On(StepFailed, outcome="degrade"),)
    emits = (CaseDegraded,)

    def ask(self, case: Case) -> Asked:
        return self.tell(case, case.replies)

    def tell(self, case: Case, replies: Replies) -> Event:
        last: StepFailed = case.head
        return CaseDegraded(reason=last.failure.kind, failed_step=last.step)


STEP = DegradeCase()
