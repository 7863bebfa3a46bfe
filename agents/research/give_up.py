"""The give-up step: ends a turn whose answer no model wrote before the deadline.

Code answers from the available data; without any, the turn fails with the reason.
"""

from __future__ import annotations

from agents.core.step import AskOnly, On
from agents.research.fallback_answer import answer_by_code
from agents.research.source_data import with_data_so_far
from agents.research.turn import Turn
from schemas.events import CaseFailed, Event, StepFailed
from schemas.research_events import AnswerGiven


class GiveUp(AskOnly):
    """Ends the turn without an effect. The user gets the results that were paid for, although no model wrote the answer."""

    name = "give_up"
    takes = (On(StepFailed, outcome="give_up"),)
    emits = (AnswerGiven, CaseFailed)

    def ask(self, turn: Turn) -> Event:
        failed: StepFailed = turn.head
        if (ending := answer_by_code(with_data_so_far(turn), failed.failure)) is not None:
            return ending
        reason = f"{failed.failure.kind}: {failed.failure.message}"
        return CaseFailed(reason=reason, failed_step=failed.step, attempts=failed.attempt)


STEP = GiveUp()
