"""The degrade step: passes a case whose deep path failed to the single pass. The signal states the reason."""

from __future__ import annotations

from agents.core.case import Case
from agents.core.step import AskOnly, On
from agents.verification.second_look import unchanged
from schemas.events import CaseDegraded, CaseDropped, Event, StepFailed


class DegradeCase(AskOnly):
    """Records the kind of the failure as the reason, never its text: error text is not content. A second look ends."""

    name = "degrade"
    takes = (On(StepFailed, outcome="degrade"),)
    emits = (CaseDegraded, CaseDropped)

    def ask(self, case: Case) -> Event:
        last: StepFailed = case.head
        if case.look is not None:
            return unchanged(f"{last.step} failed ({last.failure.kind})")
        return CaseDegraded(reason=last.failure.kind, failed_step=last.step)


STEP = DegradeCase()
