"""Figures of the standard report. Each is one query on a ClickHouse view, so that everyone can repeat it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from infra.clickhouse.client import ClickHouse
from newsproof.report.run_name import called

HORIZONS = {300: "5 min", 3600: "1 h", 14400: "4 h", 86400: "24 h", 604800: "7 d", 2592000: "30 d"}
"""Display names by ``horizon_s``."""

QUESTIONS: dict[str, str] = {
    "spend": """
SELECT toString(day) AS day, step, sum(calls) AS calls, sum(executed_calls) AS executed,
       toFloat64(sum(total_cost_usd)) AS cost_usd, sum(unpriced_calls) AS unpriced
FROM v_spend WHERE run_id = {run:String} GROUP BY day, step ORDER BY day, step""",
    "latency": """
SELECT step, results, failures, p50_ms, p95_ms, p99_ms
FROM v_latency_by_step WHERE run_id = {run:String} ORDER BY step""",
    "to_signal": """
SELECT verdict, signals, opened_p50_ms, opened_p95_ms, opened_p99_ms
FROM v_latency_to_signal WHERE run_id = {run:String} ORDER BY verdict""",
    "deltas": """
SELECT delta_from, sum(signals) AS signals
FROM v_confidence_delta_bins WHERE run_id = {run:String} GROUP BY delta_from ORDER BY delta_from""",
    "deltas_by_type": """
SELECT event_type, signals, mean_preliminary, mean_final, mean_delta, raised, lowered
FROM v_confidence_delta_by_event_type WHERE run_id = {run:String} ORDER BY signals DESC, event_type LIMIT 20""",
    "reliability": """
SELECT horizon_s, confidence_from, cases, stories, mean_confidence, hit_rate
FROM v_reliability WHERE run_id = {run:String} ORDER BY horizon_s, confidence_from""",
    "calibration": """
SELECT horizon_s, cases, hit_rate, mean_confidence, brier, ece
FROM v_calibration WHERE run_id = {run:String} ORDER BY horizon_s""",
    "coverage": """
SELECT horizon_s, standing, signals, on_synthetic_prices
FROM v_outcome_coverage WHERE run_id = {run:String} ORDER BY horizon_s, standing""",
    "cost_per_signal": """
SELECT signals, calls, toFloat64(total_cost_usd) AS cost_usd, unpriced_calls, cost_per_signal_usd
FROM v_cost_per_signal_by_run WHERE run_id = {run:String}""",
    "modes": """
SELECT provider_mode, count() AS calls FROM v_calls WHERE run_id = {run:String} AND provider_name != 'journal'
GROUP BY provider_mode ORDER BY calls DESC""",
    "trust": """
SELECT check, violations FROM v_trust_checks WHERE run_id = {run:String} ORDER BY check""",
}
"""SQL statements by name. The run is the parameter ``run``."""

Rows = Sequence[Mapping[str, Any]]


class Report(msgspec.Struct, frozen=True):
    """The answers to ``QUESTIONS`` for one run, by name."""

    run_id: str
    answers: Mapping[str, Rows]

    def __getitem__(self, name: str) -> Rows:
        return self.answers[name]

    @property
    def is_empty(self) -> bool:
        """Whether the run has neither calls nor signals."""
        return not self["spend"] and not self["deltas"]

    @property
    def name(self) -> str:
        """What a person calls the run."""
        return called(self.run_id, (row["provider_mode"] for row in self["modes"]))

    @property
    def modes(self) -> str:
        """How many calls were made in which mode, as a sentence."""
        counted = ", ".join(f"{row['calls']} {row['provider_mode'] or 'unknown'}" for row in self["modes"])
        return f"Calls by mode of their providers: {counted or 'none'}."

    @property
    def synthetic(self) -> str:
        """That outcomes rest on synthetic prices, as a sentence; empty if none does."""
        if not any(row["on_synthetic_prices"] for row in self["coverage"]):
            return ""
        return "These outcomes rest on SYNTHETIC prices: they show how it works and say nothing of the market."

    @property
    def without_outcomes(self) -> str:
        """Why there is no reliability curve, as a sentence; empty if there is one."""
        if self["calibration"]:
            return ""
        if not self["coverage"]:
            return "There are no signals, so there is nothing to hold against prices."
        return (
            "No signal has an outcome yet, so nothing can be said of calibration: "
            "`newsproof outcomes import` reads prices and fills the outcomes."
        )


async def read_report(tables: ClickHouse, *, run_id: str) -> Report:
    """Run every query of ``QUESTIONS`` for one run.

    Raises:
        PermanentError: a view is missing, because the schema is older than this code.
    """
    answers = {name: (await tables.query(sql, {"run": run_id})).dicts() for name, sql in QUESTIONS.items()}
    return Report(run_id=run_id, answers=answers)


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
    """Format an amount: two decimals for 0 and from 1 on, up to six for small ones; None is "unknown"."""
    if value is None:
        return "unknown"
    return f"{value:,.2f}" if value == 0 or value >= 1 else f"{value:.6f}".rstrip("0").ljust(4, "0")


def milliseconds(value: float | None) -> str:
    """Format a duration with one decimal; None and NaN are "–"."""
    return "–" if value is None or value != value else f"{value:,.1f}"  # noqa: PLR0124 - not a number
