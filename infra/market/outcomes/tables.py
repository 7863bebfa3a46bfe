"""ClickHouse queries and inserts of the import of outcomes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from infra.clickhouse.client import ClickHouse
from schemas.prices import Drop, JudgedCase, Outcome

_OUTCOMES = (
    *("case_id", "horizon_s", "asset", "symbol", "venue", "entry_at", "entry_price", "exit_at", "exit_price", "return"),
    *("source", "version"),
)
_DROPS = ("case_id", "horizon_s", "asset", "reason", "source", "version")
_LEAST_VERSION = 1
"""Version of ``no_symbol`` drops: the lowest, so that any other reason, of any import, replaces them."""

# Outcomes belong to cases and are shared by all runs. The live signal decides which asset is measured; for a case that
# only backtests found worth a signal, the first run's does.
_CASES = """
SELECT case_id, asset, symbol, venue, toUnixTimestamp64Milli(knowable_at) AS knowable_ms
FROM
(
    SELECT run_id, case_id, asset, symbol, venue, knowable_at FROM v_judgements
    UNION ALL
    SELECT run_id, case_id, asset, '' AS symbol, '' AS venue, knowable_at FROM run_cases FINAL WHERE has_signal
)
WHERE knowable_at >= {since:DateTime64(3, 'UTC')} AND knowable_at < {until:DateTime64(3, 'UTC')}
ORDER BY run_id != 'live', run_id, case_id
LIMIT 1 BY case_id
"""
_COVERAGE = """
SELECT horizon_s, standing, signals, share FROM v_outcome_coverage WHERE run_id = 'live' ORDER BY horizon_s, standing
"""


async def judged_cases(client: ClickHouse, *, since: datetime, until: datetime) -> list[JudgedCase]:
    """Return the cases with a signal that became knowable from ``since`` (inclusive) to ``until`` (exclusive)."""
    found = await client.query(_CASES, {"since": since, "until": until})
    return [
        JudgedCase(case_id=case_id, asset=asset, symbol=symbol, venue=venue, knowable_at_ms=knowable_ms)
        for case_id, asset, symbol, venue, knowable_ms in found.rows
    ]


async def keep(client: ClickHouse, outcomes: Sequence[Outcome], drops: Iterable[Drop], *, source: str) -> None:
    """Write outcomes and drops. They replace those of earlier imports for the same case and horizon.

    Rows are independent, so running an interrupted import again completes it.
    """
    version = await _next_version(client)
    rows = [
        (
            *(o.case_id, o.horizon_s, o.asset, o.symbol, o.venue, o.entry_at_ms, o.entry_price),
            *(o.exit_at_ms, o.exit_price, o.change, source, version),
        )
        for o in outcomes
    ]
    await client.insert("outcomes", _OUTCOMES, rows)
    dropped = [
        (d.case_id, d.horizon_s, d.asset, d.reason, source, _LEAST_VERSION if d.reason == "no_symbol" else version)
        for d in drops
    ]
    await client.insert("outcome_drops", _DROPS, dropped)


async def _next_version(client: ClickHouse) -> int:
    # Counted, not read from a clock: a clock that was set back must not let an older import win.
    found = await client.query(
        "SELECT greatest((SELECT max(version) FROM outcomes), (SELECT max(version) FROM outcome_drops))"
    )
    return max(int(found.rows[0][0]), _LEAST_VERSION) + 1


async def coverage(client: ClickHouse) -> list[tuple[int, str, int, float]]:
    """Return the state of the live signals at each horizon over all imports, as (horizon, standing, signals, share)."""
    found = await client.query(_COVERAGE)
    return [(int(h), str(standing), int(n), float(share)) for h, standing, n, share in found.rows]


async def forget(client: ClickHouse, source: str) -> int:
    """Delete the outcomes and drops of one source; return the number of outcomes deleted.

    The deletion is complete on return. Rows of earlier imports for the same case and horizon do not come back.
    """
    found = await client.query("SELECT count() FROM outcomes FINAL WHERE source = {source:String}", {"source": source})
    for table in ("outcomes", "outcome_drops"):
        await client.query(f"DELETE FROM {table} WHERE source = {{source:String}}", {"source": source})
    return int(found.rows[0][0])
