"""The answer step: GeneralAnalysisAgent writes the final answer from the available results, possibly none."""

from __future__ import annotations

from agents.analysis.blocks import AGENTS, BLOCKS, SCALES, figures_in
from agents.analysis.numbers import unsupported_numbers
from agents.analysis.words import distinct_lines, is_repeated_in, paragraphs
from agents.core.answers import answer, one_line
from agents.core.case_core import Replies
from agents.core.failures import raise_to_retry
from agents.core.step import On, StepFailure, StepRequest, only_reply
from agents.research.agent_calls import found_cases, searched_text, signal_text
from agents.research.answer_calls import answer_call, bounded_confidence, results_of
from agents.research.answer_directly import direct_answer
from agents.research.answers import CasesAnswer, FinalAnswer
from agents.research.case_answer import answer_from_cases, cases_written, half_of_cases
from agents.research.citations import cited_in, cited_only, sources_of, used
from agents.research.fallback_answer import answer_by_code, metadata_of
from agents.research.results import supported_words
from agents.research.source_data import with_data_so_far
from agents.research.turn import ANSWER, Turn
from schemas.effects import Failure
from schemas.events import Event, StepFailed
from schemas.research_events import AgentResult, AgentsReported, AnswerGiven, AnswerStopped, CasesFound, FinishRequested


class Answer:
    """The last resort of a turn. If the model fails, code writes an answer; without any data, the turn fails."""

    name = ANSWER
    takes = (On(AgentsReported), On(CasesFound), On(FinishRequested), On(StepFailed, outcome="degrade"))
    emits = (AnswerGiven, AnswerStopped)

    def ask(self, turn: Turn) -> StepRequest:
        if turn.stopped is not None:  # stopped, then asked to finish: the stop wins
            return AnswerStopped(requested_by=turn.stopped.requested_by, reason=turn.stopped.reason)
        if turn.routed is not None and turn.routed.direct_answer:
            return direct_answer(turn)  # routed before somebody asked to finish
        if turn.from_cases:
            return answer_from_cases(turn)
        return answer_call(with_data_so_far(turn))

    def tell(self, turn: Turn, replies: Replies) -> Event:
        turn = with_data_so_far(turn)
        try:
            if turn.from_cases:
                return cases_written(turn, answer(only_reply(replies), CasesAnswer))
            return _written(turn, answer(only_reply(replies), FinalAnswer))
        except StepFailure as stop:
            raise_to_retry(turn, ANSWER, (stop.failure,), now=replies.at)
            if (ending := answer_by_code(turn, stop.failure)) is None:
                raise
            return ending


def _written(turn: Turn, response: FinalAnswer) -> AnswerGiven:
    results, sources = results_of(turn), sources_of(turn.data, zh=turn.language == "zh")
    text, removed = cited_only(paragraphs(response.answer, 12_000), sources)
    summary, more = cited_only(one_line(response.summary, 400), sources)
    listed = [cited_only(line, sources) for line in distinct_lines(response.key_insights, 8, 300)]
    insights = tuple(line for line, _ in listed if line and not is_repeated_in(line, text))
    cited = {source.number for source in cited_in((text,), sources)}
    facts = half_of_cases(turn, cited, analysed=bool(results))
    shown = (text, summary, *insights)
    if not text:
        raise StepFailure(Failure(kind="invalid_output", message="the answer has no text", retryable=True))
    unsupported = _unsupported(turn, results, "\n".join(shown))
    return AnswerGiven(
        answer="\n\n".join(filter(None, (text, facts))),
        summary=summary or one_line(text, 160),
        key_insights=insights,
        confidence=bounded_confidence(response.confidence, turn, results, unsupported=bool(unsupported)),
        sources=used((*shown, facts), sources),
        metadata=metadata_of(turn, results, unsupported, removed + more + sum(n for _, n in listed)),
    )


def _unsupported(turn: Turn, results: tuple[AgentResult, ...], words: str) -> tuple[str, ...]:
    figures = [r.confidence for r in results]
    texts = [turn.asked.message, *map(supported_words, results)]
    if turn.data is not None:
        figures += [v.value for v in figures_in(turn.data, BLOCKS).values()]
        texts += [signal_text(s) for s in turn.data.signals]
        texts += map(searched_text, found_cases(turn))
    scales = {mark for agent in AGENTS for mark in SCALES[agent]}
    return unsupported_numbers(words, figures, texts=texts, scales=scales)


STEP = Answer()
