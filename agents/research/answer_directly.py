"""The direct-answer step: SuperAgent's reply is the answer. No data was read, and no source is cited."""

from __future__ import annotations

from agents.analysis.numbers import unsupported_numbers
from agents.core.answers import one_line
from agents.core.step import AskOnly, On
from agents.research.turn import Turn
from schemas.events import Event
from schemas.research_events import AnswerGiven, AnswerMetadata, QuestionRouted


class AnswerDirectly(AskOnly):
    """Answers without an effect. Numbers that are neither in the question nor in the chat are listed as unsupported."""

    name = "answer_directly"
    takes = (On(QuestionRouted, route="answer"),)
    emits = (AnswerGiven,)

    def ask(self, turn: Turn) -> Event:
        return direct_answer(turn)


def direct_answer(turn: Turn) -> AnswerGiven:
    """Return the answer that the routing gave.

    Raises:
        LookupError: the routing gave no answer.
    """
    if turn.routed is None or not turn.routed.direct_answer:
        raise LookupError(f"turn {turn.case_id} was not answered directly")
    text = turn.routed.direct_answer
    messages = (turn.asked.message, *(m.content for m in turn.asked.history))
    return AnswerGiven(
        answer=text,
        summary=one_line(text, 160),
        key_insights=(),
        confidence=turn.routed.confidence,
        sources=(),
        metadata=AnswerMetadata(
            path="direct",
            provider_mode=turn.config.provider_mode,
            agents=("SuperAgent",),
            unsupported_numbers=unsupported_numbers(text, (), texts=messages, scales=(0, 100)),
            as_of=turn.as_of,
        ),
    )


STEP = AnswerDirectly()
