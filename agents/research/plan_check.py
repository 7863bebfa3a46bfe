"""Sanitises a model's plan: only known agents, known data blocks, and a plausible asset remain.

Whatever the reply says, at least one agent is asked, each at most once, and free text never becomes a tool argument.
"""

from __future__ import annotations

import re
from typing import Any, Literal

from agents.analysis.blocks import AGENTS, BLOCKS
from agents.core.answers import one_line, ticker
from agents.research.answers import PlanAnswer
from schemas.research_events import AgentName, AgentTask, AnalysisPlanned, ExecutionStrategy

DEFAULT_ASSET = "BTC"
"""The default asset, for a question about "the market"."""
_ASSET = re.compile(r"[A-Z0-9]{2,10}")
_ADDRESS = re.compile(r"[:&=?#%\\<>]|\.\.")
_QUOTES = ("USDT", "USDC", "USD")
_NO_ASSETS = {"UNKNOWN", "NONE", "NULL", "MARKET", "CRYPTO", "ALL", "ANY"}
_PRIORITIES: tuple[Literal["high", "medium", "low"], ...] = ("high", "medium", "low")


def sanitised(said: PlanAnswer) -> AnalysisPlanned:
    """Return the executable plan: known agents and blocks, and an order in which every agent has one place."""
    tasks = _tasks(said.task_breakdown)
    return AnalysisPlanned(
        task_breakdown=tasks,
        execution_strategy=_strategy(said.execution_strategy, tuple(t.agent for t in tasks)),
        reasoning=one_line(said.reasoning, 800),
        asset=plausible_asset(said.asset),
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


def _tasks(said: list[Any]) -> tuple[AgentTask, ...]:
    found: dict[AgentName, AgentTask] = {}
    for one in said[:12]:
        agent = _agent(one.get("agent")) if isinstance(one, dict) else None
        if agent is not None and agent not in found:
            found[agent] = _task(agent, one)
    # If the plan names no known agent, ask all of them rather than none.
    return tuple(found.values()) or tuple(_task(agent, {"reason": "the plan named no known agent"}) for agent in AGENTS)


def _task(agent: AgentName, said: dict[str, Any]) -> AgentTask:
    priority, wanted = said.get("priority"), said.get("data_required")
    named = {str(name) for name in wanted} if isinstance(wanted, list) else set()
    return AgentTask(
        agent=agent,
        reason=one_line(str(said.get("reason") or ""), 300),
        priority=next((p for p in _PRIORITIES if p == priority), "medium"),
        data_required=tuple(b for b in BLOCKS if b in named),
    )


def _strategy(said: Any, planned: tuple[AgentName, ...]) -> ExecutionStrategy:
    fields = said if isinstance(said, dict) else {}
    later = _agents(fields.get("sequential_after"))
    first = tuple(a for a in planned if a not in later) or planned
    return ExecutionStrategy(
        parallel_agents=first,
        sequential_after=tuple(a for a in planned if a not in first),
        estimated_time=one_line(str(fields.get("estimated_time") or ""), 40),
    )


def _agents(said: Any) -> set[AgentName]:
    return {agent for one in said if (agent := _agent(one)) is not None} if isinstance(said, list) else set()


def _agent(said: Any) -> AgentName | None:
    return next((agent for agent in AGENTS if agent == said), None)
