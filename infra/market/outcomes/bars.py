"""The tables ``bars`` and ``price_imports``. Imports are versioned; for each bar, the latest active import wins.

An import is written in two steps: first its bars, which are not active yet, then its row in ``price_imports``, which
activates them. So an import is active as a whole or not at all, and its effects can be computed before it is.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice, pairwise
from math import isnan
from statistics import median
from typing import Any

import msgspec

from infra.clickhouse.client import ClickHouse
from infra.clickhouse.record import Row, epoch_ms
from schemas.errors import TransientError
from schemas.prices import NO_END_MS, PriceSeries, Renaming

HOLE_MS = 900_000
"""Length of the parts into which :func:`times_covered` divides time."""
BLOCK = 100_000
"""Bars per insert: about 7 MB."""
_BARS = ("version", "symbol", "venue", "open_at", "open", "high", "low", "close", "volume")
_IMPORTS = (
    *("version", "source", "imported_at", "bars", "markets", "covers", "entry_within_s", "cases_from"),
    *("cases_until", "horizons", "maps", "removed", "removed_at"),
)
# Queried by version and not through v_bars, because an import in progress has no row in price_imports yet.
_MARKETS = """
SELECT symbol, venue, groupUniqArray(version) FROM bars
WHERE version IN {versions:Array(UInt64)} AND ({all:Bool} OR symbol IN {symbols:Array(String)})
GROUP BY symbol, venue ORDER BY symbol, venue
"""
_OF_MARKET = """
SELECT toUnixTimestamp64Milli(open_at), open, high, low, close, ifNull(volume, nan), version
FROM bars
WHERE version IN {versions:Array(UInt64)} AND symbol = {symbol:String} AND venue = {venue:String}
  AND open_at >= fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
  AND open_at < fromUnixTimestamp64Milli({until_ms:Int64}, 'UTC')
ORDER BY open_at, version DESC
LIMIT 1 BY open_at
"""
_OVERLAPS = """
SELECT o.version, symbol, venue, count() AS common, countIf(abs(n.open / o.open - 1) > {share:Float64}),
       quantileExact(0.5)(abs(n.open / o.open - 1)), max(abs(n.open / o.open - 1))
FROM (SELECT symbol, venue, open_at, open FROM bars WHERE version = {version:UInt64}) AS n
INNER JOIN (SELECT version, symbol, venue, open_at, open FROM bars WHERE version IN {older:Array(UInt64)}) AS o USING (symbol, venue, open_at)
GROUP BY o.version, symbol, venue ORDER BY symbol, venue, o.version
"""
_CONTENT = """
SELECT version, count(), sum(cityHash64(symbol, venue, open_at, open, high, low, close, ifNull(volume, -1))) FROM bars
WHERE version IN {versions:Array(UInt64)} GROUP BY version
"""
_LEFT_OVER = (
    "SELECT DISTINCT version FROM bars WHERE version NOT IN (SELECT version FROM price_imports FINAL WHERE NOT removed)"
)
_COLUMNS = 7
"""Number of columns of ``_OF_MARKET``, each 8 bytes in ``RowBinary``."""


class PriceImport(msgspec.Struct, frozen=True, kw_only=True):
    """An import of prices. ``version`` counts from 1; times are milliseconds since 1970.

    ``covers``: as :func:`times_covered`. ``cases_from_ms`` and ``cases_until_ms`` bound the cases that the prices were
    imported for. ``horizons_s`` are the import's horizons, in addition to each signal's own.
    """

    version: int
    source: str
    imported_ms: int
    bars: int
    markets: tuple[str, ...]
    covers: tuple[tuple[int, int], ...]
    entry_within_s: float
    cases_from_ms: int = 0
    cases_until_ms: int = NO_END_MS
    horizons_s: tuple[int, ...]
    maps: tuple[Renaming, ...] = ()


async def standing_imports(client: ClickHouse) -> list[PriceImport]:
    """Return the active imports, those that were not removed, oldest first."""
    columns = ", ".join(_IMPORTS[:11])
    result = await client.query(f"SELECT {columns} FROM price_imports FINAL WHERE NOT removed ORDER BY version")
    return [_import(row) for row in result.rows]


def _import(row: Row) -> PriceImport:
    version, source, at, bars, markets, covers, within, cases_from, cases_until, horizons, maps = row
    return PriceImport(
        version=version,
        source=source,
        imported_ms=epoch_ms(at),
        bars=bars,
        markets=tuple(markets),
        covers=tuple((_utc_ms(since), _utc_ms(until)) for since, until in map(_values, covers)),
        entry_within_s=within,
        cases_from_ms=epoch_ms(cases_from),
        cases_until_ms=epoch_ms(cases_until),
        horizons_s=tuple(horizons),
        maps=tuple(map(_renaming, maps)),
    )


def _renaming(row: Any) -> Renaming:
    asset, symbol, since, until = _values(row)
    return Renaming(asset=asset, symbol=symbol, from_ms=_utc_ms(since), until_ms=_utc_ms(until))


def _values(row: Any) -> Iterable[Any]:
    # clickhouse_connect returns a named tuple as a dict.
    return row.values() if isinstance(row, dict) else row


def _utc_ms(at: datetime) -> int:
    return epoch_ms(at if at.tzinfo else at.replace(tzinfo=UTC))


async def stored_bars(
    client: ClickHouse,
    *,
    symbols: Collection[str] | None = None,
    since_ms: int = 0,
    until_ms: int = NO_END_MS,
    imports: Sequence[PriceImport] | None = None,
) -> list[PriceSeries]:
    """Return the active bars, one series per market, of ``symbols`` (None: all) from ``since_ms`` until ``until_ms``.

    ``imports``: the imports to read instead of all active ones. A bar takes 56 bytes of memory.
    """
    chosen = await standing_imports(client) if imports is None else imports
    covered = {prices.version: prices.covers for prices in chosen}
    asked = {"versions": list(covered), "all": symbols is None, "symbols": list(symbols or ())}
    markets = await client.query(_MARKETS, asked)
    since, until = max(since_ms, 0), min(until_ms, NO_END_MS)
    series = []
    for symbol, venue, versions in markets.rows:
        wanted = {"versions": versions, "symbol": symbol, "venue": venue, "since_ms": since, "until_ms": until}
        raw = await client.raw(_OF_MARKET, wanted, shape="RowBinary")
        series.append(_series(symbol, venue, raw, sorted(span for version in versions for span in covered[version])))
    return [bars for bars in series if bars.times_ms]


def _series(symbol: str, venue: str, raw: bytes, covered: Sequence[tuple[int, int]]) -> PriceSeries:
    whole, real = array("q", raw), array("d", raw)
    if sys.byteorder == "big":
        whole.byteswap()
        real.byteswap()
    opens, highs, lows, closes, volumes = (real[place::_COLUMNS] for place in range(1, 6))
    return PriceSeries(
        symbol=symbol,
        venue=venue,
        times_ms=whole[0::_COLUMNS],
        opens=opens,
        highs=highs,
        lows=lows,
        closes=closes,
        volumes=volumes,
        imports=whole[6::_COLUMNS],
        covered=covered,
    )


class Overlap(msgspec.Struct, frozen=True, kw_only=True):
    """The differences between an import's prices and an older import's at the same times (opens), as shares.

    ``beyond``: the number of bars that differ by more than the given share.
    """

    version: int
    source: str
    market: str
    bars: int
    beyond: int
    median: float
    largest: float


async def overlaps(client: ClickHouse, version: int, older: Sequence[PriceImport], *, share: float) -> list[Overlap]:
    """Compare the bars written for ``version`` with those of the ``older`` imports, for each market."""
    sources = {prices.version: prices.source for prices in older}
    asked = {"version": version, "older": list(sources), "share": share}
    result = await client.query(_OVERLAPS, asked)
    return [
        Overlap(
            version=of,
            source=sources[of],
            market=market_name(symbol, venue),
            bars=common,
            beyond=beyond,
            median=middle,
            largest=largest,
        )
        for of, symbol, venue, common, beyond, middle, largest in result.rows
    ]


def market_name(symbol: str, venue: str) -> str:
    """Return a market's name for people."""
    return f"{symbol} ({venue})" if venue else symbol


def times_covered(series: Iterable[PriceSeries]) -> tuple[tuple[int, int], ...]:
    """Return the spans of time (first bar, last bar) that have bars of any market and no long hole.

    A hole is long if it is longer than both a quarter of an hour and three usual distances.
    """
    ends: dict[int, tuple[int, int]] = {}
    for bars in series:
        for at in bars.times_ms:
            first, last = ends.get(at // HOLE_MS, (at, at))
            ends[at // HOLE_MS] = min(first, at), max(last, at)
    parts = sorted(ends)
    usual = median(later - earlier for earlier, later in pairwise(parts)) if len(parts) > 1 else 1
    spans: list[tuple[int, int]] = []
    for earlier, part in zip([None, *parts], parts, strict=False):
        first, last = ends[part]
        if earlier is not None and part - earlier <= max(1, 3 * usual):
            spans[-1] = (spans[-1][0], last)
        else:
            spans.append((first, last))
    return tuple(spans)


async def next_version(client: ClickHouse) -> int:
    """Return the next import's number. It is counted: a clock that was set back could let an older import win."""
    newest = await client.query(
        "SELECT greatest((SELECT max(version) FROM bars), (SELECT max(version) FROM price_imports))"
    )
    return int(newest.rows[0][0]) + 1


async def write_bars(client: ClickHouse, version: int, series: Iterable[PriceSeries]) -> None:
    """Write the bars of an import. They are not active until :func:`write_import`."""
    for bars in series:
        rows = _rows(version, bars)
        while block := list(islice(rows, BLOCK)):
            await client.insert("bars", _BARS, block)


def _rows(version: int, bars: PriceSeries) -> Iterator[Row]:
    volumes = (None if isnan(v) else v for v in bars.volumes)
    columns = (bars.times_ms, bars.opens, bars.highs, bars.lows, bars.closes, volumes)
    return ((version, bars.symbol, bars.venue, *bar) for bar in zip(*columns, strict=True))


async def delete_left_over(client: ClickHouse, only: int | None = None) -> None:
    """Delete bars without an active import, left by an import or removal that was killed. ``only``: of this version.

    An import in progress in another process loses its bars, too; there, :func:`refuse_changed` detects this before the
    import becomes active.
    """
    versions = [version for (version,) in (await client.query(_LEFT_OVER)).rows]
    await delete_bars(client, [version for version in versions if only in (None, version)])


async def standing_twin(client: ClickHouse, new: PriceImport, standing: Sequence[PriceImport]) -> PriceImport | None:
    """Return the active import with the same source, options and bars as ``new``, or None.

    Also None if a later import hides some of its bars, because importing it again would restore them.

    Raises:
        TransientError: another process wrote bars under the same number.
    """
    alike = [
        prices
        for place, prices in enumerate(standing)
        if msgspec.structs.replace(prices, version=new.version, imported_ms=new.imported_ms) == new
        and not any(_hides(later, prices) for later in standing[place + 1 :])
    ]
    rows = (await client.query(_CONTENT, {"versions": [new.version, *(prices.version for prices in alike)]})).rows
    content = {version: (count, digest) for version, count, digest in rows}
    _refuse_other_count(content.get(new.version, (0,))[0], new)
    return next((prices for prices in alike if content.get(prices.version) == content.get(new.version)), None)


async def refuse_changed(client: ClickHouse, new: PriceImport) -> None:
    """Check just before :func:`write_import` that the number of bars of ``new`` is still the number written.

    Raises:
        TransientError: another process deleted them, or wrote bars or an import under the same number.
    """
    rows = (await client.query(_CONTENT, {"versions": [new.version]})).rows
    taken = any(prices.version == new.version for prices in await standing_imports(client))
    _refuse_other_count(0 if taken or not rows else rows[0][1], new)


def _refuse_other_count(stored: int, new: PriceImport) -> None:
    if stored != new.bars:
        raise TransientError(
            "another process changes the imported prices at the same time, so nothing was imported: import again when it is done",
            kind="unavailable",
        )


def _hides(later: PriceImport, earlier: PriceImport) -> bool:
    assets = {row.asset for row in later.maps} & {row.asset for row in earlier.maps}
    return bool(assets or set(later.markets) & set(earlier.markets))


async def write_import(client: ClickHouse, prices: PriceImport, *, removed_ms: int | None = None) -> None:
    """Write the row of an import: the import is active from now on, or with ``removed_ms``, no longer active."""
    maps = [(row.asset, row.symbol, row.from_ms, row.until_ms) for row in prices.maps]
    row = (
        *(prices.version, prices.source, prices.imported_ms, prices.bars, list(prices.markets), list(prices.covers)),
        *(prices.entry_within_s, prices.cases_from_ms, prices.cases_until_ms, list(prices.horizons_s), maps),
        *(int(removed_ms is not None), removed_ms),
    )
    await client.insert("price_imports", _IMPORTS, [row])


async def delete_bars(client: ClickHouse, versions: Collection[int]) -> None:
    """Delete the bars of these imports; complete on return."""
    named = ", ".join(str(int(version)) for version in versions)
    if named:
        await client.command(f"DELETE FROM bars WHERE version IN ({named})")
