"""The calls of MacroAgent, TAAgent and OnChainAgent: the figures of their blocks and the question, without history.

Pure in the turn: the same turn gives the same request, so the request of a recorded reply can be rebuilt.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from agents.analysis.blocks import (
    AGENTS,
    EXPECTED,
    as_facts,
    blocks_of,
    can_judge,
    given,
    has,
    missing,
    own_figures,
    told,
)
from agents.analysis.names import called
from agents.core.asking import bounded, facts
from agents.research.asking import ask_agent, question_parts
from agents.research.turn import Turn
from schemas.effects import CallModel, Part, Trusted, Untrusted
from schemas.evidence import Candle, FoundSignal
from schemas.research_events import AgentName, AgentResult, AgentTask, AnalysisPlanned, DataCollected

PROMPT_OF: dict[AgentName, str] = {
    "MacroAgent": "research_macro",
    "TAAgent": "research_ta",
    "OnChainAgent": "research_onchain",
}
LAST_BARS = 12
"""The last bars that TAAgent reads directly, beside the indicators over all bars."""
MAX_SIGNAL_CHARACTERS = 500
MAX_REPORT_CHARACTERS = 1_500
AGAIN = "The last reply did not fit the schema. Reply once more, with nothing but JSON that fits it."


def task_of(plan: AnalysisPlanned, agent: AgentName) -> AgentTask:
    return next(t for t in plan.task_breakdown if t.agent == agent)


def agents_to_ask(turn: Turn) -> tuple[tuple[AgentName, ...], tuple[AgentName, ...]]:
    """Return the agents to ask concurrently, and those to ask after them: planned agents with data to judge."""
    if turn.plan is None or turn.data is None:
        return (), ()
    data, strategy = turn.data, turn.plan.execution_strategy
    first = tuple(a for a in strategy.parallel_agents if can_judge(a, data))
    later = tuple(a for a in strategy.sequential_after if can_judge(a, data))
    return first, later


def question(turn: Turn, agent: AgentName, before: Iterable[AgentResult] = (), *, again: bool = False) -> CallModel:
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
    """Return what no source gave, with the reasons, as untrusted parts: reasons may quote sources."""
    if not data.unavailable:
        return ()
    return (Untrusted("unavailable data", bounded("\n".join(data.unavailable), 2_000)),)


def _figures(turn: Turn, agent: AgentName, data: DataCollected, blocks: tuple[str, ...]) -> dict[str, Any]:
    own = own_figures(agent, data)
    beside = {name: value for name, value in given(data, blocks).items() if name not in own}
    zh = turn.language == "zh"
    names = {*own, *beside, *missing(agent, data)}
    told_bars = {"last_bars": [_bar(c) for c in data.candles[-LAST_BARS:]]} if agent == "TAAgent" else {}
    return {
        "agent": agent,
        "asset": data.asset,
        "figures": as_facts(own),
        "beside": as_facts(beside),
        "known_indicators": list(dict.fromkeys([*EXPECTED[agent], *own])),
        "missing": list(missing(agent, data)),
        "blocks_without_data": [b for b in blocks if not has(data, b)],
        "called": {name: called(name, zh=zh) for name in sorted(names)},
        "bar_interval": data.candle_interval if agent == "TAAgent" else "",
        **told_bars,
    }


def _bar(bar: Candle) -> list[Any]:
    prices = (bar.open, bar.high, bar.low, bar.close, bar.volume)
    return [f"{bar.ended_at:%Y-%m-%d %H:%M}", *map(told, prices)]
