"""The replies of the chat's agents, and their sanitised form: the plan, and the query for cases.

Each reply is checked and bounded before it enters an event. A plan keeps only known agents, known data blocks, and a
plausible asset. Whatever it says, at least one agent is called, each at most once. A query keeps known verdicts, short plain
names and a bounded time. Free text never becomes a tool argument unchecked.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any, Literal, get_args

import msgspec

from agents.analysis.blocks import AGENTS, BLOCKS
from agents.core.answers import clamped, one_line, ticker
from agents.research.turn import Turn
from schemas.effects import FindSignals
from schemas.research_events import AgentName, AgentTask, AnalysisPlanned, CaseQuery, ExecutionStrategy, Outlook
from schemas.signals import Verdict


class RouteAnswer(msgspec.Struct):
    """The reply of SuperAgent (``research_route.v3.schema.json``). ``cases`` is checked field by field."""

    decision: Literal["DIRECT_ANSWER", "COMPLEX_ANALYSIS", "CASE_LOOKUP", "ANALYSIS_AND_CASES"]
    reasoning: str
    confidence: float
    direct_answer: str = ""
    cases: Any = None


class PlanAnswer(msgspec.Struct):
    """The reply of PlanningAgent (``research_plan.v1.schema.json``). Tasks and strategy are checked field by field."""

    asset: str
    task_breakdown: list[Any]
    execution_strategy: Any
    reasoning: str


class IndicatorAnswer(msgspec.Struct):
    """An agent's weighting of one figure. It has no value: values come only from the sources."""

    name: str
    impact: Outlook
    weight: float


class AgentAnswer(msgspec.Struct):
    """The reply of MacroAgent, TAAgent and OnChainAgent (``research_agent.v1.schema.json``)."""

    signal: Outlook
    confidence: float
    reasoning: str
    indicators: list[IndicatorAnswer]
    key_factors: list[str]
    risk_assessment: str


class CasesAnswer(msgspec.Struct):
    """The reply on the pipeline's cases (``research_cases.v1.schema.json``). ``relevant``: numbers of cases."""

    answer: str
    relevant: list[Any]
    confidence: float


class FinalAnswer(msgspec.Struct):
    """The reply of GeneralAnalysisAgent (``research_answer.v1.schema.json``). Code adds sources and metadata."""

    answer: str
    summary: str
    key_insights: list[str]
    confidence: float


DEFAULT_ASSET = "BTC"
"""The default asset, for a question about "the market"."""
_ASSET = re.compile(r"[A-Z0-9]{2,10}")
_ADDRESS = re.compile(r"[:&=?#%\\<>]|\.\.")
_QUOTES = ("USDT", "USDC", "USD")
_NO_ASSETS = {"UNKNOWN", "NONE", "NULL", "MARKET", "CRYPTO", "ALL", "ANY"}
_PRIORITIES: tuple[Literal["high", "medium", "low"], ...] = ("high", "medium", "low")


def sanitise_plan(response: PlanAnswer) -> AnalysisPlanned:
    """Return the executable plan: known agents and blocks, and an order in which every agent has one place."""
    tasks = _tasks(response.task_breakdown)
    return AnalysisPlanned(
        task_breakdown=tasks,
        execution_strategy=_strategy(response.execution_strategy, tuple(t.agent for t in tasks)),
        reasoning=one_line(response.reasoning, 800),
        asset=plausible_asset(response.asset),
    )


def plausible_asset(text: str, *, otherwise: str = DEFAULT_ASSET) -> str:
    """Return the ticker that the text begins with, without its quote currency, or ``otherwise`` if there is none."""
    # An address or a query is not a ticker, even if it begins with letters.
    symbol = "" if _ADDRESS.search(text) else re.split(r"[-.]", ticker(text))[0]
    for quote in _QUOTES:
        if symbol.endswith(quote) and len(symbol) > len(quote) + 1:
            symbol = symbol.removesuffix(quote)
    fits = _ASSET.fullmatch(symbol) and not symbol.isdigit() and symbol not in _NO_ASSETS
    return symbol if fits else otherwise


def _tasks(tasks: list[Any]) -> tuple[AgentTask, ...]:
    by_agent: dict[AgentName, AgentTask] = {}
    for task in tasks[:12]:
        agent = _agent(task.get("agent")) if isinstance(task, dict) else None
        if agent is not None and agent not in by_agent:
            by_agent[agent] = _task(agent, task)
    # If the plan names no known agent, call all of them.
    return tuple(by_agent.values()) or tuple(
        _task(agent, {"reason": "the plan named no known agent"}) for agent in AGENTS
    )


def _task(agent: AgentName, fields: dict[str, Any]) -> AgentTask:
    priority, wanted = fields.get("priority"), fields.get("data_required")
    named = {str(name) for name in wanted} if isinstance(wanted, list) else set()
    return AgentTask(
        agent=agent,
        reason=one_line(str(fields.get("reason") or ""), 300),
        priority=next((p for p in _PRIORITIES if p == priority), "medium"),
        data_required=tuple(b for b in BLOCKS if b in named),
    )


def _strategy(strategy: Any, planned: tuple[AgentName, ...]) -> ExecutionStrategy:
    fields = strategy if isinstance(strategy, dict) else {}
    later = _agents(fields.get("sequential_after"))
    first = tuple(a for a in planned if a not in later) or planned
    return ExecutionStrategy(
        parallel_agents=first,
        sequential_after=tuple(a for a in planned if a not in first),
        estimated_time=one_line(str(fields.get("estimated_time") or ""), 40),
    )


def _agents(names: Any) -> set[AgentName]:
    return {agent for name in names if (agent := _agent(name)) is not None} if isinstance(names, list) else set()


def _agent(name: Any) -> AgentName | None:
    return next((agent for agent in AGENTS if agent == name), None)


MAX_SIGNALS = 10
MAX_NAMES = 6
MAX_SPELLINGS = 8
MAX_NAME_CHARACTERS = 60
NEWEST_HOURS = 14 * 24
NAMED_HOURS = 90 * 24
"""Hours searched if the question names no time: for the newest signals, and for something that it names."""


def case_query(query: Any) -> CaseQuery:
    """Return the query from a model's reply, whatever it is. An empty query is for the newest signals."""
    fields = query if isinstance(query, dict) else {}
    asset, hours = fields.get("asset"), fields.get("hours")
    names = tuple(filter(None, map(_spellings, _list(fields.get("names"))[:MAX_NAMES])))
    asked = clamped(float(hours), 0.0, NAMED_HOURS) if isinstance(hours, int | float) else 0.0
    return CaseQuery(
        asset=plausible_asset(asset, otherwise="") if isinstance(asset, str) else "",
        names=names,
        verdicts=tuple(v for v in get_args(Verdict) if v in _list(fields.get("verdicts"))),
        hours=int(asked) or (NAMED_HOURS if names else NEWEST_HOURS),
    )


def case_lookup(turn: Turn) -> FindSignals:
    """Return the look-up of a turn that was routed to ``cases``, or that has a half of facts."""
    assert turn.routed is not None and turn.routed.cases is not None
    query = turn.routed.cases
    return FindSignals(
        asset=query.asset,
        since=turn.as_of - timedelta(hours=query.hours),
        as_of=turn.as_of,
        limit=MAX_SIGNALS,
        names=query.names,
        verdicts=query.verdicts,
    )


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _spellings(value: Any) -> tuple[str, ...]:
    texts = [value] if isinstance(value, str) else [spelling for spelling in _list(value) if isinstance(spelling, str)]
    plain = (one_line(text, MAX_NAME_CHARACTERS) for text in texts[:MAX_SPELLINGS])
    # A single character would match nearly every text.
    return tuple(dict.fromkeys(text for text in plain if len(text) > 1))
