"""Give up: not even an answer from what was there could be given before the deadline. The turn fails, and says why."""

from __future__ import annotations

from agents.case_core import Replies
from agents.research.turn import Turn
from agents.step import Asked, On
from schemas.events import CaseFailed, Event, StepFailed


class GiveUp:
    """Needs nothing from the world; the runtime writes the dead letter."""

    name = "give_up"
    takes = (On(StepFailed, outcome="give_up"),)
    emits = (CaseFailed,)

    def ask(self, turn: Turn) -> Asked:
        return self.tell(turn, turn.replies)

    def tell(self, turn: Turn, replies: Replies) -> Event:
        failed: StepFailed = turn.head
        reason = f"{failed.failure.kind}: {failed.failure.message}"
        return CaseFailed(reason=reason, failed_step=failed.step, attempts=failed.attempt)


STEP = GiveUp()
