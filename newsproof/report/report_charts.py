"""SVG charts of the standard report. The web page and ``newsproof report --html`` show the same ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, timedelta
from typing import Literal

from newsproof.report.charts import (
    WIDE,
    Bin,
    Canvas,
    Percentiles,
    ReliabilityBin,
    ReliabilityLine,
    Share,
    Stack,
    histogram,
    percentile_ranges,
    reliability_curve,
    share_ranges,
    stacked_bars,
)
from newsproof.report.data import VERDICTS, Report, Row, horizon

Per = Literal["day", "week", "month"]
MOST_BARS = 62
_COLOURS = dict(zip((*VERDICTS, "without_verdict"), (2, 0, 4, 3, 1, 5, 7, 6), strict=True))
"""Colour of each verdict, as on the page: blue-green for confirmed, violet for refuted, grey for unchecked."""


def per(report: Report, name: str) -> Per:
    """Return the span of one bar: a day, or a UTC week from Monday or a month if there would be too many bars."""
    days = [date.fromisoformat(row["day"]) for row in report[name]] or [date.min]
    span = (max(days) - min(days)).days
    return "day" if span < MOST_BARS else "week" if span < 7 * MOST_BARS else "month"


def signals(report: Report, on: Canvas = WIDE, _horizon_s: int = 0) -> str:
    bars = _bars(report, "signals", lambda row: {name: row[name] for name in _COLOURS})
    return stacked_bars(bars, title="Signals by verdict", unit="signals", on=on, colours=_COLOURS)


def cost(report: Report, on: Canvas = WIDE, _horizon_s: int = 0) -> str:
    """Unknown prices are 0 here; the table counts them."""
    bars = _bars(report, "spend", lambda row: {row["step"]: row["cost_usd"] or 0.0})
    return stacked_bars(bars, title="Cost by step", unit="USD", on=on)


def latency(report: Report, on: Canvas = WIDE, _horizon_s: int = 0) -> str:
    rows = [
        Percentiles(r["step"], r["p50_ms"], r["p95_ms"], r["p99_ms"], r["results"])
        for r in report["latency"]
        if r["p99_ms"] is not None
    ]
    return percentile_ranges(rows, title="Latency by step", on=on)


def confidence(report: Report, on: Canvas = WIDE, _horizon_s: int = 0) -> str:
    bins = [Bin(r["delta_from"], r["signals"]) for r in report["deltas"]]
    title = "Confidence change by verification"
    return histogram(bins, step=0.1, title=title, noun="signals", on=on)


def precision(report: Report, on: Canvas = WIDE, horizon_s: int = 0) -> str:
    """``horizon_s``: 0 means :attr:`Report.horizon_s`."""
    columns: dict[str, list[Share]] = {"by verdict": [], "by source": []}
    for row in report["precision"]:
        if row["horizon_s"] == (horizon_s or report.horizon_s) and row["counted"]:
            interval = None if row["low"] is None else (row["low"], row["high"])
            name = {
                "all": on.say("all signals"),
                "held": on.say("with retracted ones"),
                "verdict": on.say(row["group"] or "without_verdict"),
            }.get(row["by"])
            side = columns["by source" if row["by"] == "source" else "by verdict"]
            side.append(Share(name or row["group"] or "–", row["hits"], row["counted"], interval))
    return share_ranges(list(columns.items()), title="Precision of signals to buy or sell", on=on)


def reliability(report: Report, on: Canvas = WIDE, _horizon_s: int = 0) -> str:
    horizons = [row["horizon_s"] for row in report["calibration"]]
    horizons += [row["horizon_s"] for row in report["calibrated"] if row["horizon_s"] not in horizons]
    lines = []
    for n, seconds in enumerate(sorted(horizons)):
        for figures, bins, is_calibrated in (
            ("calibration", "reliability", False),
            ("calibrated", "calibrated_bins", True),
        ):
            lines += [
                ReliabilityLine(
                    name=f"{horizon(seconds)}, {on.say('calibrated')}" if is_calibrated else horizon(seconds),
                    bins=[
                        ReliabilityBin(r["mean_confidence"], r["hit_rate"], r["cases"])
                        for r in report[bins]
                        if r["horizon_s"] == seconds
                    ],
                    ece=row["ece"],
                    noise=row["ece_noise"],
                    colour=n,
                    dotted=is_calibrated,
                )
                for row in report[figures]
                if row["horizon_s"] == seconds
            ]
    return reliability_curve(lines, title="Reliability: stated confidence and share of hits", on=on)


CHARTS: dict[str, Callable[[Report, Canvas, int], str]] = {
    "signals": signals,
    "precision": precision,
    "confidence": confidence,
    "reliability": reliability,
    "cost": cost,
    "latency": latency,
}
"""Charts by name. Each takes a report, a canvas, and a horizon in seconds, which only ``precision`` uses."""


def _bars(report: Report, name: str, parts_of: Callable[[Row], Mapping[str, float]]) -> list[Stack]:
    """Return a bar for each day, week or month from the first to the last, empty ones included."""
    each = per(report, name)
    bars: dict[date, dict[str, float]] = {}
    for row in report[name]:
        bar = bars.setdefault(_begin(date.fromisoformat(row["day"]), each), {})
        for part, value in parts_of(row).items():
            bar[part] = bar.get(part, 0.0) + value
    day, last, stacks = min(bars, default=date.max), max(bars, default=date.min), []
    while day <= last:
        stacks.append(Stack(f"{day:%Y-%m}" if each == "month" else f"{day:%Y-%m-%d}", bars.get(day, {})))
        day = _begin(day + timedelta(days={"day": 1, "week": 7, "month": 31}[each]), each)
    return stacks


def _begin(day: date, each: Per) -> date:
    return day if each == "day" else day - timedelta(days=day.weekday()) if each == "week" else day.replace(day=1)
