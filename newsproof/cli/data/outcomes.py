"""``newsproof outcomes``: keeps prices from files or an exchange, and computes from all that stand what became of signals."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import msgspec

from infra.clickhouse.client import ClickHouse
from infra.market.outcomes.bar_files import SYNTHETIC, PriceFile
from infra.market.outcomes.bars import (
    Overlap,
    PriceImport,
    delete_bars,
    market_name,
    next_version,
    overlaps,
    standing_imports,
    times_covered,
    write_bars,
    write_import,
)
from infra.market.outcomes.exchange import Exchange
from infra.market.outcomes.markets import ENTRY_WITHIN_S, market_symbol, wanted_symbols
from infra.market.outcomes.returns import EXIT_WITHIN, HALT_AT_MOST_S
from infra.market.outcomes.tables import Changes, Computed, changes, compute, coverage, judged_cases, keep
from newsproof.app.composition import clickhouse_of
from newsproof.app.invocation import Invocation, say_result, table
from newsproof.app.processes.supervisor import prepare_tables
from newsproof.app.servers import servers, with_data
from schemas.errors import ConfigError
from schemas.prices import HORIZONS_S, JudgedCase, Renaming

EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
LATEST = datetime(2100, 1, 1, tzinfo=UTC)
CHANGED_BY = 0.01
"""A return that moves by more than this share of the entry price is told of before an import writes."""
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_REASONS = ("no_symbol", "no_price", "gap", "halted", "horizon_open")


class CaseSelection(msgspec.Struct, frozen=True, kw_only=True):
    """Which cases to measure, and how. ``renamed``: on which market an asset traded, and when.

    ``horizons_s`` are measured beside each signal's own. ``changed_by``: as ``CHANGED_BY``.
    """

    since: datetime = EARLIEST
    until: datetime = LATEST
    renamed: tuple[Renaming, ...] = ()
    entry_within_s: float = ENTRY_WITHIN_S
    horizons_s: tuple[int, ...] = HORIZONS_S
    changed_by: float = CHANGED_BY


class AtHorizon(msgspec.Struct, frozen=True, kw_only=True):
    """What all imports that stand come to at one horizon. ``dropped_share`` (0-1) is of all signals; unused reasons are omitted."""

    horizon: str
    signals: int
    outcomes: int
    dropped: dict[str, int]
    dropped_share: float


class Preview(msgspec.Struct, frozen=True, kw_only=True):
    """What an import brings and changes, known before it is written. ``changed_by`` is the share that ``beyond`` counts from."""

    source: str
    bars: int
    markets: tuple[str, ...]
    changed_by: float
    changes: Changes
    overlaps: tuple[Overlap, ...]


class ImportReport(msgspec.Struct, frozen=True, kw_only=True):
    """Result of an import. ``version`` is its number; ``not_mapped`` maps each asset without a market to its number of signals.

    ``horizons``, ``not_mapped`` and ``coverage`` are over all imports that stand, ``coverage`` for live signals: by horizon,
    signals per standing (``v_outcome_coverage``).
    """

    version: int
    source: str
    bars: int
    markets: tuple[str, ...]
    changed_by: float
    changes: Changes
    overlaps: tuple[Overlap, ...]
    horizons: tuple[AtHorizon, ...]
    not_mapped: dict[str, int]
    coverage: dict[str, dict[str, int]]


class Removed(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a removal. ``beyond`` of ``changes`` counts from ``changed_by``; ``standing``: sources of the imports left, oldest first."""

    versions: tuple[int, ...]
    sources: tuple[str, ...]
    bars: int
    changed_by: float
    changes: Changes
    standing: tuple[str, ...]


@asynccontextmanager
async def _tables(invocation: Invocation) -> AsyncIterator[ClickHouse]:
    settings = await with_data(invocation.settings(), given=invocation.data_dir_given)
    async with servers(settings, kafka=False) as found:
        at = found.applied_to(settings)
        await prepare_tables(at)
        async with clickhouse_of(at) as client:
            yield client


async def import_file(
    invocation: Invocation, prices: PriceFile, wanted: CaseSelection, *, tell: Callable[[Preview], None] | None = None
) -> ImportReport:
    """Keep the prices of a file as a new import, and compute all outcomes again. ``tell`` is called before it counts.

    Raises:
        ConfigError: it mixes invented prices with others in one market.
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
    """Keep an exchange's bars as a new import; they are requested only around the cases that need them.

    Raises:
        ConfigError: ccxt knows no such exchange, or the exchange has no such market.
        TransientError: the exchange does not answer; nothing was imported.
    """
    async with Exchange(name, base_url=base_url) as exchange, _tables(invocation) as client:
        cases = await judged_cases(client, since_ms=_ms(wanted.since), until_ms=_ms(wanted.until))
        now_ms = _now_ms()
        asked = {symbol: _windows(cases, symbol, wanted, now_ms=now_ms) for symbol in symbols}
        series = [await exchange.bars(symbol, windows, timeframe=timeframe) for symbol, windows in asked.items()]
        found = PriceFile(
            series=tuple(series), bars=sum(len(s.times_ms) for s in series), source=f"{exchange.name}:{timeframe}"
        )
        covers = tuple(window for windows in asked.values() for window in windows)
        return await _import(client, found, wanted, covers, tell)


def _windows(cases: Sequence[JudgedCase], symbol: str, wanted: CaseSelection, *, now_ms: int) -> list[tuple[int, int]]:
    """Return the time ranges (start, end) in ms that the cases of a market need.

    Those nearer than the longest halt are one: a hole between two windows must not look like a halt.
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
    before = await standing_imports(client)
    _refuse_mixing(prices, before)
    new = PriceImport(
        version=await next_version(client),
        source=prices.source,
        imported_ms=_now_ms(),
        bars=prices.bars,
        markets=tuple(sorted({one.symbol for one in prices.series})),
        covers=covers,
        entry_within_s=wanted.entry_within_s,
        cases_from_ms=_ms(wanted.since),
        cases_until_ms=_ms(wanted.until),
        horizons_s=wanted.horizons_s,
        maps=wanted.renamed,
    )
    try:
        await write_bars(client, new.version, prices.series)
        cases = await judged_cases(client)
        computed = await compute(client, [*before, new], cases, now_ms=_now_ms())
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
    except BaseException:
        await delete_bars(client, [new.version])
        raise
    await write_import(client, new)
    await keep(client, computed)
    return await _report(client, new, preview, computed)


def _refuse_mixing(prices: PriceFile, before: Sequence[PriceImport]) -> None:
    """Refuse invented prices beside others in one market: bar by bar, they would be one series."""
    invented, mine = prices.source.startswith(SYNTHETIC), {one.symbol for one in prices.series}
    for one in before:
        if one.source.startswith(SYNTHETIC) != invented and (both := sorted(mine & set(one.markets))):
            raise ConfigError(
                f"{one.source} has {'prices' if invented else 'invented prices'} of {', '.join(both[:5])}, which would mix with those of "
                f"{prices.source}: forget them first, newsproof outcomes remove {one.source}"
            )


async def _report(client: ClickHouse, new: PriceImport, preview: Preview, computed: Computed) -> ImportReport:
    standing: dict[str, dict[str, int]] = {}
    for horizon_s, how, signals, _share in await coverage(client):
        standing.setdefault(horizon_name(horizon_s), {})[how] = signals
    found: Counter[int] = Counter(one.horizon_s for one in computed.outcomes)
    dropped: dict[int, Counter[str]] = {}
    for drop in computed.drops:
        dropped.setdefault(drop.horizon_s, Counter())[drop.reason] += 1
    return ImportReport(
        version=new.version,
        source=new.source,
        bars=new.bars,
        markets=preview.markets,
        changed_by=preview.changed_by,
        changes=preview.changes,
        overlaps=preview.overlaps,
        horizons=tuple(
            _at_horizon(horizon_s, found[horizon_s], dropped.get(horizon_s, Counter()))
            for horizon_s in sorted({*new.horizons_s, *found, *dropped})
        ),
        not_mapped=dict(Counter(case.asset or "(none)" for case in computed.not_mapped).most_common()),
        coverage=standing,
    )


def _at_horizon(horizon_s: int, outcomes: int, dropped: Counter[str]) -> AtHorizon:
    signals = outcomes + dropped.total()
    return AtHorizon(
        horizon=horizon_name(horizon_s),
        signals=signals,
        outcomes=outcomes,
        dropped=dict(dropped),
        dropped_share=dropped.total() / signals if signals else 0.0,
    )


async def remove(invocation: Invocation, named: str, *, changed_by: float = CHANGED_BY) -> Removed:
    """Forget the imports of one source, or the one of this version: what they hid counts again.

    Raises:
        ConfigError: no import that stands is named so.
    """
    async with _tables(invocation) as client:
        before = await standing_imports(client)
        gone = [one for one in before if named in (one.source, str(one.version))]
        left = [one for one in before if one not in gone]
        if not gone:
            listed = ", ".join(f"{one.version} {one.source}" for one in before) or "none"
            raise ConfigError(f"no import is called {named!r:.80}: name one of those that stand ({listed})")
        computed = await compute(client, left, await judged_cases(client), now_ms=_now_ms())
        moved = await changes(client, computed, share=changed_by)
        # In this order whatever interrupts it is made good by doing it again.
        await keep(client, computed)
        for one in gone:
            await write_import(client, one, removed_ms=_now_ms())
        await delete_bars(client, [one.version for one in gone])
        return Removed(
            versions=tuple(one.version for one in gone),
            sources=tuple(dict.fromkeys(one.source for one in gone)),
            bars=sum(one.bars for one in gone),
            changed_by=changed_by,
            changes=moved,
            standing=tuple(one.source for one in left),
        )


async def compute_again(invocation: Invocation, *, changed_by: float = CHANGED_BY) -> Changes:
    """Compute all outcomes again from the imports that stand: for cases judged, and horizons ended, since the last import."""
    async with _tables(invocation) as client:
        computed = await compute(client, await standing_imports(client), await judged_cases(client), now_ms=_now_ms())
        moved = await changes(client, computed, share=changed_by)
        await keep(client, computed)
        return moved


def horizon_seconds(written: str) -> tuple[int, ...]:
    """Parse a list of horizons such as ``5m,1h,4h,24h,7d`` into seconds, shortest first.

    Raises:
        ConfigError: it is none, or one of them is longer than a year.
    """
    found = set()
    for one in written.split(","):
        number, unit = one.strip()[:-1], one.strip()[-1:].lower()
        if (
            not (number.isascii() and number.isdigit())
            or unit not in _UNITS
            or not 0 < int(number) * _UNITS[unit] <= 366 * 86_400
        ):
            raise ConfigError(
                f"--horizons or OUTCOME_HORIZONS is {written!r:.60}: write numbers with s, m, h or d, up to a year, such as 5m,1h,4h,24h,7d"
            )
        found.add(int(number) * _UNITS[unit])
    return tuple(sorted(found))


def horizon_name(seconds: int) -> str:
    """Return a horizon in the largest unit that it is a whole number of: 5m, 4h, 24h, 7d."""
    if seconds % 86_400 == 0 and seconds > 86_400:
        return f"{seconds // 86_400}d"
    return next(f"{seconds // size}{unit}" for unit, size in (("h", 3600), ("m", 60), ("s", 1)) if seconds % size == 0)


def _ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)


def _now_ms() -> int:
    return int(time.time() * 1000)


def print_preview(found: Preview) -> None:
    """Say what an import brings and what it changes, before it counts."""
    say_result(f"{found.bars:,} bars of {', '.join(found.markets) or 'no market'} from {found.source}")
    for one in (one for one in found.overlaps if one.beyond):
        say_result(
            f"{one.market}: {one.bars:,} bars at the times of import {one.version} ({one.source}), {one.beyond:,} of them differ by "
            f"more than {found.changed_by:.2%}; half by {one.median:.4%} or less, at most {one.largest:.2%}"
        )
    if alike := [one for one in found.overlaps if not one.beyond]:
        say_result(
            f"{sum(one.bars for one in alike):,} bars at the times of earlier imports ({len(alike)} markets and imports) differ "
            f"by {max(one.largest for one in alike):.4%} at most"
        )
    _say_changes(found.changes, found.changed_by, "This import changes")


def _say_changes(of: Changes, share: float, begin: str) -> None:
    say_result(
        f"{begin}: {of.new:,} new outcomes; of {of.known:,} known ones {of.gone:,} go, {of.moved:,} are measured at other prices, "
        f"{of.beyond:,} by more than {share:.2%} of the entry price"
    )
    for source, outcomes in sorted(of.gone_before_bars.items()):
        say_result(
            f"{outcomes:,} outcomes of {source} go, which were imported before prices were kept: import it again"
        )


def print_import(report: ImportReport) -> None:
    """Say what all imports come to, after one more."""
    say_result(f"Import {report.version} ({report.source}) counts from now on")
    rows = [
        (h.horizon, h.signals, h.outcomes, *(h.dropped.get(r, 0) for r in _REASONS), f"{h.dropped_share:.1%}")
        for h in report.horizons
    ]
    columns = ("horizon", "signals", "outcomes", *_REASONS, "dropped")
    table(columns, rows, title="Outcomes of all imports that stand", right=columns[1:])
    if report.not_mapped:
        named = ", ".join(f"{asset} ({signals})" for asset, signals in report.not_mapped.items())
        say_result(f"No market for the signals on: {named}. Renamed? Say --map ASSET=BASE/QUOTE.")
    ways = sorted({how for by in report.coverage.values() for how in by}, key=lambda how: (how != "counted", how))
    if ways:
        covered = [(horizon, *(by.get(how, 0) for how in ways)) for horizon, by in report.coverage.items()]
        table(("horizon", *ways), covered, title="All live signals (v_outcome_coverage)", right=ways)


def print_removed(found: Removed) -> None:
    """Say what a removal changed, and what stands now."""
    versions = ", ".join(str(version) for version in found.versions)
    say_result(f"Import {versions} ({', '.join(found.sources)}) counts no longer: {found.bars:,} bars removed")
    _say_changes(found.changes, found.changed_by, "This changed")
    say_result(f"What stands, oldest first: {', '.join(found.standing) or 'nothing'}")


def print_changes(found: Changes, *, changed_by: float = CHANGED_BY) -> None:
    """Say what computing again changed."""
    _say_changes(found, changed_by, "Computing again changed")


__all__ = [
    "CHANGED_BY",
    "EARLIEST",
    "LATEST",
    "CaseSelection",
    "Changes",
    "ImportReport",
    "Preview",
    "Removed",
    "compute_again",
    "horizon_name",
    "horizon_seconds",
    "import_file",
    "import_from_exchange",
    "print_changes",
    "print_import",
    "print_preview",
    "print_removed",
    "remove",
]
