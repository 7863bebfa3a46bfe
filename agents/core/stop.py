"""The stop step: ends a chat turn or an investigation that its user stopped. The question stays without an answer."""

from __future__ import annotations

from agents.core.case_core import CaseCore
from agents.core.step import AskOnly, On
from schemas.events import CancelRequested, Event
from schemas.research_events import AnswerStopped


class Stop(AskOnly):
    """End the case; needs no effect."""

    name = "stop"
    takes = (On(CancelRequested),)
    emits = (AnswerStopped,)

    def ask(self, case: CaseCore) -> Event:
        asked: CancelRequested = case.head
        return AnswerStopped(requested_by=asked.requested_by, reason=asked.reason)


STEP = Stop()
