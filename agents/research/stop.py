"""The stop step: ends a turn that its user stopped. The question stays in the history, without an answer."""

from __future__ import annotations

from agents.core.case_core import Replies
from agents.core.step import Asked, On
from agents.research.turn import Turn
from schemas.events import CancelRequested, Event
from schemas.research_events import AnswerStopped


class Stop:
    """End the turn; needs no effect."""

    name = "stop"
    takes = (On(CancelRequested),)
    emits = (AnswerStopped,)

    def ask(self, turn: Turn) -> Asked:
        return self.tell(turn, turn.replies)

    def tell(self, turn: Turn, replies: Replies) -> Event:
        asked: CancelRequested = turn.head
        return AnswerStopped(requested_by=asked.requested_by, reason=asked.reason)


STEP = Stop()
