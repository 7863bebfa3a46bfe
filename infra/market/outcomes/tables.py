"""The tables ``outcomes`` and ``outcome_drops``, computed as a whole from the judged cases and the active imports."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from math import inf

import msgspec

from infra.clickhouse.client import ClickHouse
from infra.market.outcomes.bars import PriceImport, stored_bars
from infra.market.outcomes.markets import Markets, wanted_symbols
from infra.market.outcomes.returns import measure
from schemas.prices import Drop, JudgedCase, Outcome

_OUTCOMES = (
    *("case_id", "horizon_s", "asset", "symbol", "venue", "entry_at", "entry_price", "exit_at", "exit_price", "return"),
    *("halted", "depeg", "entry_import", "exit_import", "source", "version"),
)
_DROPS = ("case_id", "horizon_s", "asset", "reason", "source", "version")

# Outcomes belong to cases and are shared by all runs. The live signal decides which asset is measured; if only
# backtests made a signal for a case, the first run's signal does. The horizons are those of every run's signal.
_CASES = """
SELECT case_id, tupleElement(first, 1), tupleElement(first, 2), tupleElement(first, 3), tupleElement(first, 4), tupleElement(first, 5),
       horizons
FROM
(
    SELECT case_id, argMin(tuple(asset, symbol, venue, knowable_ms, emitted_ms), tuple(run_id != 'live', run_id, repeat)) AS first,
           arraySort(groupUniqArrayIf(own_s, own_s > 0)) AS horizons
    FROM
    (
        SELECT run_id, 0 AS repeat, case_id, asset, symbol, venue, toUnixTimestamp64Milli(knowable_at) AS knowable_ms,
               if(live AND run_id = 'live', toUnixTimestamp64Milli(emitted_at), 0) AS emitted_ms, horizon_s AS own_s
        FROM v_judgements
        UNION ALL
        SELECT r.run_id, r.repeat, r.case_id, r.asset, '' AS symbol, '' AS venue,
               toUnixTimestamp64Milli(ifNull(o.first_at, r.knowable_at)) AS knowable_ms, 0 AS emitted_ms, r.horizon_s AS own_s
        FROM (SELECT * FROM run_cases FINAL WHERE has_signal) AS r
        LEFT JOIN
        (
            SELECT case_id, argMin(knowable_at, journal_offset) AS first_at FROM events
            WHERE run_id = 'live' AND event_type = 'newsproof.event_received' GROUP BY case_id
        ) AS o ON o.case_id = r.case_id
    )
    GROUP BY case_id
)
ORDER BY case_id
"""
_COVERAGE = """
SELECT horizon_s, standing, signals, share FROM v_outcome_coverage WHERE run_id = 'live' ORDER BY horizon_s, standing
"""
_KNOWN = """
SELECT case_id, horizon_s, asset, symbol, venue, toUnixTimestamp64Milli(entry_at), entry_price, toUnixTimestamp64Milli(exit_at),
       exit_price, halted, depeg, entry_import, exit_import, source
FROM outcomes FINAL
"""


class ComputedOutcomes(msgspec.Struct, frozen=True, kw_only=True):
    """The outcomes and drops of the judged cases. ``not_mapped``: the cases without a market."""

    outcomes: tuple[Outcome, ...]
    drops: tuple[Drop, ...]
    sources: dict[int, str]
    """The sources of the imports behind the outcomes and drops, by version."""
    drop_sources: tuple[str, ...]
    """The source of each drop, in the order of ``drops``."""
    not_mapped: tuple[JudgedCase, ...]


class Changes(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of changed outcomes. ``beyond``: remaining outcomes whose return changes by more than the given share.

    ``gone_before_bars`` counts, by source, those of ``gone`` that were imported before prices were stored. To keep
    them, import these sources again.
    """

    known: int
    new: int
    gone: int
    moved: int
    beyond: int
    gone_before_bars: dict[str, int]


async def judged_cases(client: ClickHouse, *, since_ms: float = -inf, until_ms: float = inf) -> list[JudgedCase]:
    """Return the cases with a signal that became knowable from ``since_ms`` (inclusive) to ``until_ms`` (exclusive)."""
    result = await client.query(_CASES)
    cases = [
        JudgedCase(
            case_id=case_id,
            asset=asset,
            symbol=symbol,
            venue=venue,
            knowable_at_ms=knowable_ms,
            emitted_at_ms=emitted_ms,
            horizons_s=tuple(horizons),
        )
        for case_id, asset, symbol, venue, knowable_ms, emitted_ms, horizons in result.rows
    ]
    return [case for case in cases if since_ms <= case.knowable_at_ms < until_ms]


async def compute(
    client: ClickHouse, imports: Sequence[PriceImport], cases: Iterable[JudgedCase], *, now_ms: int
) -> ComputedOutcomes:
    """Compute the outcomes from these imports, and no others, for the cases that one of them was imported for.

    Holds the bars of one asset at a time in memory.
    """
    renamed = tuple(row for prices in imports for row in prices.maps)
    within = {prices.version: prices.entry_within_s for prices in imports}
    horizons = {horizon for prices in imports for horizon in prices.horizons_s}
    stored = {symbol for prices in imports for symbol in prices.markets}
    groups: dict[tuple[str, ...], list[JudgedCase]] = {}
    for case in cases:
        if any(prices.cases_from_ms <= case.knowable_at_ms < prices.cases_until_ms for prices in imports):
            wanted = tuple(symbol for symbol in wanted_symbols(case, renamed) if symbol in stored)
            groups.setdefault(wanted, []).append(case)
    sources = {prices.version: prices.source for prices in imports}
    outcomes: list[Outcome] = []
    drops: list[Drop] = []
    drop_sources: list[str] = []
    not_mapped: list[JudgedCase] = []
    for symbols, of_market in groups.items():
        bars = await stored_bars(client, symbols=symbols, imports=imports) if symbols else []
        markets = Markets(bars, renamed)
        newest_of = {(series.symbol, series.venue): sources[max(series.imports)] for series in bars}
        for case in of_market:
            series = markets.of(case)
            if series is None:
                not_mapped.append(case)
            newest = "" if series is None else newest_of[series.symbol, series.venue]
            asked = sorted(horizons.union(case.horizons_s))
            for outcome in measure(case, series, now_ms=now_ms, horizons_s=asked, entry_within_s=within):
                if isinstance(outcome, Outcome):
                    outcomes.append(outcome)
                else:
                    drops.append(outcome)
                    drop_sources.append(newest)
    return ComputedOutcomes(
        outcomes=tuple(outcomes),
        drops=tuple(drops),
        sources=sources,
        drop_sources=tuple(drop_sources),
        not_mapped=tuple(not_mapped),
    )


async def changes(client: ClickHouse, computed: ComputedOutcomes, *, share: float) -> Changes:
    """Compare the stored outcomes with the computed ones. ``beyond`` counts returns that change by over ``share``."""
    known: dict[tuple[str, int], tuple[Outcome, str]] = {}
    for *fields, source in (await client.query(_KNOWN)).rows:
        outcome = Outcome(**dict(zip(Outcome.__struct_fields__, fields, strict=True)))
        known[outcome.case_id, outcome.horizon_s] = outcome, source
    by_key = {
        (computed_outcome.case_id, computed_outcome.horizon_s): computed_outcome
        for computed_outcome in computed.outcomes
    }
    both = [(known[key][0], computed_outcome) for key, computed_outcome in by_key.items() if key in known]
    before_bars: dict[str, int] = {}
    for key, (outcome, source) in known.items():
        if key not in by_key and not outcome.entry_import:
            before_bars[source] = before_bars.get(source, 0) + 1
    return Changes(
        known=len(known),
        new=len(by_key.keys() - known.keys()),
        gone=len(known.keys() - by_key.keys()),
        moved=sum(_prices(was) != _prices(now) for was, now in both),
        beyond=sum(abs(was.change - now.change) > share for was, now in both),
        gone_before_bars=before_bars,
    )


def _prices(outcome: Outcome) -> tuple[float, ...]:
    return outcome.entry_at_ms, outcome.entry_price, outcome.exit_at_ms, outcome.exit_price


async def keep(client: ClickHouse, computed: ComputedOutcomes) -> None:
    """Replace the contents of the tables with the computed outcomes and drops.

    New rows are inserted before old rows are deleted, so no reader sees a table without the outcomes that remain. After
    an interruption, call this again.
    """
    version = await _next_version(client)
    rows = [
        (
            *(o.case_id, o.horizon_s, o.asset, o.symbol, o.venue, o.entry_at_ms, o.entry_price),
            *(o.exit_at_ms, o.exit_price, o.change, o.halted, o.depeg, o.entry_import, o.exit_import),
            *(_source(computed.sources, (o.entry_import, o.exit_import)), version),
        )
        for o in computed.outcomes
    ]
    dropped = [
        (d.case_id, d.horizon_s, d.asset, d.reason, source, version)
        for d, source in zip(computed.drops, computed.drop_sources, strict=True)
    ]
    await client.insert("outcomes", _OUTCOMES, rows)
    await client.insert("outcome_drops", _DROPS, dropped)
    for table in ("outcomes", "outcome_drops"):
        await client.command(f"DELETE FROM {table} WHERE version < {version}")


def _source(sources: dict[int, str], imports: Collection[int]) -> str:
    # Synthetic prices first, because they are found by the beginning of the name.
    named = {sources[number] for number in imports}
    return " + ".join(sorted(named, key=lambda name: (not name.startswith("synthetic"), name)))


async def _next_version(client: ClickHouse) -> int:
    # Counted, because with a clock that was set back, older outcomes could win.
    newest = await client.query(
        "SELECT greatest((SELECT max(version) FROM outcomes), (SELECT max(version) FROM outcome_drops))"
    )
    return int(newest.rows[0][0]) + 1


async def coverage(client: ClickHouse) -> list[tuple[int, str, int, float]]:
    """Return the number and share of live signals by horizon and state, as (horizon, standing, signals, share)."""
    result = await client.query(_COVERAGE)
    return [(int(h), str(standing), int(n), float(share)) for h, standing, n, share in result.rows]
