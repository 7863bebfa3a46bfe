"""Price imports: stores prices from files or an exchange, and computes signal outcomes from all active imports."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import msgspec

from infra.clickhouse.client import ClickHouse
from infra.clickhouse.migrate import migrate
from infra.clickhouse.record import epoch_ms
from infra.embedded.child import DirectoryLock
from infra.market.outcomes.bar_files import SYNTHETIC, PriceFile
from infra.market.outcomes.bars import (
    Overlap,
    PriceImport,
    delete_bars,
    delete_left_over,
    market_name,
    next_version,
    overlaps,
    refuse_changed,
    standing_imports,
    standing_twin,
    times_covered,
    write_bars,
    write_import,
)
from infra.market.outcomes.exchange import Exchange
from infra.market.outcomes.markets import ENTRY_WITHIN_S, market_symbol, wanted_symbols
from infra.market.outcomes.returns import EXIT_WITHIN, HALT_AT_MOST_S
from infra.market.outcomes.tables import Changes, ComputedOutcomes, changes, compute, coverage, judged_cases, keep
from newsproof.app.data_access import database
from newsproof.app.invocation import UNITS_S, Invocation, parse_span, span_name
from newsproof.app.servers import with_data
from schemas.errors import ConfigError
from schemas.prices import HORIZONS_S, JudgedCase, Renaming

EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
LATEST = datetime(2100, 1, 1, tzinfo=UTC)
CHANGED_BY = 0.01
"""Share of the entry price. The preview of an import counts returns that change by more."""


class CaseSelection(msgspec.Struct, frozen=True, kw_only=True):
    """Cases to measure, and how. ``renamed``: the market on which an asset traded, and when.

    ``horizons_s`` are measured in addition to each signal's own. ``changed_by``: as ``CHANGED_BY``.
    """

    since: datetime = EARLIEST
    until: datetime = LATEST
    renamed: tuple[Renaming, ...] = ()
    entry_within_s: float = ENTRY_WITHIN_S
    horizons_s: tuple[int, ...] = HORIZONS_S
    changed_by: float = CHANGED_BY


class AtHorizon(msgspec.Struct, frozen=True, kw_only=True):
    """Totals of all active imports at one horizon. ``dropped_share`` (0-1): of all signals. ``dropped`` omits zeros."""

    horizon: str
    signals: int
    outcomes: int
    dropped: dict[str, int]
    dropped_share: float


class Preview(msgspec.Struct, frozen=True, kw_only=True):
    """Preview of an import's additions and changes. ``changed_by``: share above which ``beyond`` counts a change."""

    source: str
    bars: int
    markets: tuple[str, ...]
    changed_by: float
    changes: Changes
    overlaps: tuple[Overlap, ...]


class ImportReport(Preview, frozen=True, kw_only=True):
    """Result of an import. ``version``: its number. ``not_mapped``: asset without a market → number of signals.

    ``already``: an import of the same file and options was already active, so none was added.

    ``horizons``, ``not_mapped`` and ``coverage`` cover all active imports, ``coverage`` for live signals: by horizon,
    signals per standing (``v_outcome_coverage``).
    """

    version: int
    already: bool
    horizons: tuple[AtHorizon, ...]
    not_mapped: dict[str, int]
    coverage: dict[str, dict[str, int]]


class StandingImport(msgspec.Struct, frozen=True, kw_only=True):
    """One active import in ``outcomes list``. Times are ISO 8601 in UTC. ``from_at``, ``to_at``: the covered period."""

    version: int
    source: str
    imported_at: str
    bars: int
    markets: tuple[str, ...]
    from_at: str
    to_at: str
    horizons: tuple[str, ...]
    maps: tuple[str, ...]


class RemovedImports(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a removal. ``changed_by``: as in :class:`Preview`. ``standing``: remaining sources, oldest first."""

    versions: tuple[int, ...]
    sources: tuple[str, ...]
    bars: int
    changed_by: float
    changes: Changes
    standing: tuple[str, ...]


@asynccontextmanager
async def _tables(invocation: Invocation) -> AsyncIterator[ClickHouse]:
    # Two concurrent imports could take the same number, and one would delete the other's bars as leftovers. The lock
    # covers a data directory. Across machines, `standing_twin` and `refuse_changed` detect it, and the loser imports
    # nothing.
    settings = await with_data(invocation.settings(), given=invocation.data_dir_given, say=lambda _text: None)
    lock = DirectoryLock(settings.newsproof_data_dir / "outcomes", what="`newsproof outcomes`")
    lock.acquire()
    try:
        async with database(invocation, admin=True) as client:
            await migrate(client)
            yield client
    finally:
        lock.release()


async def import_file(
    invocation: Invocation, prices: PriceFile, wanted: CaseSelection, *, tell: Callable[[Preview], None] | None = None
) -> ImportReport:
    """Store a file's prices as a new import, and recompute all outcomes. Calls ``tell`` before it becomes active.

    Raises:
        ConfigError: it mixes synthetic and real prices in one market.
    """
    async with _tables(invocation) as client:
        return await _import(client, prices, wanted, times_covered(prices.series), tell)


async def import_from_exchange(
    invocation: Invocation,
    name: str,
    symbols: Sequence[str],
    wanted: CaseSelection,
    *,
    timeframe: str,
    base_url: str | None = None,
    tell: Callable[[Preview], None] | None = None,
) -> ImportReport:
    """Store an exchange's bars as a new import. Bars are requested only around the cases that need them.

    Raises:
        ConfigError: ccxt knows no such exchange, or the exchange has no such market.
        TransientError: the exchange does not respond; nothing was imported.
    """
    async with Exchange(name, base_url=base_url) as exchange, _tables(invocation) as client:
        cases = await judged_cases(client, since_ms=epoch_ms(wanted.since), until_ms=epoch_ms(wanted.until))
        now_ms = _now_ms()
        asked = {symbol: _windows(cases, symbol, wanted, now_ms=now_ms) for symbol in symbols}
        series = [await exchange.bars(symbol, windows, timeframe=timeframe) for symbol, windows in asked.items()]
        prices = PriceFile(
            series=tuple(series), bars=sum(len(s.times_ms) for s in series), source=f"{exchange.name}:{timeframe}"
        )
        covers = tuple(window for windows in asked.values() for window in windows)
        return await _import(client, prices, wanted, covers, tell)


def _windows(cases: Sequence[JudgedCase], symbol: str, wanted: CaseSelection, *, now_ms: int) -> list[tuple[int, int]]:
    """Return the time ranges (start, end) in ms that the cases of a market need.

    Windows closer than the longest halt are merged, so that a gap between two windows does not look like a halt.
    """
    market = market_symbol(symbol)
    merged: list[tuple[int, int]] = []
    for case in sorted(cases, key=lambda case: case.entry_from_ms):
        if market in wanted_symbols(case, wanted.renamed):
            longest = max((*wanted.horizons_s, *case.horizons_s))
            start = case.entry_from_ms
            end = start + round((longest * (1 + EXIT_WITHIN) + wanted.entry_within_s) * 1000)
            if merged and start <= merged[-1][1] + HALT_AT_MOST_S * 1000:
                merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
            else:
                merged.append((start, end))
    return [(start, min(end, now_ms)) for start, end in merged if start < now_ms]


async def _import(
    client: ClickHouse,
    prices: PriceFile,
    wanted: CaseSelection,
    covers: tuple[tuple[int, int], ...],
    tell: Callable[[Preview], None] | None,
) -> ImportReport:
    standing = await standing_imports(client)
    _refuse_mixing(prices, standing)
    await delete_left_over(client)
    new = _as_import(await next_version(client), prices, wanted, covers)
    twin: PriceImport | None = None
    try:
        await write_bars(client, new.version, prices.series)
        if twin := await standing_twin(client, new, standing):
            await delete_bars(client, [new.version])
            new = twin
        else:
            standing = [*standing, new]
        computed = await compute(client, standing, await judged_cases(client), now_ms=_now_ms())
        before = [earlier for earlier in standing if earlier.version < new.version]
        preview = Preview(
            source=new.source,
            bars=new.bars,
            markets=tuple(sorted(market_name(s.symbol, s.venue) for s in prices.series)),
            changed_by=wanted.changed_by,
            changes=await changes(client, computed, share=wanted.changed_by),
            overlaps=tuple(await overlaps(client, new.version, before, share=wanted.changed_by)),
        )
        if tell is not None:
            tell(preview)
        if not twin:
            await refuse_changed(client, new)
    except BaseException:
        if not twin:
            await delete_left_over(
                client, new.version
            )  # not an import that another process activated under this number
        raise
    if not twin:
        await write_import(client, new)
    await keep(client, computed)
    return await _report(client, new, preview, computed, already=twin is not None)


def _as_import(
    version: int, prices: PriceFile, wanted: CaseSelection, covers: tuple[tuple[int, int], ...]
) -> PriceImport:
    return PriceImport(
        version=version,
        source=prices.source,
        imported_ms=_now_ms(),
        bars=prices.bars,
        markets=tuple(sorted({series.symbol for series in prices.series})),
        covers=covers,
        entry_within_s=wanted.entry_within_s,
        cases_from_ms=epoch_ms(wanted.since),
        cases_until_ms=epoch_ms(wanted.until),
        horizons_s=wanted.horizons_s,
        maps=wanted.renamed,
    )


def _refuse_mixing(prices: PriceFile, before: Sequence[PriceImport]) -> None:
    """Refuse synthetic prices beside real ones in one market: together they would form one series."""
    invented, mine = prices.source.startswith(SYNTHETIC), {series.symbol for series in prices.series}
    for earlier in before:
        if earlier.source.startswith(SYNTHETIC) != invented and (both := sorted(mine & set(earlier.markets))):
            raise ConfigError(
                f"{earlier.source} has {'prices' if invented else 'invented prices'} of {', '.join(both[:5])}, which would mix with those of "
                f"{prices.source}: remove them first with `newsproof outcomes remove {earlier.source}`"
            )


async def _report(
    client: ClickHouse, new: PriceImport, preview: Preview, computed: ComputedOutcomes, *, already: bool
) -> ImportReport:
    standing: dict[str, dict[str, int]] = {}
    for horizon_s, how, signals, _share in await coverage(client):
        standing.setdefault(span_name(horizon_s), {})[how] = signals
    computed_by_horizon: Counter[int] = Counter(outcome.horizon_s for outcome in computed.outcomes)
    dropped: dict[int, Counter[str]] = {}
    for drop in computed.drops:
        dropped.setdefault(drop.horizon_s, Counter())[drop.reason] += 1
    return ImportReport(
        **msgspec.structs.asdict(preview),
        version=new.version,
        already=already,
        horizons=tuple(
            _at_horizon(horizon_s, computed_by_horizon[horizon_s], dropped.get(horizon_s, Counter()))
            for horizon_s in sorted({*new.horizons_s, *computed_by_horizon, *dropped})
        ),
        not_mapped=dict(Counter(case.asset or "(none)" for case in computed.not_mapped).most_common()),
        coverage=standing,
    )


def _at_horizon(horizon_s: int, outcomes: int, dropped: Counter[str]) -> AtHorizon:
    signals = outcomes + dropped.total()
    return AtHorizon(
        horizon=span_name(horizon_s),
        signals=signals,
        outcomes=outcomes,
        dropped=dict(dropped),
        dropped_share=dropped.total() / signals if signals else 0.0,
    )


async def active_imports(invocation: Invocation) -> list[StandingImport]:
    """Return the active imports, oldest first. The latest one wins for each bar."""
    async with database(invocation, admin=True) as client:
        return [
            StandingImport(
                version=active.version,
                source=active.source,
                imported_at=_utc(active.imported_ms),
                bars=active.bars,
                markets=active.markets,
                from_at=_utc(min((since for since, _ in active.covers), default=None)),
                to_at=_utc(max((until for _, until in active.covers), default=None)),
                horizons=tuple(map(span_name, active.horizons_s)),
                maps=tuple(f"{row.asset}={row.symbol}" for row in active.maps),
            )
            for active in await standing_imports(client)
        ]


async def remove_imports(invocation: Invocation, named: str, *, changed_by: float = CHANGED_BY) -> RemovedImports:
    """Remove the imports of one source, or the import of this version. Earlier imports apply again.

    Raises:
        ConfigError: no active import has this name.
    """
    async with _tables(invocation) as client:
        before = await standing_imports(client)
        gone = [price_import for price_import in before if named in (price_import.source, str(price_import.version))]
        left = [price_import for price_import in before if price_import not in gone]
        if not gone:
            listed = ", ".join(f"{price_import.version} {price_import.source}" for price_import in before) or "none"
            raise ConfigError(f"there is no import {named!r:.80}: choose an active one ({listed})")
        computed = await compute(client, left, await judged_cases(client), now_ms=_now_ms())
        moved = await changes(client, computed, share=changed_by)
        # In this order, repeating the command completes an interrupted removal.
        await keep(client, computed)
        for price_import in gone:
            await write_import(client, price_import, removed_ms=_now_ms())
        await delete_bars(client, [price_import.version for price_import in gone])
        return RemovedImports(
            versions=tuple(price_import.version for price_import in gone),
            sources=tuple(dict.fromkeys(price_import.source for price_import in gone)),
            bars=sum(price_import.bars for price_import in gone),
            changed_by=changed_by,
            changes=moved,
            standing=tuple(price_import.source for price_import in left),
        )


async def compute_again(invocation: Invocation, *, changed_by: float = CHANGED_BY) -> Changes:
    """Recompute all outcomes from the active imports, for cases judged and horizons ended since the last import."""
    async with _tables(invocation) as client:
        computed = await compute(client, await standing_imports(client), await judged_cases(client), now_ms=_now_ms())
        moved = await changes(client, computed, share=changed_by)
        await keep(client, computed)
        return moved


def horizon_seconds(written: str) -> tuple[int, ...]:
    """Parse a list of horizons such as ``5m,1h,4h,24h,7d`` into seconds, shortest first.

    Raises:
        ConfigError: the text is not such a list, or a horizon is longer than a year.
    """
    horizons = set()
    for written_span in written.split(","):
        seconds = parse_span(written_span.lower())
        if seconds is None or seconds > 366 * UNITS_S["d"]:
            raise ConfigError(
                f"--horizons or OUTCOME_HORIZONS is {written!r:.60}: write numbers with s, m, h or d, up to a year, such as 5m,1h,4h,24h,7d"
            )
        horizons.add(seconds)
    return tuple(sorted(horizons))


def _utc(ms: int | None) -> str:
    return "" if ms is None else f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"


def _now_ms() -> int:
    return int(time.time() * 1000)
