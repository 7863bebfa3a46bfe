"""The collect step: queries all sources about the asset concurrently. A failed source is listed with its reason."""

from __future__ import annotations

from agents.core.case_core import Replies
from agents.core.failures import failed
from agents.core.step import Asked, On, StepFailure
from agents.research.answer_calls import anything
from agents.research.source_data import answers_of, collected, questions_to_sources
from agents.research.turn import COLLECT, Turn
from schemas.effects import Failure
from schemas.events import Event
from schemas.research_events import AnalysisPlanned, DataCollected


class Collect:
    """Succeeds if any source gave data. If none did, retries while retries are left, then continues with no data."""

    name = COLLECT
    takes = (On(AnalysisPlanned),)
    emits = (DataCollected,)

    def ask(self, turn: Turn) -> Asked:
        return tuple(questions_to_sources(turn).values())

    def tell(self, turn: Turn, replies: Replies) -> Event:
        answered = answers_of(turn, replies)
        data = collected(turn, answered)
        worth = [r for r in answered.values() if isinstance(r, Failure) and r.retryable]
        if worth and not anything(data):
            failure = max(worth, key=lambda f: f.retry_after_s or 0.0)
            if failed(turn, self.name, failure, now=replies.at or turn.head_at).outcome == "retry":
                raise StepFailure(failure)
        return data


STEP = Collect()
