"""The standard report: the statements that it runs on ClickHouse, and its tables from their rows.

There are few statements, because planning one that names a view takes a tenth of a second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, get_args

import msgspec
import numpy as np
import numpy.typing as npt

from infra.clickhouse.client import ClickHouse
from newsproof.report.period import WHOLE, Period, in_period
from newsproof.report.run_name import called
from schemas.signals import Verdict
from streams.calibration.noise_floor import noise_floor

Row = Mapping[str, Any]
Rows = Sequence[Row]
Interval = Callable[[npt.NDArray[np.float64], npt.NDArray[np.intp]], tuple[float, float] | None]
"""Function from each case's hit (1 or 0) and block of time to the 95 % interval of the hit rate; None for too few blocks. The
caller passes it, because ``evaluation.statistics`` is a layer above."""
VERDICTS: tuple[str, ...] = get_args(Verdict)
MOST_TYPES = 20
MOST_SOURCES = 12
_PRECISION = ("all", "held", "verdict", "source")

HORIZONS = {300: "5 min", 3600: "1 h", 14400: "4 h", 86400: "24 h", 604800: "7 d", 2592000: "30 d"}
"""Display names by ``horizon_s``."""
_DAY_S = 86_400
_OUTCOMES = """
SELECT horizon_s, tupleElement(part, 1) AS part_of, tupleElement(part, 2) AS name, tupleElement(part, 3) AS block,
       count() AS signals, uniqExact(story_id) AS stories, countIf(acted) AS acted,
       countIf(came IS NOT NULL) AS counted, countIf(came = 1) AS hits, sumIf(probability, came IS NOT NULL) AS said,
       sumIf(pow(probability - assumeNotNull(came), 2), came IS NOT NULL) AS squares, countIf(synthetic) AS on_synthetic_prices
FROM
(
    SELECT horizon_s, story_id, acted, synthetic, tupleElement(part, 4) AS probability, tupleElement(part, 5) AS came,
           toUInt32(intDiv(toUnixTimestamp(first_at), greatest(86400, 2 * horizon_s))) AS day,
           arrayJoin(arrayConcat([('standing', standing, toUInt32(0), confidence, hit)],
               if(counts, [('bin', toString(least(9, toInt32(floor(confidence * 10 + 1e-9)))), toUInt32(0), confidence, hit)], []),
               if(calibrates, [('calibrated', toString(least(9, toInt32(floor(better * 10 + 1e-9)))), toUInt32(0), better, moved)], []),
               if(acted, [('all', '', day, confidence, hit), ('held', '', day, confidence, held_hit),
                          ('verdict', verdict, day, confidence, hit), ('source', news_source, day, confidence, hit)], []))) AS part
    FROM
    (
        SELECT j.horizon_s AS horizon_s, j.case_id AS case_id, j.story_id AS story_id, j.acted AS acted, j.hit AS hit,
               j.held_hit AS held_hit, j.moved AS moved, ifNull(j.confidence_calibrated, 0) AS better,
               j.own_horizon AND j.confidence_calibrated IS NOT NULL AND j.moved IS NOT NULL AS calibrates,
               j.confidence AS confidence, j.verdict AS verdict, j.news_source AS news_source,
               j.standing = 'counted' AS counts, startsWith(j.price_source, 'synthetic') AS synthetic,
               multiIf(j.standing != 'no_outcome', j.standing, d.case_id = '', 'not_imported', d.reason) AS standing,
               min(j.knowable_at) OVER (PARTITION BY j.horizon_s, j.story_id) AS first_at
        FROM v_held_outcomes AS j
        LEFT JOIN (SELECT case_id, horizon_s, reason FROM outcome_drops FINAL) AS d
            ON d.case_id = j.case_id AND d.horizon_s = j.horizon_s
        WHERE j.run_id = {run:String} AND IN_PERIOD
    )
)
GROUP BY horizon_s, part_of, name, block ORDER BY horizon_s, part_of, name, block""".replace(
    "IN_PERIOD", in_period("ifNull(j.emitted_at, j.knowable_at)")
)
"""Outcomes of the signals, read once for all metrics because the view joins most tables. All by standing; those that count by
tenth of confidence; those with a calibrated confidence by its tenth, at their own horizon; those acted on in total, in total with
the withdrawn ones, by verdict and by source, each by block of time. A block is a UTC day, or twice the horizon if that is longer.
A story belongs to the block of its first case."""
QUESTIONS: dict[str, str] = {
    "calls": f"""
SELECT toString(toDate(started_at)) AS day, step, provider_mode, count() AS calls, countIf(execution = 'executed') AS executed,
       toFloat64(sumIf(c.cost_usd, execution = 'executed')) AS cost_usd,
       countIf(execution = 'executed' AND c.cost_usd IS NULL) AS unpriced, countIf(provider_name != 'journal') AS provided
FROM v_calls AS c WHERE run_id = {{run:String}} AND {in_period("started_at")}
GROUP BY day, step, provider_mode ORDER BY day, step, provider_mode""",
    "latency": f"""
SELECT step, countIf(done) AS results, countIf(event_type = 'newsproof.step_failed') AS failures,
       quantileIf(0.5)(step_latency_ms, done) AS p50_ms, quantileIf(0.95)(step_latency_ms, done) AS p95_ms,
       quantileIf(0.99)(step_latency_ms, done) AS p99_ms
FROM
(
    SELECT step, event_type, step_latency_ms,
           event_type NOT IN ('newsproof.step_failed', 'newsproof.step_started', 'newsproof.effect_completed') AS done
    FROM events FINAL WHERE step != '' AND run_id = {{run:String}} AND {in_period("event_time")}
)
GROUP BY step ORDER BY step""",
    "to_signal": f"""
SELECT verdict, count() AS signals, quantileIf(0.5)(took_ms, opened) AS opened_p50_ms,
       quantileIf(0.95)(took_ms, opened) AS opened_p95_ms, quantileIf(0.99)(took_ms, opened) AS opened_p99_ms
FROM
(
    SELECT s.verdict AS verdict, o.case_id != '' AS opened, dateDiff('millisecond', o.opened_at, s.emitted_at) AS took_ms
    FROM (SELECT case_id, verdict, emitted_at FROM v_judgements WHERE run_id = {{run:String}} AND {in_period("emitted_at")}) AS s
    LEFT JOIN
    (
        SELECT case_id, min(event_time) AS opened_at FROM events
        WHERE run_id = {{run:String}} AND event_type = 'newsproof.event_received' GROUP BY case_id
    ) AS o ON o.case_id = s.case_id
)
GROUP BY verdict ORDER BY verdict""",
    "judgements": f"""
SELECT toString(toDate(emitted_at)) AS day, verdict, unchecked_reason, event_type,
       floor(round(confidence_delta * 10, 6)) / 10 AS delta_from, count() AS signals,
       sum(preliminary_confidence) AS preliminary, sum(confidence) AS final,
       countIf(confidence_delta > 0) AS raised, countIf(confidence_delta < 0) AS lowered
FROM v_judgements WHERE run_id = {{run:String}} AND {in_period("emitted_at")}
GROUP BY day, verdict, unchecked_reason, event_type, delta_from ORDER BY day, verdict, unchecked_reason, event_type, delta_from""",
    "outcomes": _OUTCOMES,
    "trust": "SELECT check, violations FROM v_trust_checks WHERE run_id = {run:String} ORDER BY check",
}
"""SQL statements by name. Parameters: ``run``; ``since`` and ``until`` bound the period, except for ``trust``."""


class Report(msgspec.Struct, frozen=True):
    """The metrics of one run: rows by the names in :data:`ANSWERS`."""

    run_id: str
    answers: Mapping[str, Rows]

    def __getitem__(self, name: str) -> Rows:
        return self.answers[name]

    @property
    def is_empty(self) -> bool:
        """True if there are neither calls nor signals."""
        return not self["spend"] and not self["signals"]

    @property
    def name(self) -> str:
        """Display name of the run."""
        return called(self.run_id, (row["provider_mode"] for row in self["modes"]))

    @property
    def modes(self) -> str:
        """Number of calls by mode, as a sentence."""
        counted = ", ".join(f"{row['calls']} {row['provider_mode'] or 'unknown'}" for row in self["modes"])
        return f"Calls by mode of their providers: {counted or 'none'}."

    @property
    def synthetic(self) -> str:
        """Warning that outcomes use synthetic prices; empty if none does."""
        if not any(row["on_synthetic_prices"] for row in self["coverage"]):
            return ""
        return "These outcomes use SYNTHETIC prices: they show how the report works and say nothing about the market."

    @property
    def without_outcomes(self) -> str:
        """Reason why there is no reliability curve, as a sentence; empty if there is one."""
        if self["calibration"]:
            return ""
        if not self["coverage"]:
            return "There are no signals, so there is nothing to compare with prices."
        return (
            "No signal has an outcome yet, so calibration is unknown: "
            "`newsproof outcomes import` reads prices and fills in outcomes."
        )

    @property
    def horizon_s(self) -> int:
        """Default horizon of charts: a day, or the one with most outcomes if a day has none; 0 without outcomes."""
        counted = {row["horizon_s"]: row["cases"] for row in self["calibration"]}
        return _DAY_S if _DAY_S in counted else max(counted, key=lambda seconds: (counted[seconds], seconds), default=0)


async def read_report(
    tables: ClickHouse, *, run_id: str, interval: Interval, period: Period = WHOLE, trust: bool = True
) -> Report:
    """Read the metrics of one run in a period. ``trust``: also read the checks, which cover the whole run.

    Raises:
        PermanentError: a view is missing, because the schema is older than this code.
    """
    parameters = {"run": run_id, **period.bounds}
    named = [name for name in QUESTIONS if trust or name != "trust"]
    results = await asyncio.gather(*(tables.query(QUESTIONS[name], parameters) for name in named))
    rows: dict[str, Rows] = {name: result.dicts() for name, result in zip(named, results, strict=True)}
    return Report(run_id=run_id, answers=await asyncio.to_thread(answers_of, rows, interval))


class StepFigures(msgspec.Struct, frozen=True, kw_only=True):
    """One step of the live run. Latency (ms) runs from its cause to its result; None when there was no result."""

    step: str
    results: int
    p50_ms: float | None
    p95_ms: float | None
    calls: int
    input_tokens: int
    output_tokens: int
    cost_usd: float | None
    unpriced_calls: int
    failed_calls: int


async def read_steps(tables: ClickHouse) -> list[StepFigures]:
    """Return latency and cost of every step of the live run, by name."""
    sql = """
SELECT l.step AS step, l.results AS results, l.p50_ms AS p50_ms, l.p95_ms AS p95_ms, c.calls AS calls,
       c.input_tokens AS input_tokens, c.output_tokens AS output_tokens, toFloat64(c.total_cost_usd) AS cost_usd,
       c.unpriced_calls AS unpriced_calls, c.failed_calls AS failed_calls
FROM v_latency_by_step AS l
LEFT JOIN (SELECT * FROM v_cost_by_step WHERE run_id = 'live') AS c ON c.step = l.step
WHERE l.run_id = 'live' ORDER BY step"""
    return [StepFigures(**row) for row in (await tables.query(sql)).dicts()]


def horizon(seconds: int) -> str:
    return HORIZONS.get(seconds, f"{seconds} s")


def by_day(report: Report) -> dict[str, dict[str, float]]:
    """Return the known cost in USD by day (in order) and step. Unknown costs are 0 here; ``unpriced`` counts them."""
    days: dict[str, dict[str, float]] = {}
    for row in report["spend"]:
        days.setdefault(row["day"], {})[row["step"]] = row["cost_usd"] or 0.0
    return days


def usd(value: float | None) -> str:
    """Format an amount: two decimals for 0 and from 1 on, up to six for small ones. None is "unknown"."""
    if value is None:
        return "unknown"
    return f"{value:,.2f}" if value == 0 or value >= 1 else f"{value:.6f}".rstrip("0").ljust(4, "0")


def milliseconds(value: float | None) -> str:
    """Format a duration with one decimal; None and NaN are "–"."""
    return "–" if value is None or value != value else f"{value:,.1f}"  # noqa: PLR0124 - not a number


ANSWERS = (
    *("spend", "latency", "to_signal", "signals", "unchecked", "deltas", "deltas_by_type", "precision", "reliability"),
    *("calibration", "calibrated_bins", "calibrated", "coverage", "cost_per_signal", "modes", "trust"),
)
"""The tables of a report, by name."""


def answers_of(rows: Mapping[str, Rows], interval: Interval) -> dict[str, Rows]:
    """Return the tables :data:`ANSWERS` from the rows of :data:`QUESTIONS`. A table without rows is empty."""
    calls, judgements, outcomes = rows["calls"], rows["judgements"], rows["outcomes"]
    verified = [row for row in judgements if row["verdict"] != "unchecked"]
    raw, calibrated = ([row for row in outcomes if row["part_of"] == part] for part in ("bin", "calibrated"))
    answers: dict[str, Rows] = {
        "spend": _grouped(calls, ("day", "step"), _spent),
        "latency": rows["latency"],
        "to_signal": rows["to_signal"],
        "signals": _grouped(judgements, ("day",), _by_verdict),
        "unchecked": _largest(
            _grouped([r for r in judgements if r["verdict"] == "unchecked"], ("unchecked_reason",), _signals)
        ),
        "deltas": _grouped(verified, ("delta_from",), _signals),
        "deltas_by_type": _largest(_grouped(verified, ("event_type",), _changed))[:MOST_TYPES],
        "precision": _precision([row for row in outcomes if row["part_of"] in _PRECISION], interval),
        "reliability": [_bin(row) for row in raw],
        "calibration": _grouped(raw, ("horizon_s",), _calibration),
        "calibrated_bins": [_bin(row) for row in calibrated],
        "calibrated": _grouped(calibrated, ("horizon_s",), _calibration),
        "coverage": [_standing(row) for row in outcomes if row["part_of"] == "standing"],
        "cost_per_signal": _cost_per_signal(calls, sum(row["signals"] for row in judgements)),
        "modes": _modes(calls),
        "trust": rows.get("trust", ()),
    }
    return {name: answers[name] for name in ANSWERS}


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
    """``cost_usd``: sum over executed calls with a known price; None if there are none."""
    priced = [row["cost_usd"] for row in rows if row["cost_usd"] is not None]
    counts = {name: _sum(rows, name) for name in ("calls", "executed", "unpriced")}
    return {**counts, "cost_usd": sum(priced) if priced else None}


def _cost_per_signal(calls: Rows, signals: int) -> Rows:
    """Total cost per signal, cases without a signal included."""
    if not calls:
        return ()
    spent = _spent(calls)
    each = None if spent["cost_usd"] is None or not signals else spent["cost_usd"] / signals
    return [{"signals": signals, **spent, "unpriced_calls": spent["unpriced"], "cost_per_signal_usd": each}]


def _modes(calls: Rows) -> Rows:
    modes = _grouped(calls, ("provider_mode",), lambda rows: {"calls": _sum(rows, "provided")})
    return sorted((row for row in modes if row["calls"]), key=lambda row: -row["calls"])


def _by_verdict(rows: Rows) -> Row:
    """Number of signals, in total and by verdict. ``without_verdict``: signals of schema 1, which have none."""
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


def _calibration(bins: Rows) -> Row:
    """As ``v_calibration``: ECE is the mean distance between hit rate and confidence over the bins, weighted by cases.

    ``ece_noise``: up to which ECE chance alone would explain it (:func:`streams.calibration.noise_floor.noise_floor`).
    """
    cases, hits, stated = (_sum(bins, name) for name in ("counted", "hits", "said"))
    return {
        "cases": cases,
        "hit_rate": hits / cases,
        "mean_confidence": stated / cases,
        "brier": _sum(bins, "squares") / cases,
        "ece": sum(abs(row["hits"] - row["said"]) for row in bins) / cases,
        "ece_noise": noise_floor([(row["counted"], row["said"] / row["counted"]) for row in bins]),
    }


def _standing(row: Row) -> Row:
    counts = {name: row[name] for name in ("signals", "on_synthetic_prices")}
    return {"horizon_s": row["horizon_s"], "standing": row["name"], **counts}


def _precision(blocks: Rows, interval: Interval) -> Rows:
    """Share of buy and sell signals whose asset moved in the signal's direction over the horizon, with its 95 % interval.

    For all signals, all signals with each withdrawn one held until its withdrawal (``held``), each verdict, and the sources
    with most outcomes at each horizon. The interval is None for too few blocks of time.
    """
    rows_of_parts = _grouped(blocks, ("horizon_s", "part_of", "name"), partial(_precise, interval=interval))
    rows_of_parts.sort(key=lambda row: (row["horizon_s"], _PRECISION.index(row["part_of"]), -row["counted"]))
    kept, sources = [], 0
    for row in rows_of_parts:
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
