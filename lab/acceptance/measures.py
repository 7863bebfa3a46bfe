"""Measurements of an acceptance run, read from ClickHouse like all other metrics of cost and latency."""

from __future__ import annotations

import msgspec

from infra.clickhouse.client import ClickHouse
from newsproof.report.data import StepFigures, read_steps

_DEEP = """deep AS (SELECT case_id FROM events FINAL
  WHERE event_type = 'newsproof.signal_synthesized' AND outcome = 'deep')"""
_CASES = """
SELECT n.external AS message, s.status AS status, s.path AS path, s.took_ms AS took_ms, s.said AS outcome,
       s.action AS action, s.verdict AS verdict, c.searches AS searches,
       c.requests AS requests, c.billed_requests AS billed_requests,
       c.calls AS calls, toFloat64(c.spent_usd) AS cost_usd, c.unpriced AS unpriced_calls
FROM (SELECT case_id, external_id AS external FROM news FINAL) AS n
INNER JOIN (
  SELECT case_id, dateDiff('millisecond', min(event_time), max(event_time)) AS took_ms,
         argMax(event_type, journal_offset) AS status, argMax(outcome, journal_offset) AS path,
         argMax(JSONExtractString(payload, 'signal', 'action'), journal_offset) AS action,
         argMax(JSONExtractString(payload, 'signal', 'verdict'), journal_offset) AS verdict,
         argMax(concat(JSONExtractString(payload, 'signal', 'action'), ' ',
                       toString(round(JSONExtractFloat(payload, 'signal', 'confidence'), 2))), journal_offset) AS said
  FROM events FINAL GROUP BY case_id) AS s ON s.case_id = n.case_id
LEFT JOIN (SELECT case_id, count() AS calls, countIf(kind = 'search' AND error_type = '') AS searches,
    countIf(kind = 'search' AND NOT cached AND error_type NOT IN ('budget', 'breaker_open', 'not_configured')) AS requests,
    sum(units) AS billed_requests, sum(cost_usd) AS spent_usd, countIf(cost_usd IS NULL) AS unpriced
  FROM v_calls GROUP BY case_id) AS c ON c.case_id = n.case_id
ORDER BY message"""
_STEP_SECONDS = f"""
WITH {_DEEP}
SELECT step, avg(took_s) AS seconds FROM (
  SELECT case_id, step, sum(step_latency_ms) / 1000 AS took_s FROM events FINAL
  WHERE case_id IN deep AND step != '' AND event_type != 'newsproof.effect_completed' GROUP BY case_id, step)
GROUP BY step"""
_SEARCHES = """
SELECT count() AS asked, countIf(error_type = '') AS answered FROM tool_calls FINAL WHERE tool_name = 'search'"""


class CaseMeasure(msgspec.Struct, frozen=True, kw_only=True):
    """One message. ``took_ms`` runs from the case's opening to its end; ``cost_usd`` None: no call has a known price.

    ``searches``: those with a response. ``requests``: those sent to a provider. ``billed_requests``: those that it
    bills, with two for a search at depth advanced. ``action`` and ``verdict`` are the signal's; empty without one.
    """

    message: str
    status: str
    path: str
    took_ms: float
    outcome: str
    calls: int
    cost_usd: float | None
    unpriced_calls: int
    action: str
    verdict: str
    searches: int
    requests: int
    billed_requests: int


class RunMeasures(msgspec.Struct, frozen=True, kw_only=True):
    """A whole run. ``seconds_by_step``: mean per deep message, rounds summed."""

    steps: tuple[StepFigures, ...]
    cases: tuple[CaseMeasure, ...]
    seconds_by_step: dict[str, float]
    searches_asked: int
    searches_answered: int

    @property
    def deep(self) -> tuple[CaseMeasure, ...]:
        """The messages that took the deep path."""
        return tuple(c for c in self.cases if c.path == "deep")


async def measured(tables: ClickHouse, order: dict[str, int]) -> RunMeasures:
    """Read the measurements of an installation that held nothing else; ``order`` ranks the steps for the table."""
    steps = await read_steps(tables)
    cases = [CaseMeasure(**row) for row in (await tables.query(_CASES)).dicts()]
    seconds = {str(step): float(s) for step, s in (await tables.query(_STEP_SECONDS)).rows}
    asked, answered = (await tables.query(_SEARCHES)).rows[0]
    return RunMeasures(
        steps=tuple(sorted(steps, key=lambda s: order.get(s.step, len(order)))),
        cases=tuple(cases),
        seconds_by_step=seconds,
        searches_asked=int(asked),
        searches_answered=int(answered),
    )


async def ended(tables: ClickHouse) -> set[str]:
    """Return the ids of the messages whose case has ended according to the tables."""
    result = await tables.query(
        "SELECT external_id FROM news FINAL WHERE case_id IN (SELECT case_id FROM events FINAL"
        " WHERE event_type IN ('newsproof.signal_synthesized', 'newsproof.case_dropped', 'newsproof.case_failed'))"
    )
    return {str(row[0]) for row in result.rows}
