"""The collect step: queries all sources about the asset concurrently. A failed source is listed with its reason."""

from __future__ import annotations

from agents.core.case_core import Replies
from agents.core.failures import raise_to_retry
from agents.core.step import On, StepRequest
from agents.research.answer_calls import has_any_data
from agents.research.source_data import collect_data, source_queries, source_replies
from agents.research.turn import COLLECT, Turn
from schemas.events import Event
from schemas.research_events import AnalysisPlanned, DataCollected


class Collect:
    """Succeeds if any source returned data. Otherwise retries while retries are left, then continues without data."""

    name = COLLECT
    takes = (On(AnalysisPlanned),)
    emits = (DataCollected,)

    def ask(self, turn: Turn) -> StepRequest:
        return tuple(source_queries(turn).values())

    def tell(self, turn: Turn, replies: Replies) -> Event:
        answered = source_replies(turn, replies)
        data = collect_data(turn, answered)
        if not has_any_data(data):
            raise_to_retry(turn, self.name, answered.values(), now=replies.at)
        return data


STEP = Collect()
