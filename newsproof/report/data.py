"""What the standard report asks of ClickHouse: few statements, for each that names a view costs a tenth of a second to plan alone."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import msgspec

from infra.clickhouse.client import ClickHouse
from newsproof.report.answers import Interval, Rows, answers_of
from newsproof.report.period import WHOLE, Period, in_period
from newsproof.report.run_name import called

HORIZONS = {300: "5 min", 3600: "1 h", 14400: "4 h", 86400: "24 h", 604800: "7 d", 2592000: "30 d"}
"""Display names by ``horizon_s``."""
_DAY_S = 86_400

_OUTCOMES = """
SELECT horizon_s, tupleElement(part, 1) AS part_of, tupleElement(part, 2) AS name, tupleElement(part, 3) AS block,
       count() AS signals, uniqExact(story_id) AS stories, countIf(acted) AS acted, countIf(counts) AS counted, countIf(hit = 1) AS hits,
       sumIf(confidence, counts) AS said, sumIf(pow(confidence - assumeNotNull(hit), 2), counts) AS squares,
       countIf(synthetic) AS on_synthetic_prices
FROM
(
    SELECT horizon_s, story_id, acted, counts, hit, confidence, synthetic,
           toUInt32(intDiv(toUnixTimestamp(first_at), greatest(86400, 2 * horizon_s))) AS day,
           arrayJoin(arrayConcat([('standing', standing, toUInt32(0))],
               if(counts, [('bin', toString(least(9, toInt32(floor(confidence * 10 + 1e-9)))), toUInt32(0))], []),
               if(acted, [('all', '', day), ('verdict', verdict, day), ('source', news_source, day)], []))) AS part
    FROM
    (
        SELECT j.horizon_s AS horizon_s, j.case_id AS case_id, j.story_id AS story_id, j.acted AS acted, j.hit AS hit,
               j.confidence AS confidence, j.verdict AS verdict, j.news_source AS news_source,
               j.standing = 'counted' AS counts, startsWith(j.price_source, 'synthetic') AS synthetic,
               multiIf(j.standing != 'no_outcome', j.standing, d.case_id = '', 'not_imported', d.reason) AS standing,
               min(j.knowable_at) OVER (PARTITION BY j.horizon_s, j.story_id) AS first_at
        FROM v_judged_outcomes AS j
        LEFT JOIN (SELECT case_id, horizon_s, reason FROM outcome_drops FINAL) AS d
            ON d.case_id = j.case_id AND d.horizon_s = j.horizon_s
        WHERE j.run_id = {run:String} AND IN_PERIOD
    )
)
GROUP BY horizon_s, part_of, name, block ORDER BY horizon_s, part_of, name, block""".replace(
    "IN_PERIOD", in_period("ifNull(j.emitted_at, j.knowable_at)")
)
"""What became of the signals, read once for all figures: the view joins most tables. In five parts: by standing; of those that
count by tenth of confidence; of those that were acted on all, by verdict and by source, each by block of time. A block is a
UTC day, or twice the horizon where that is more, and a story lies in that of its first case."""

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
"""SQL statements by name. The run is the parameter ``run``; ``since`` and ``until`` bound its period, but not that of ``trust``."""


class Report(msgspec.Struct, frozen=True):
    """The figures of one run, rows by the names of :data:`newsproof.report.answers.ANSWERS`."""

    run_id: str
    answers: Mapping[str, Rows]

    def __getitem__(self, name: str) -> Rows:
        return self.answers[name]

    @property
    def is_empty(self) -> bool:
        """Whether there were neither calls nor signals."""
        return not self["spend"] and not self["signals"]

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

    @property
    def horizon_s(self) -> int:
        """The horizon that is drawn where none is chosen: a day, or if nothing counts there that of most outcomes; 0 without any."""
        counted = {row["horizon_s"]: row["cases"] for row in self["calibration"]}
        return _DAY_S if _DAY_S in counted else max(counted, key=lambda one: (counted[one], one), default=0)


async def read_report(
    tables: ClickHouse, *, run_id: str, interval: Interval, period: Period = WHOLE, trust: bool = True
) -> Report:
    """Read the figures of one run in a period. Without ``trust`` its checks, which are of the whole run, are not asked.

    Raises:
        PermanentError: a view is missing, because the schema is older than this code.
    """
    asked = {"run": run_id, **period.bounds}
    named = [name for name in QUESTIONS if trust or name != "trust"]
    found = await asyncio.gather(*(tables.query(QUESTIONS[name], asked) for name in named))
    rows: dict[str, Rows] = {name: one.dicts() for name, one in zip(named, found, strict=True)}
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
    """Format an amount: two decimals for 0 and from 1 on, up to six for small ones; None is "unknown"."""
    if value is None:
        return "unknown"
    return f"{value:,.2f}" if value == 0 or value >= 1 else f"{value:.6f}".rstrip("0").ljust(4, "0")


def milliseconds(value: float | None) -> str:
    """Format a duration with one decimal; None and NaN are "–"."""
    return "–" if value is None or value != value else f"{value:,.1f}"  # noqa: PLR0124 - not a number
