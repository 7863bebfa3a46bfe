"""The collect step: queries all sources about the asset concurrently. A failed source is listed with its reason."""

from __future__ import annotations

from agents.core.case_core import Replies
from agents.core.failures import failed
from agents.core.step import On, StepFailure, StepRequest
from agents.research.answer_calls import has_any_data
from agents.research.source_data import collect_data, source_queries, source_replies
from agents.research.turn import COLLECT, Turn
from schemas.effects import Failure
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
        worth = [r for r in answered.values() if isinstance(r, Failure) and r.retryable]
        if worth and not has_any_data(data):
            failure = max(worth, key=lambda f: f.retry_after_s or 0.0)
            if failed(turn, self.name, failure, now=replies.at or turn.head_at).outcome == "retry":
                raise StepFailure(failure)
        return data


STEP = Collect()
