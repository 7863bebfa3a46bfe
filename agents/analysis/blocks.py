"""The data blocks that a plan may request, the blocks that each agent reads, and the names of its indicators.

No figure is invented: figures that a source gave are looked up by name, all others are reported as missing.
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
"""The names that ``data_required`` of a plan may contain."""
OWN: dict[AgentName, tuple[str, ...]] = {
    "MacroAgent": ("macro", "fear_greed"),
    "TAAgent": ("candles",),
    "OnChainAgent": ("onchain",),
}
"""The blocks that each agent judges. An agent without a figure in them is not called."""
EXPECTED: dict[AgentName, tuple[str, ...]] = {
    "MacroAgent": ("fed_funds_rate", "m2_growth", "dxy", "fear_greed", "treasury_yield"),
    "TAAgent": INDICATORS,
    "OnChainAgent": (
        "exchange_inflow",
        "exchange_outflow",
        "active_addresses",
        "mvrv",
        "network_activity",
    ),
}
"""The indicators of each agent by name. One that no source gave is kept without a value."""
SCALES: dict[AgentName, tuple[float, ...]] = {
    "MacroAgent": (0, 25, 50, 75, 100),
    "TAAgent": (0, 30, 50, 70, 100),
    "OnChainAgent": (1,),
}
"""Scale marks that an agent's prompt explains (fear and greed, RSI, MVRV). They are not current figures."""
CALLED = {
    "fear_greed_index": "fear_greed",
    "treasury_yield_10y": "treasury_yield",
    "transactions_per_day": "network_activity",
}
"""A source's name for a figure → the agent's name for the indicator. The collected data keeps the sources' names."""
_NAME = re.compile(r"[a-z0-9][a-z0-9_.%-]{0,59}")
_CONTEXT = ("price",)


def usable_figures(values: Iterable[MarketValue]) -> tuple[MarketValue, ...]:
    """Return the usable figures: finite values with a valid name. Unit and source are cut to 80 characters."""
    kept = (v for v in values if _NAME.fullmatch(v.name) and abs(v.value) < float("inf"))
    return tuple(replace(v, unit=v.unit[:80], source=v.source[:80]) for v in kept)


def of_block(data: DataCollected, block: str) -> tuple[MarketValue, ...]:
    """Return the figures of one block. For ``candles`` these are the indicators computed from them."""
    values: tuple[MarketValue, ...] = getattr(data, "indicators" if block == "candles" else block)
    return values


def has_data(data: DataCollected, block: str) -> bool:
    """Return whether the block has any data."""
    return bool(data.signals if block == "signals" else of_block(data, block))


def can_judge(agent: AgentName, data: DataCollected) -> bool:
    """Return whether the data has any figure that this agent judges."""
    return any(has_data(data, block) for block in OWN[agent])


def blocks_of(task: AgentTask) -> tuple[str, ...]:
    """Return the blocks that an agent reads: the price, its own, and those that the plan adds."""
    wanted = {*_CONTEXT, *OWN[task.agent], *task.data_required}
    return tuple(b for b in BLOCKS if b in wanted)


def figures_in(data: DataCollected, blocks: Iterable[str]) -> dict[str, MarketValue]:
    """Return all figures of these blocks by the agents' names for them. The first source of a name wins."""
    figures: dict[str, MarketValue] = {}
    for block in blocks:
        for value in () if block == "signals" else of_block(data, block):
            figures.setdefault(CALLED.get(value.name, value.name), value)
    return figures


def own_figures(agent: AgentName, data: DataCollected) -> dict[str, MarketValue]:
    return figures_in(data, OWN[agent])


def missing_indicators(agent: AgentName, data: DataCollected) -> tuple[str, ...]:
    """Return the names of this agent's indicators that no source gave."""
    figures = own_figures(agent, data)
    return tuple(name for name in EXPECTED[agent] if name not in figures)


def as_facts(figures: Mapping[str, MarketValue]) -> dict[str, Any]:
    """Return figures for :func:`agents.core.model_calls.facts`: value, unit, source and time (UTC) by name."""
    return {
        name: {
            "value": rounded_figure(v.value),
            "unit": v.unit,
            "source": v.source,
            "observed_at": f"{v.observed_at:%Y-%m-%d %H:%M}",
        }
        for name, v in figures.items()
    }


def rounded_figure(value: float) -> float:
    """Return the figure with eight significant digits; later digits are artefacts of arithmetic."""
    return float(f"{value:.8g}")
