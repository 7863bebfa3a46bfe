"""Reads the signals of a run from ClickHouse, and the bars of their markets, one group of markets at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec

from infra.clickhouse.client import ClickHouse
from infra.market.outcomes.bars import PriceImport, standing_imports, stored_bars
from infra.market.outcomes.markets import Markets, wanted_symbols
from infra.market.outcomes.tables import judged_cases
from newsproof.report.period import WHOLE, Period, in_period
from schemas.errors import ConfigError
from schemas.ids import LIVE_RUN
from schemas.prices import NO_END_MS, JudgedCase, Renaming

_LIVE = f"""
SELECT case_id, asset, symbol, venue, action, direction, confidence, horizon_s, event_type, verdict, news_source,
       toUnixTimestamp64Milli(if(live, greatest(knowable_at, emitted_at), knowable_at)), live
FROM v_judgements WHERE run_id = {{run:String}} AND {in_period("emitted_at")}
ORDER BY case_id
"""
# A run's own signal names its market in its JSON.
_REPLAYED = """
SELECT case_id, asset, JSONExtractString(signal, 'symbol'), JSONExtractString(signal, 'venue'), action, direction, confidence,
       horizon_s, event_type, verdict, source
FROM run_cases FINAL WHERE run_id = {run:String} AND repeat = {repeat:UInt16} AND has_signal
ORDER BY case_id
"""
_STATES = """
SELECT status, toUInt8(max(repeat) + 1), countIf(repeat = {repeat:UInt16}) FROM %s
WHERE run_id = {run:String} GROUP BY status ORDER BY status
"""
_WITHDRAWN = """
SELECT w.case_id, toUnixTimestamp64Milli(w.withdrawn_at), toUnixTimestamp64Milli(greatest(w.withdrawn_at, r.told_at))
FROM (SELECT case_id, withdrawn_at FROM v_withdrawals WHERE run_id = 'live') AS w
INNER JOIN
(
    SELECT case_id, min(emitted_at) AS told_at FROM signals FINAL
    WHERE run_id = 'live' AND stage IN ('retracted', 'superseded') GROUP BY case_id
) AS r ON r.case_id = w.case_id
"""


class RunSignal(msgspec.Struct, frozen=True, kw_only=True):
    """A signal of a run. ``from_ms``: when it was emitted, for news that was not live when it would have been;
    ``withdrawn_ms``: when its denial or correction could be known, for live news when it was told. Milliseconds since 1970.
    """

    case_id: str
    asset: str
    symbol: str
    venue: str
    action: str
    direction: str
    confidence: float
    horizon_s: int
    event_type: str
    verdict: str
    source: str
    from_ms: int
    withdrawn_ms: int | None

    @property
    def judged(self) -> JudgedCase:
        """The case that finds its market."""
        return JudgedCase(
            case_id=self.case_id,
            asset=self.asset,
            symbol=self.symbol,
            venue=self.venue,
            knowable_at_ms=self.from_ms,
        )


_NAMED = RunSignal.__struct_fields__[:-2]


def cases_of(run_id: str) -> str:
    """Return what holds the cases of a run, for FROM: a backtest's are in one table, and the view plans ten joins besides."""
    return "v_run_cases" if run_id == LIVE_RUN else "run_cases FINAL"


class RunSignals(msgspec.Struct, frozen=True, kw_only=True):
    """The signals of one repeat of a run, and how many of its cases came to which other status than ``replayed``."""

    run_id: str
    signals: list[RunSignal]
    unfinished: dict[str, int]


async def read_signals(tables: ClickHouse, run_id: str, repeat: int = 0) -> RunSignals:
    """Read the signals of a run (``live``: the recorded ones). All runs have a case's signal at one time.

    Raises:
        ConfigError: there is no such run, or it has fewer repeats.
    """
    asked = {"run": run_id, "repeat": repeat}
    states, signals = await asyncio.gather(
        tables.query(_STATES % cases_of(run_id), asked), _signals_of(tables, run_id, repeat, WHOLE)
    )
    repeats = max((int(row[1]) for row in states.rows), default=0)
    if repeats <= repeat:
        raise ConfigError(await _missing(tables, run_id, repeat, repeats))
    unfinished = {status: int(n) for status, _, n in states.rows if status != "replayed" and n}
    return RunSignals(run_id=run_id, signals=signals, unfinished=unfinished)


async def live_signals(tables: ClickHouse, period: Period) -> list[RunSignal]:
    """Read the live signals that were emitted in a period.

    Raises:
        ConfigError: there is none.
    """
    signals = await _signals_of(tables, LIVE_RUN, 0, period)
    if not signals:
        none = "no live signal was emitted in this time: choose another"
        raise ConfigError(await _missing(tables, LIVE_RUN, 0, 0) if period == WHOLE else none)
    return signals


async def _signals_of(tables: ClickHouse, run_id: str, repeat: int, period: Period) -> list[RunSignal]:
    asked = {"run": run_id, "repeat": repeat, **period.bounds}
    live = run_id == LIVE_RUN
    rows, withdrawn = await asyncio.gather(tables.query(_LIVE if live else _REPLAYED, asked), read_withdrawals(tables))
    if live:
        timing = {row[0]: row[-2:] for row in rows.rows}
    else:
        timing = {case.case_id: (case.entry_from_ms, case.emitted_at_ms) for case in await judged_cases(tables)}

    def signal(row: Sequence[Any]) -> RunSignal:
        from_ms, was_live = timing[row[0]]
        known, told_ms = withdrawn.get(row[0], (None, None))
        values = dict(zip(_NAMED, row, strict=False))
        return RunSignal(**values, from_ms=from_ms, withdrawn_ms=told_ms if was_live else known)

    return [signal(row) for row in rows.rows]


async def read_withdrawals(tables: ClickHouse) -> dict[str, tuple[int, int]]:
    """Return by case the time from which the withdrawal of its live signal was knowable, and the time at which bots also had it.

    Unix milliseconds. Nobody could act on live news before bots had it. Withdrawals became known in the world, so every
    run has those of the journal.
    """
    return {case_id: (known, told_ms) for case_id, known, told_ms in (await tables.query(_WITHDRAWN)).rows}


async def _missing(tables: ClickHouse, run_id: str, repeat: int, repeats: int) -> str:
    if repeats:
        return f"run {run_id} has {repeats} repeats, counted from 0: there is no --repeat {repeat}"
    if run_id == LIVE_RUN:
        return "ClickHouse has no live judgements yet: publish news and wait for the sink to catch up"
    newest = await tables.query("SELECT run_id FROM runs FINAL ORDER BY started_at DESC LIMIT 8")
    known = ", ".join(run for (run,) in newest.rows) or "none yet"
    return f"there is no run {run_id!r} with cases in ClickHouse: there are {known} (newsproof backtest list)"


class StoredPrices:
    """The bars of all active imports."""

    def __init__(self, tables: ClickHouse, imports: Sequence[PriceImport]) -> None:
        self._tables = tables
        self._imports = imports
        self._maps: tuple[Renaming, ...] = tuple(row for prices in imports for row in prices.maps)
        self.synthetic = frozenset(prices.version for prices in imports if prices.source.startswith("synthetic"))
        """Imports of invented prices."""
        self.within_s = {prices.version: prices.entry_within_s for prices in imports}
        """By how much an entry may be late, by import."""

    @classmethod
    async def opened(cls, tables: ClickHouse) -> StoredPrices:
        """Find the active imports.

        Raises:
            ConfigError: there is none.
        """
        imports = await standing_imports(tables)
        if not imports:
            raise ConfigError("there are no prices yet: import some with `newsproof outcomes import`")
        return cls(tables, imports)

    async def read(self, symbols: Sequence[str], since_ms: int, until_ms: int) -> Markets:
        """Return the bars of these markets from ``since_ms`` to ``until_ms``."""
        span = {"since_ms": since_ms, "until_ms": until_ms}
        series = await stored_bars(self._tables, symbols=symbols, imports=self._imports, **span) if symbols else []
        return Markets(series, self._maps)

    async def by_market(
        self, signals: Sequence[RunSignal], *, before_ms: int, after_ms: int | None = None
    ) -> AsyncIterator[tuple[Markets, list[RunSignal]]]:
        """Yield the signals by the markets that can measure them, with their bars from ``before_ms`` before the first of
        them to ``after_ms`` after the last (None: to their end). One group's bars are in memory at a time."""
        groups: dict[tuple[str, ...], list[RunSignal]] = {}
        for signal in signals:
            groups.setdefault(wanted_symbols(signal.judged, self._maps), []).append(signal)
        for symbols, of_group in groups.items():
            times = [signal.from_ms for signal in of_group]
            until_ms = NO_END_MS if after_ms is None else max(times) + after_ms
            yield await self.read(symbols, min(times) - before_ms, until_ms), of_group
