"""From the rows of the report's statements to its tables. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from schemas.signals import Verdict

Row = Mapping[str, Any]
Rows = Sequence[Row]
Interval = Callable[[npt.NDArray[np.float64], npt.NDArray[np.intp]], tuple[float, float] | None]
"""From each case's hit (1 or 0) and its block of time to the 95 % interval of their share, None for too few blocks. Given by the
caller: ``evaluation.statistics`` lies above."""
VERDICTS: tuple[str, ...] = get_args(Verdict)
MOST_TYPES = 20
MOST_SOURCES = 12

ANSWERS = (
    *("spend", "latency", "to_signal", "signals", "unchecked", "deltas", "deltas_by_type", "precision", "reliability"),
    *("calibration", "coverage", "cost_per_signal", "modes", "trust"),
)
"""The tables of a report, by name."""


def answers_of(rows: Mapping[str, Rows], interval: Interval) -> dict[str, Rows]:
    """Return :data:`ANSWERS` from what ``newsproof.report.data.QUESTIONS`` found; what was not asked is empty."""
    calls, judgements, outcomes = rows["calls"], rows["judgements"], rows["outcomes"]
    verified = [row for row in judgements if row["verdict"] != "unchecked"]
    found: dict[str, Rows] = {
        "spend": _grouped(calls, ("day", "step"), _spent),
        "latency": rows["latency"],
        "to_signal": rows["to_signal"],
        "signals": _grouped(judgements, ("day",), _by_verdict),
        "unchecked": _largest(
            _grouped([r for r in judgements if r["verdict"] == "unchecked"], ("unchecked_reason",), _signals)
        ),
        "deltas": _grouped(verified, ("delta_from",), _signals),
        "deltas_by_type": _largest(_grouped(verified, ("event_type",), _changed))[:MOST_TYPES],
        "precision": _precision([r for r in outcomes if r["part_of"] in ("all", "verdict", "source")], interval),
        "reliability": [_bin(row) for row in outcomes if row["part_of"] == "bin"],
        "calibration": _grouped([row for row in outcomes if row["part_of"] == "bin"], ("horizon_s",), _calibrated),
        "coverage": [_standing(row) for row in outcomes if row["part_of"] == "standing"],
        "cost_per_signal": _cost_per_signal(calls, sum(row["signals"] for row in judgements)),
        "modes": _modes(calls),
        "trust": rows.get("trust", ()),
    }
    return {name: found[name] for name in ANSWERS}


def _grouped(rows: Rows, keys: Sequence[str], figures: Callable[[Rows], Row]) -> list[Row]:
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    return [{**dict(zip(keys, key, strict=True)), **figures(group)} for key, group in sorted(groups.items())]


def _largest(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: -row["signals"])


def _sum(rows: Iterable[Row], name: str) -> Any:
    return sum(row[name] for row in rows)


def _signals(rows: Rows) -> Row:
    return {"signals": _sum(rows, "signals")}


def _spent(rows: Rows) -> Row:
    """``cost_usd``: of the executed calls whose price is known; None where there is none."""
    priced = [row["cost_usd"] for row in rows if row["cost_usd"] is not None]
    counts = {name: _sum(rows, name) for name in ("calls", "executed", "unpriced")}
    return {**counts, "cost_usd": sum(priced) if priced else None}


def _cost_per_signal(calls: Rows, signals: int) -> Rows:
    """All that was spent, also on cases that gave no signal, over the signals."""
    if not calls:
        return ()
    spent = _spent(calls)
    each = None if spent["cost_usd"] is None or not signals else spent["cost_usd"] / signals
    return [{"signals": signals, **spent, "unpriced_calls": spent["unpriced"], "cost_per_signal_usd": each}]


def _modes(calls: Rows) -> Rows:
    found = _grouped(calls, ("provider_mode",), lambda rows: {"calls": _sum(rows, "provided")})
    return sorted((row for row in found if row["calls"]), key=lambda row: -row["calls"])


def _by_verdict(rows: Rows) -> Row:
    """How many signals in all, and of each verdict; ``without_verdict``: those of schema 1 that have none."""
    of = {verdict: _sum((row for row in rows if row["verdict"] == verdict), "signals") for verdict in VERDICTS}
    every = _sum(rows, "signals")
    return {"signals": every, **of, "without_verdict": every - sum(of.values())}


def _changed(rows: Rows) -> Row:
    count, first, final = (_sum(rows, name) for name in ("signals", "preliminary", "final"))
    means = {"mean_preliminary": first / count, "mean_final": final / count, "mean_delta": (final - first) / count}
    return {"signals": count, **means, "raised": _sum(rows, "raised"), "lowered": _sum(rows, "lowered")}


def _bin(row: Row) -> Row:
    return {
        "horizon_s": row["horizon_s"],
        "confidence_from": int(row["name"]) / 10,
        "cases": row["counted"],
        "stories": row["stories"],
        "mean_confidence": row["said"] / row["counted"],
        "hit_rate": row["hits"] / row["counted"],
    }


def _calibrated(bins: Rows) -> Row:
    """As ``v_calibration``: ECE is the mean distance of hit rate and confidence over the bins, weighed by their cases."""
    cases, hits, said = (_sum(bins, name) for name in ("counted", "hits", "said"))
    return {
        "cases": cases,
        "hit_rate": hits / cases,
        "mean_confidence": said / cases,
        "brier": _sum(bins, "squares") / cases,
        "ece": sum(abs(row["hits"] - row["said"]) for row in bins) / cases,
    }


def _standing(row: Row) -> Row:
    counts = {name: row[name] for name in ("signals", "on_synthetic_prices")}
    return {"horizon_s": row["horizon_s"], "standing": row["name"], **counts}


def _precision(blocks: Rows, interval: Interval) -> Rows:
    """Of the signals to buy or sell whose outcome counts, the share whose asset moved the said way over the horizon, with its 95 %
    interval (None for too few blocks of time).

    All of them, each verdict, and the sources with most outcomes at each horizon.
    """
    order = {"all": 0, "verdict": 1, "source": 2}
    found = _grouped(blocks, ("horizon_s", "part_of", "name"), partial(_precise, interval=interval))
    found.sort(key=lambda row: (row["horizon_s"], order[row["part_of"]], -row["counted"]))
    kept, sources = [], 0
    for row in found:
        sources = sources + 1 if row["part_of"] == "source" else 0
        if sources <= MOST_SOURCES:
            figures = {name: value for name, value in row.items() if name not in ("horizon_s", "part_of", "name")}
            kept.append({"horizon_s": row["horizon_s"], "by": row["part_of"], "group": row["name"], **figures})
    return kept


def _precise(blocks: Rows, interval: Interval) -> Row:
    counted, right = (np.array([row[name] for row in blocks]) for name in ("counted", "hits"))
    labels = np.repeat(np.arange(len(blocks)), counted)
    hits = np.concatenate([np.repeat((1.0, 0.0), (h, c - h)) for c, h in zip(counted, right, strict=True)])
    ends = interval(hits, labels) if hits.size else None
    return {
        "acted": _sum(blocks, "acted"),
        "counted": int(counted.sum()),
        "hits": int(right.sum()),
        "precision": float(hits.mean()) if hits.size else None,
        "low": None if ends is None else ends[0],
        "high": None if ends is None else ends[1],
        "blocks": int(np.count_nonzero(counted)),
    }
