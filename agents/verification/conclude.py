"""The conclude step: ends a case that the gate kept off the deep path, with triage's draft as its signal."""

from __future__ import annotations

from agents.core.case import Case
from agents.core.step import AskOnly, On
from agents.signal import preliminary_signal
from schemas.events import CaseTriaged, Event, SignalSynthesized, StoryChecked


class ConcludePreliminary(AskOnly):
    """Publishes triage's draft. Needs no effect."""

    name = "conclude"
    takes = (On(CaseTriaged, route="preliminary"), On(StoryChecked, route="preliminary"))
    emits = (SignalSynthesized,)

    def ask(self, case: Case) -> Event:
        return SignalSynthesized(signal=preliminary_signal(case), path="preliminary")


STEP = ConcludePreliminary()
