"""Conclude: a case that the gate kept out ends with its preliminary signal, and says so."""

from __future__ import annotations

from agents.case import Case, Replies
from agents.signal import preliminary_signal
from agents.step import Asked, On
from schemas.events import CaseTriaged, Event, SignalSynthesized


class ConcludePreliminary:
    """Needs nothing from the world."""

    name = "conclude"
    takes = (On(CaseTriaged, route="preliminary"),)
    emits = (SignalSynthesized,)

    def ask(self, case: Case) -> Asked:
        return self.tell(case, case.replies)

    def tell(self, case: Case, replies: Replies) -> Event:
        return SignalSynthesized(signal=preliminary_signal(case), path="preliminary")


STEP = ConcludePreliminary()
