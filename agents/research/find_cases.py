"""The find-cases step: searches the signals of the news pipeline, with their verdicts and quotes."""

from __future__ import annotations

from msgspec.structs import replace

from agents.core.answers import one_line
from agents.core.case_core import Replies
from agents.core.failures import raise_to_retry
from agents.core.step import On, StepRequest, only_reply
from agents.research.answers import MAX_SIGNALS, case_lookup
from agents.research.turn import Turn
from schemas.effects import Failure, SignalsReply
from schemas.events import Event
from schemas.research_events import CasesFound, QuestionRouted


class FindCases:
    """Retries a failed look-up while retries are left. Then the answer says that it failed."""

    name = "find_cases"
    takes = (On(QuestionRouted, route="cases"),)
    emits = (CasesFound,)

    def ask(self, turn: Turn) -> StepRequest:
        return case_lookup(turn)

    def tell(self, turn: Turn, replies: Replies) -> Event:
        reply = only_reply(replies)
        if isinstance(reply, SignalsReply):
            signals = reply.signals[:MAX_SIGNALS]
            return CasesFound(signals=tuple(replace(s, number=n) for n, s in enumerate(signals, start=1)))
        assert isinstance(reply, Failure)
        raise_to_retry(turn, self.name, (reply,), now=replies.at)
        return CasesFound(unavailable=(f"signals: {reply.kind} ({one_line(reply.message, 200)})",))


STEP = FindCases()
