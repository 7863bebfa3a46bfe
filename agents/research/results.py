"""The result of an agent, built from its logged reply: checked, bounded, with every value filled in by code.

An agent weighs figures but does not state them. Its confidence is limited by the share of its indicators that have
data: at most 0.3 with none of them, 0.9 with all.
"""

from __future__ import annotations

from msgspec.structs import replace

from agents.analysis.blocks import (
    EXPECTED,
    SCALES,
    blocks_of,
    figures_in,
    missing_indicators,
    own_figures,
    rounded_figure,
)
from agents.analysis.numbers import unsupported_numbers
from agents.analysis.words import distinct_lines, paragraphs
from agents.core.answers import answer, clamped
from agents.core.step import StepFailure, invalid_output
from agents.research.agent_calls import LAST_BARS, agent_call, agent_of, agents_to_ask, sent, signal_text, task_of
from agents.research.answers import AgentAnswer, IndicatorAnswer
from agents.research.turn import Turn
from schemas.calls import Call
from schemas.effects import CallModel, Failure, ModelReply, request_hash, widened
from schemas.evidence import MarketValue
from schemas.ids import canonical_json
from schemas.research_events import AgentName, AgentResult, DataCollected, Indicator, Level

LEAST_CEILING = 0.3
CEILING = 0.9
MAX_RESPONSE_CHARACTERS = 20_000


def agent_result(turn: Turn, call: Call) -> AgentResult | Failure:
    """Return the checked result of one call of ``analyze``, or the failure. Pure.

    The turn may be in any state after its data was collected.
    """
    agent = agent_of(call.prompt_name)
    if agent is None or turn.data is None or turn.plan is None:
        return invalid_output(f"{call.prompt_name!r} is no agent's call of this turn")
    if isinstance(call.reply, Failure):
        return call.reply
    try:
        response = answer(call.reply, AgentAnswer)
    except StepFailure as stop:
        return stop.failure
    return _checked(turn, turn.data, agent, response, call)


def fits(reply: ModelReply) -> bool:
    """Return whether the reply matches the schema of an agent's result. One that does not is requested once more."""
    try:
        answer(reply, AgentAnswer)
    except StepFailure:
        return False
    return True


def supported_words(result: AgentResult) -> str:
    """Return an agent's text without its unsupported numbers. Later texts may repeat the numbers that remain."""
    words = "\n".join((result.reasoning, *result.key_factors, result.risk_assessment))
    for number in sorted(result.unsupported_numbers, key=len, reverse=True):
        words = words.replace(number, " ")
    return words


def results_so_far(turn: Turn) -> tuple[AgentResult, ...]:
    """Return the results so far, in the order of the plan. A later reply of an agent replaces an earlier one."""
    by_agent: dict[AgentName, AgentResult] = {}
    for call in turn.agent_calls:
        result = agent_result(turn, call)
        if isinstance(result, AgentResult):
            by_agent[result.agent_name] = result
    first, later = agents_to_ask(turn)
    return tuple(by_agent[a] for a in (*first, *later) if a in by_agent)


def seen_by(turn: Turn, agent: AgentName) -> tuple[AgentResult, ...]:
    """Return the earlier results that an agent sees: those of the agents that the plan puts before it."""
    first, later = agents_to_ask(turn)
    if agent not in later:
        return ()
    earlier = replace(turn, agent_calls=tuple(c for c in turn.agent_calls if agent_of(c.prompt_name) in first))
    return results_so_far(earlier)


def _checked(turn: Turn, data: DataCollected, agent: AgentName, response: AgentAnswer, call: Call) -> AgentResult:
    own, absent = own_figures(agent, data), missing_indicators(agent, data)
    known = len(EXPECTED[agent]) - len(absent)
    ceiling = LEAST_CEILING + (CEILING - LEAST_CEILING) * known / len(EXPECTED[agent])
    confidence = round(min(clamped(response.confidence, 0.0, 1.0), ceiling), 4)
    reasoning = paragraphs(response.reasoning, 6_000)
    factors, risks = distinct_lines(response.key_factors, 8, 300), paragraphs(response.risk_assessment, 1_500)
    return AgentResult(
        agent_name=agent,
        signal=response.signal,
        confidence=confidence,
        confidence_level=level(confidence),
        reasoning=reasoning,
        indicators=_indicators(agent, response.indicators, own),
        key_factors=factors,
        risk_assessment=risks,
        prompt_sent=sent(_asked(turn, agent, call)),
        llm_response=_response(call)[:MAX_RESPONSE_CHARACTERS],
        missing=absent,
        unsupported_numbers=_unsupported(turn, data, agent, "\n".join((reasoning, *factors, risks))),
    )


def level(confidence: float) -> Level:
    """Return the level of a confidence: low below 0.4, high from 0.7."""
    return "low" if confidence < 0.4 else "medium" if confidence < 0.7 else "high"


def _indicators(
    agent: AgentName, indicators: list[IndicatorAnswer], own: dict[str, MarketValue]
) -> dict[str, Indicator]:
    weighed = {i.name: i for i in reversed(indicators)}
    return {name: _indicator(weighed.get(name), own.get(name)) for name in dict.fromkeys((*EXPECTED[agent], *own))}


def _indicator(given: IndicatorAnswer | None, figure: MarketValue | None) -> Indicator:
    if figure is None:
        # A figure that was not measured has no weight, whatever the model said of it.
        return Indicator(value=None, impact="NEUTRAL", weight=0.0)
    return Indicator(
        value=rounded_figure(figure.value),
        impact=given.impact if given else "NEUTRAL",
        weight=round(clamped(given.weight, 0.0, 1.0), 4) if given else 0.0,
        unit=figure.unit,
        source=figure.source,
        observed_at=figure.observed_at,
    )


def _unsupported(turn: Turn, data: DataCollected, agent: AgentName, words: str) -> tuple[str, ...]:
    assert turn.plan is not None
    blocks = blocks_of(task_of(turn.plan, agent))
    figures = [v.value for v in figures_in(data, blocks).values()]
    if agent == "TAAgent":
        figures += [n for c in data.candles[-LAST_BARS:] for n in (c.open, c.high, c.low, c.close, c.volume)]
    texts = [turn.asked.message, *map(supported_words, seen_by(turn, agent))]
    texts += [signal_text(s) for s in data.signals] if "signals" in blocks else []
    return unsupported_numbers(words, figures, texts=texts, scales=SCALES[agent])


def _asked(turn: Turn, agent: AgentName, call: Call) -> CallModel:
    before = seen_by(turn, agent)
    asked = [agent_call(turn, agent, before, again=again) for again in (False, True)]
    forms = ((request, form) for request in asked for form in (request, widened(request)) if form is not None)
    return next((request for request, form in forms if request_hash(form) == call.request_hash), asked[0])


def _response(call: Call) -> str:
    reply = call.reply
    if not isinstance(reply, ModelReply):
        return ""
    return reply.text or canonical_json(reply.data).decode()
