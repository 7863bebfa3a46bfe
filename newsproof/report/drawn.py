"""SVG charts of the standard report. The web page and ``newsproof report --html`` show the same ones."""

from __future__ import annotations

from newsproof.report.charts import (
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
from newsproof.report.data import Report, by_day, horizon


def cost(report: Report) -> str:
    stacks = [Stack(day, parts) for day, parts in by_day(report).items()]
    return stacked_bars(stacks, title="Cost by day and step", unit="USD")


def latency(report: Report) -> str:
    rows = [
        Percentiles(r["step"], r["p50_ms"], r["p95_ms"], r["p99_ms"], r["results"])
        for r in report["latency"]
        if r["p99_ms"] is not None
    ]
    return percentile_ranges(rows, title="Latency by step")


def confidence(report: Report) -> str:
    bins = [Bin(r["delta_from"], r["signals"]) for r in report["deltas"]]
    return histogram(bins, step=0.1, title="What verification did to confidence", noun="signals")


def reliability(report: Report) -> str:
    lines = []
    for c in report["calibration"]:
        bins = [
            ReliabilityBin(r["mean_confidence"], r["hit_rate"], r["cases"])
            for r in report["reliability"]
            if r["horizon_s"] == c["horizon_s"]
        ]
        lines.append(ReliabilityLine(horizon(c["horizon_s"]), bins, c["ece"]))
    return reliability_curve(lines, title="Reliability: stated confidence and share of hits")
