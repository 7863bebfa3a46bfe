"""The blocks of data that a plan may ask for, which agent reads which, and the names that its indicators go by.

Nothing here invents a figure: what a source gave is looked up by name, and what none gave is named as missing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, get_args

from msgspec.structs import replace

from agents.analysis.indicators import INDICATORS
from schemas.evidence import MarketValue
from schemas.research_events import AgentName, AgentTask, DataCollected

AGENTS: tuple[AgentName, ...] = get_args(AgentName)
BLOCKS = ("price", "macro", "fear_greed", "candles", "onchain", "signals")
"""What ``data_required`` of a plan may name."""
OWN: dict[AgentName, tuple[str, ...]] = {
    "MacroAgent": ("macro", "fear_greed"),
    "TAAgent": ("candles",),
    "OnChainAgent": ("onchain",),
}
"""The blocks without which an agent has nothing to judge: with none of them it is not asked."""
EXPECTED: dict[AgentName, tuple[str, ...]] = {
    "MacroAgent": ("fed_funds_rate", "m2_growth", "dxy", "fear_greed", "treasury_yield"),
    "TAAgent": INDICATORS,
    "OnChainAgent": (
        "exchange_inflow",
        "exchange_outflow",
        "whale_transfers",
        "active_addresses",
        "mvrv",
        "network_activity",
    ),
}
"""The indicators of each agent by their names. One that no source gave is kept without a value."""
SCALES: dict[AgentName, tuple[float, ...]] = {
    "MacroAgent": (0, 25, 50, 75, 100),
    "TAAgent": (0, 30, 50, 70, 100),
    "OnChainAgent": (1,),
}
"""Marks of the scales that an agent's prompt explains (fear and greed, RSI, MVRV): they are no figures of today."""
_CALLED = {
    "fear_greed_index": "fear_greed",
    "treasury_yield_10y": "treasury_yield",
    "transactions_per_day": "network_activity",
}
"""Names that sources give a figure → the name that an agent's indicator has. Data keeps the sources' own."""
_NAME = re.compile(r"[a-z0-9][a-z0-9_.%-]{0,59}")
_CONTEXT = ("price",)


def sound(values: Iterable[MarketValue]) -> tuple[MarketValue, ...]:
    """Return the figures that can be told: finite ones whose names are names."""
    kept = (v for v in values if _NAME.fullmatch(v.name) and abs(v.value) < float("inf"))
    return tuple(replace(v, unit=v.unit[:80], source=v.source[:80]) for v in kept)


def of_block(data: DataCollected, block: str) -> tuple[MarketValue, ...]:
    """Return the figures of one block; those of ``candles`` are the indicators computed from them."""
    found: tuple[MarketValue, ...] = getattr(data, "indicators" if block == "candles" else block)
    return found


def has(data: DataCollected, block: str) -> bool:
    """Whether anything came of this block."""
    return bool(data.signals if block == "signals" else of_block(data, block))


def can_judge(agent: AgentName, data: DataCollected) -> bool:
    """Whether there is any figure of those that this agent is there to judge."""
    return any(has(data, block) for block in OWN[agent])


def blocks_of(task: AgentTask) -> tuple[str, ...]:
    """Return the blocks that an agent reads: the price, its own, and those that the plan adds."""
    wanted = {*_CONTEXT, *OWN[task.agent], *task.data_required}
    return tuple(b for b in BLOCKS if b in wanted)


def given(data: DataCollected, blocks: Iterable[str]) -> dict[str, MarketValue]:
    """Return every figure of these blocks by the name that agents know it by; the first source of a name goes."""
    found: dict[str, MarketValue] = {}
    for block in blocks:
        for value in () if block == "signals" else of_block(data, block):
            found.setdefault(_CALLED.get(value.name, value.name), value)
    return found


def own_figures(agent: AgentName, data: DataCollected) -> dict[str, MarketValue]:
    """Return the figures that this agent is there to judge."""
    return given(data, OWN[agent])


def missing(agent: AgentName, data: DataCollected) -> tuple[str, ...]:
    """Return the indicators of this agent that no source gave."""
    found = own_figures(agent, data)
    return tuple(name for name in EXPECTED[agent] if name not in found)


def as_facts(figures: Mapping[str, MarketValue]) -> dict[str, Any]:
    """Return figures as :func:`agents.core.asking.facts` of a prompt: value, unit, source and time by name."""
    return {
        name: {
            "value": told(v.value),
            "unit": v.unit,
            "source": v.source,
            "observed_at": f"{v.observed_at:%Y-%m-%d %H:%M}",
        }
        for name, v in figures.items()
    }


def told(value: float) -> float:
    """Return the figure with eight significant digits: what arithmetic left behind them says nothing."""
    return float(f"{value:.8g}")
