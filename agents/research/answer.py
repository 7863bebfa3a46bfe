"""Answer: GeneralAnalysisAgent writes the turn up, from anything between nothing and everything."""

from __future__ import annotations

from agents.case_core import Replies
from agents.failures import failed
from agents.research.agent_calls import signal_text
from agents.research.answer_calls import agents_missing, results_of, writing
from agents.research.answer_directly import direct_answer
from agents.research.answers import FinalAnswer
from agents.research.blocks import AGENTS, BLOCKS, SCALES, given
from agents.research.bounds import anything, bounded_confidence, without_data
from agents.research.by_code import put_together
from agents.research.citations import cited_only, sources_of, used
from agents.research.numbers import unsupported_numbers
from agents.research.results import supported_words
from agents.research.turn import ANSWER, Turn
from agents.research.words import paragraphs, several
from agents.step import Asked, On, StepFailure, only_reply
from agents.verification.answers import answer, one_line
from schemas.effects import Failure
from schemas.events import Event, StepFailed
from schemas.research_events import AgentResult, AgentsReported, AnswerGiven, AnswerMetadata, FinishRequested

WRITER = "GeneralAnalysisAgent"


class Answer:
    """The last resort of a turn. Where its model does not answer, code tells what is there; with nothing, the turn fails."""

    name = ANSWER
    takes = (On(AgentsReported), On(FinishRequested), On(StepFailed, outcome="degrade"))
    emits = (AnswerGiven,)

    def ask(self, turn: Turn) -> Asked:
        if turn.routed is not None and turn.routed.direct_answer:
            return direct_answer(turn)  # it was there already when somebody asked to finish
        return writing(turn)

    def tell(self, turn: Turn, replies: Replies) -> Event:
        try:
            return _written(turn, answer(only_reply(replies), FinalAnswer))
        except StepFailure as stop:
            return _without_writer(turn, replies, stop.failure)


def _written(turn: Turn, said: FinalAnswer) -> AnswerGiven:
    results, sources = results_of(turn), sources_of(turn.data)
    text, removed = cited_only(paragraphs(said.answer, 12_000), sources)
    summary, more = cited_only(one_line(said.summary, 400), sources)
    insights = [cited_only(line, sources) for line in several(said.key_insights, 8, 300)]
    shown = (text, summary, *(line for line, _ in insights))
    if not text:
        raise StepFailure(Failure(kind="invalid_output", message="the answer has no text", retryable=True))
    unsupported = _unsupported(turn, results, "\n".join(shown))
    return AnswerGiven(
        answer=text,
        summary=summary or one_line(text, 160),
        key_insights=tuple(line for line, _ in insights if line),
        confidence=bounded_confidence(said.confidence, turn, results, unsupported=bool(unsupported)),
        sources=used(shown, sources),
        metadata=_metadata(turn, results, unsupported, removed + more + sum(n for _, n in insights)),
    )


def _without_writer(turn: Turn, replies: Replies, failure: Failure) -> AnswerGiven:
    results = results_of(turn)
    something = results or (turn.data is not None and anything(turn.data))
    retried = failed(turn, ANSWER, failure, now=replies.at or turn.head_at).outcome == "retry"
    if retried or not something:
        raise StepFailure(failure)
    text, summary, insights = put_together(turn, results, failure)
    return AnswerGiven(
        answer=text,
        summary=summary,
        key_insights=insights,
        confidence=bounded_confidence(1.0, turn, results, unsupported=False, by_code=True),
        sources=sources_of(turn.data),
        metadata=_metadata(turn, results, (), 0, writer=False),
    )


def _metadata(
    turn: Turn, results: tuple[AgentResult, ...], unsupported: tuple[str, ...], removed: int, *, writer: bool = True
) -> AnswerMetadata:
    lacking = (*agents_missing(turn, results), *(() if writer else (WRITER,)))
    unavailable = turn.data.unavailable if turn.data else ("data: none was collected",)
    whole = not (lacking or without_data(turn) or turn.finishing)
    return AnswerMetadata(
        path="complete" if whole else "partial",
        provider_mode=turn.config.provider_mode,
        agents=(*(r.agent_name for r in results), *((WRITER,) if writer else ())),
        agents_missing=lacking,
        unavailable=unavailable,
        unsupported_numbers=unsupported,
        citations_removed=removed,
        as_of=turn.as_of,
    )


def _unsupported(turn: Turn, results: tuple[AgentResult, ...], words: str) -> tuple[str, ...]:
    figures = [r.confidence for r in results]
    texts = [turn.asked.message, *map(supported_words, results)]
    if turn.data is not None:
        figures += [v.value for v in given(turn.data, BLOCKS).values()]
        texts += [signal_text(s) for s in turn.data.signals]
    scales = {mark for agent in AGENTS for mark in SCALES[agent]}
    return unsupported_numbers(words, figures, texts=texts, scales=scales)


STEP = Answer()
