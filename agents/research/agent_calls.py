"""The chat's model calls. Our own words are trusted parts; the question and all other text are untrusted.

The amount of history is part of an agent's contract. The two agents that decide what to do see the last five messages
whole. The three that read data see none, but the figures of their blocks. The one that writes the answer sees the
beginnings of the last three messages. Pure in the turn: the same turn gives the same request, so the request of a recorded
reply can be rebuilt.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

from agents.analysis.blocks import (
    AGENTS,
    EXPECTED,
    as_facts,
    blocks_of,
    can_judge,
    figures_in,
    has_data,
    missing_indicators,
    own_figures,
    rounded_figure,
)
from agents.analysis.names import display_name
from agents.analysis.pages import linkable
from agents.core.model_calls import bounded, call_of, facts
from agents.core.step import StepFailure
from agents.prompts import render
from agents.research.turn import Turn
from schemas.effects import CallModel, Failure, Part, Trusted, Untrusted
from schemas.evidence import Candle, FoundSignal
from schemas.research_events import AgentName, AgentResult, AgentTask, AnalysisPlanned, DataCollected

MAX_QUESTION_CHARACTERS = 8_000
"""Characters of one question that an agent reads. The log keeps the whole text."""
WHOLE_MESSAGES = 5
"""Messages before the question that SuperAgent and PlanningAgent see, whole."""
CLIPPED_MESSAGES = 3
"""Messages before the question that GeneralAnalysisAgent sees, clipped."""
CLIPPED_CHARACTERS = 80
"""Characters of each clipped message."""
_LANGUAGES = {"zh": "Chinese (中文)", "en": "English"}


def ask_agent(turn: Turn, prompt_name: str, parts: Iterable[Part], **values: str) -> CallModel:
    """Build the call of one prompt, in the version that the turn's snapshot pins.

    ``values`` fill the prompt's fields and must be our own words.

    Raises:
        StepFailure: (not retryable) when the snapshot holds no such prompt.
    """
    prompt = turn.config.prompts.get(prompt_name)
    if prompt is None:
        message = f"the turn's snapshot has no prompt {prompt_name!r}: build it with load_prompts('research')"
        raise StepFailure(Failure(kind="not_configured", message=message, retryable=False))
    language = _LANGUAGES.get(turn.language, "the language of the question")
    return call_of(prompt, render(prompt, language=language, **values), parts)


def question_parts(turn: Turn) -> tuple[Part, ...]:
    """Return the question as an untrusted part, and the time it was asked as a trusted one."""
    return (
        Trusted(f"The question, asked at {turn.as_of:%Y-%m-%d %H:%M} UTC:"),
        Untrusted("question", bounded(turn.asked.message, MAX_QUESTION_CHARACTERS)),
    )


def whole_history(turn: Turn) -> tuple[Part, ...]:
    """Return the last five messages before the question, each whole."""
    return _history(turn, WHOLE_MESSAGES, None)


def clipped_history(turn: Turn) -> tuple[Part, ...]:
    """Return the first 80 characters of each of the last three messages before the question."""
    return _history(turn, CLIPPED_MESSAGES, CLIPPED_CHARACTERS)


def sent(call: CallModel) -> str:
    """Return the call as readable text, without the random delimiters."""
    parts = (p.text if isinstance(p, Trusted) else f"<{p.label}>\n{p.text}\n</{p.label}>" for p in call.parts)
    return "\n\n".join((call.system.strip(), *parts))


def _history(turn: Turn, messages: int, characters: int | None) -> tuple[Part, ...]:
    # Clip first, then clean: the limit applies to the characters as they were sent.
    return tuple(
        Untrusted(f"history, {m.role}", bounded(m.content[:characters], len(m.content)))
        for m in turn.asked.history[-messages:]
    )


PROMPT_OF: dict[AgentName, str] = {
    "MacroAgent": "research_macro",
    "TAAgent": "research_ta",
    "OnChainAgent": "research_onchain",
}
LAST_BARS = 12
"""The last bars that TAAgent reads directly, beside the indicators over all bars."""
MAX_SIGNAL_CHARACTERS = 500
MAX_CASE_CHARACTERS = 2_500
MAX_REPORT_CHARACTERS = 1_500
AGAIN = "The last reply did not fit the schema. Reply once more, with nothing but JSON that fits it."


def task_of(plan: AnalysisPlanned, agent: AgentName) -> AgentTask:
    return next(t for t in plan.task_breakdown if t.agent == agent)


def agents_to_ask(turn: Turn) -> tuple[tuple[AgentName, ...], tuple[AgentName, ...]]:
    """Return the agents to call concurrently, and those to call after them: planned agents with data to judge."""
    if turn.plan is None or turn.data is None:
        return (), ()
    data, strategy = turn.data, turn.plan.execution_strategy
    first = tuple(a for a in strategy.parallel_agents if can_judge(a, data))
    later = tuple(a for a in strategy.sequential_after if can_judge(a, data))
    return first, later


def agent_call(turn: Turn, agent: AgentName, before: Iterable[AgentResult] = (), *, again: bool = False) -> CallModel:
    """Return the call of one agent.

    ``before`` are the results that the agent sees. ``again``: its last reply did not match the schema.

    Raises:
        StepFailure: the snapshot holds no such prompt.
        LookupError: there is no plan or no data yet.
    """
    if turn.plan is None or turn.data is None:
        raise LookupError(f"turn {turn.case_id} has no data for {agent} yet: plan and collect come first")
    task, data = task_of(turn.plan, agent), turn.data
    blocks = blocks_of(task)
    parts: list[Part] = [
        *question_parts(turn),
        facts(**_figures(turn, agent, data, blocks)),
        *report_parts(before),
        *(signal_parts(data.signals) if "signals" in blocks else ()),
        *unavailable_parts(data),
        *([Trusted(AGAIN)] if again else []),
    ]
    return ask_agent(turn, PROMPT_OF[agent], parts, asset=data.asset)


def agent_of(prompt_name: str | None) -> AgentName | None:
    return next((a for a in AGENTS if PROMPT_OF[a] == prompt_name), None)


def signal_parts(signals: Iterable[FoundSignal]) -> tuple[Part, ...]:
    """Return each signal of the news pipeline as an untrusted part, labelled with its citation number."""
    return tuple(Untrusted(f"signal {s.number}", bounded(signal_text(s), MAX_SIGNAL_CHARACTERS)) for s in signals)


def signal_text(signal: FoundSignal) -> str:
    """Return a signal on one line: subject, judgement, confidence, time and summary, and a mark if it is not live."""
    flags = f" flags: {', '.join(signal.risk_flags)}" if signal.risk_flags else ""
    # An installation that was tried out before it got its keys holds both invented and live signals.
    made = f"[{signal.provider_mode}] " if signal.provider_mode not in {"", "live"} else ""
    return made + (
        f"{signal.asset} {signal.event_type} {signal.action}/{signal.direction} confidence {signal.confidence:.2f} "
        f"{signal.stage}, verdict {signal.verdict or 'none'}, {signal.decided_at:%Y-%m-%d %H:%M} UTC: {signal.summary}{flags}"
    )


def found_cases(turn: Turn) -> tuple[FoundSignal, ...]:
    """Return the cases that were looked up for the question, or for its half of facts."""
    signals, query = turn.data.signals if turn.data else (), turn.routed.cases if turn.routed else None
    if turn.from_cases or query is None:
        return signals if turn.from_cases else ()
    if query.names:
        return tuple(s for s in signals if s.matched)
    return tuple(
        s
        for s in signals
        if query.asset in ("", s.asset.upper()) and (not query.verdicts or s.verdict in query.verdicts)
    )


def case_facts(turn: Turn, signals: Iterable[FoundSignal]) -> dict[str, Any]:
    """Return the recorded judgement of each case for :func:`agents.core.model_calls.facts`, without outside text."""
    return {
        "cases": [
            {
                "number": s.number,
                "verdict": s.verdict,
                "stage": s.stage,
                "asset": s.asset,
                "action": s.action,
                "confidence": s.confidence,
                "decided_at": f"{s.decided_at:%Y-%m-%d %H:%M}",
                "supporting_sources": s.supporting_sources,
                "names_matched": len(s.matched),
                "provider_mode": s.provider_mode,
                "pages": [{"stance": p.stance, "official": p.official} for p in s.pages],
            }
            for s in signals
        ],
        "names_asked_for": len(turn.routed.cases.names) if turn.routed and turn.routed.cases else 0,
    }


def case_parts(signals: Iterable[FoundSignal]) -> tuple[Part, ...]:
    """Return the texts of each case as an untrusted part, labelled with its citation number."""
    return tuple(Untrusted(f"case {s.number}", bounded(searched_text(s), MAX_CASE_CHARACTERS)) for s in signals)


def searched_text(signal: FoundSignal) -> str:
    """Return a case as text for a model: the summary in each language, and its pages with stances and quotes."""
    summaries = dict.fromkeys(filter(None, (signal.summary, signal.summary_en, signal.summary_zh)))
    return "\n".join((*summaries, *(f"{host_of(p.url)} ({p.stance}): {p.quote or '(no quote)'}" for p in signal.pages)))


def host_of(url: str) -> str:
    """Return the host of an address without www, or "?" for one that is not safe to show."""
    # An unsafe address is not written at all: its host could contain marks that make a link.
    return (urlsplit(url).hostname or "?").removeprefix("www.") if linkable(url) else "?"


def report_parts(results: Iterable[AgentResult]) -> tuple[Part, ...]:
    """Return the agents' conclusions as untrusted parts, because the agents read outside text."""
    return tuple(
        Untrusted(
            f"report of {r.agent_name}",
            bounded(
                f"{r.signal}, confidence {r.confidence:.2f}\n{r.reasoning}\nKey factors: {'; '.join(r.key_factors)}\n"
                f"Risks: {r.risk_assessment}",
                MAX_REPORT_CHARACTERS,
            ),
        )
        for r in results
    )


def unavailable_parts(data: DataCollected) -> tuple[Part, ...]:
    """Return the missing data with the reasons, as untrusted parts: reasons may quote sources."""
    if not data.unavailable:
        return ()
    return (Untrusted("unavailable data", bounded("\n".join(data.unavailable), 2_000)),)


def _figures(turn: Turn, agent: AgentName, data: DataCollected, blocks: tuple[str, ...]) -> dict[str, Any]:
    own = own_figures(agent, data)
    beside = {name: value for name, value in figures_in(data, blocks).items() if name not in own}
    zh = turn.language == "zh"
    names = {*own, *beside, *missing_indicators(agent, data)}
    told_bars = {"last_bars": [_bar(c) for c in data.candles[-LAST_BARS:]]} if agent == "TAAgent" else {}
    return {
        "agent": agent,
        "asset": data.asset,
        "figures": as_facts(own),
        "beside": as_facts(beside),
        "known_indicators": list(dict.fromkeys([*EXPECTED[agent], *own])),
        "missing": list(missing_indicators(agent, data)),
        "blocks_without_data": [b for b in blocks if not has_data(data, b)],
        "called": {name: display_name(name, zh=zh) for name in sorted(names)},
        "bar_interval": data.candle_interval if agent == "TAAgent" else "",
        **told_bars,
    }


def _bar(bar: Candle) -> list[Any]:
    prices = (bar.open, bar.high, bar.low, bar.close, bar.volume)
    return [f"{bar.ended_at:%Y-%m-%d %H:%M}", *map(rounded_figure, prices)]
