"""The charts of the standard report as pictures: the same drawings as in ``newsproof report --html``, in fixed colours.

A picture cannot see the page's colours, so the variables of :data:`newsproof.charts.STYLE` are put in here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal

from newsproof.charts import (
    STYLE,
    Bin,
    Percentiles,
    ReliabilityBin,
    ReliabilityLine,
    Stack,
    histogram,
    percentile_ranges,
    reliability_curve,
    stacked_bars,
)
from newsproof.report_data import HORIZONS, Report, by_day

Theme = Literal["light", "dark"]
_USED = re.compile(r"var\((--[a-z0-9]+),[^)]*\)")
_SET = re.compile(r"(--[a-z0-9]+):([^;}]+)")
_LIGHT, _DARK = (dict(_SET.findall(part)) for part in STYLE.split("@media"))


def cost(report: Report) -> str:
    """Return cost by day and step."""
    stacks = [Stack(day, parts) for day, parts in by_day(report).items()]
    return stacked_bars(stacks, title="Cost by day and step", unit="USD")


def latency(report: Report) -> str:
    """Return the percentiles of each step."""
    rows = [
        Percentiles(r["step"], r["p50_ms"], r["p95_ms"], r["p99_ms"], r["results"])
        for r in report["latency"]
        if r["p99_ms"] is not None
    ]
    return percentile_ranges(rows, title="Latency by step")


def confidence(report: Report) -> str:
    """Return how verification changed confidence."""
    bins = [Bin(r["delta_from"], r["signals"]) for r in report["deltas"]]
    return histogram(bins, step=0.1, title="What verification did to confidence", noun="signals")


def reliability(report: Report) -> str:
    """Return the reliability curve of each horizon."""
    lines = []
    for c in report["calibration"]:
        bins = [
            ReliabilityBin(r["mean_confidence"], r["hit_rate"], r["cases"])
            for r in report["reliability"]
            if r["horizon_s"] == c["horizon_s"]
        ]
        lines.append(ReliabilityLine(HORIZONS.get(c["horizon_s"], f"{c['horizon_s']} s"), bins, c["ece"]))
    return reliability_curve(lines, title="Reliability: stated confidence and share of hits")


CHARTS: dict[str, Callable[[Report], str]] = {
    "cost": cost,
    "latency": latency,
    "confidence": confidence,
    "reliability": reliability,
}


def drawn(name: str, report: Report, theme: Theme) -> str:
    """Return one of :data:`CHARTS` as an SVG document in the colours of a theme.

    Raises:
        KeyError: there is no such chart.
    """
    colours = _DARK if theme == "dark" else _LIGHT
    return _USED.sub(lambda used: colours[used.group(1)], CHARTS[name](report))
