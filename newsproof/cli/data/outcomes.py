"""``newsproof outcomes``: keeps prices from files or an exchange, and computes from all that stand what became of signals."""

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
from infra.market.outcomes.tables import Changes, Computed, changes, compute, coverage, judged_cases, keep
from newsproof.app.data_access import database
from newsproof.app.invocation import Invocation, say_result, table
from newsproof.app.servers import with_data
from newsproof.app.terminal import as_started
from schemas.errors import ConfigError
from schemas.prices import HORIZONS_S, JudgedCase, Renaming
from schemas.printable import counted

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


class ImportReport(Preview, frozen=True, kw_only=True):
    """Result of an import. ``version`` is its number; ``not_mapped`` maps each asset without a market to its number of signals.

    ``already``: the import stood before, of the same file and options; no other was made of it.

    ``horizons``, ``not_mapped`` and ``coverage`` are over all imports that stand, ``coverage`` for live signals: by horizon,
    signals per standing (``v_outcome_coverage``).
    """

    version: int
    already: bool
    horizons: tuple[AtHorizon, ...]
    not_mapped: dict[str, int]
    coverage: dict[str, dict[str, int]]


class StandingImport(msgspec.Struct, frozen=True, kw_only=True):
    """One import that counts, as ``outcomes list`` shows it. Times are ISO 8601 in UTC; ``from_at`` and ``to_at``: first and last that it covers."""

    version: int
    source: str
    imported_at: str
    bars: int
    markets: tuple[str, ...]
    from_at: str
    to_at: str
    horizons: tuple[str, ...]
    maps: tuple[str, ...]


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
    # Two imports at once could take one number, and one deletes the bars of the other as left over. The lock is of a data
    # directory: from two machines, `standing_twin` and `refuse_changed` see it, and who lost its bars imports nothing.
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
        cases = await judged_cases(client, since_ms=epoch_ms(wanted.since), until_ms=epoch_ms(wanted.until))
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
        before = [one for one in standing if one.version < new.version]
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
            await delete_left_over(client, new.version)  # not what another process made stand under this number
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
        markets=tuple(sorted({one.symbol for one in prices.series})),
        covers=covers,
        entry_within_s=wanted.entry_within_s,
        cases_from_ms=epoch_ms(wanted.since),
        cases_until_ms=epoch_ms(wanted.until),
        horizons_s=wanted.horizons_s,
        maps=wanted.renamed,
    )


def _refuse_mixing(prices: PriceFile, before: Sequence[PriceImport]) -> None:
    """Refuse invented prices beside others in one market: bar by bar, they would be one series."""
    invented, mine = prices.source.startswith(SYNTHETIC), {one.symbol for one in prices.series}
    for one in before:
        if one.source.startswith(SYNTHETIC) != invented and (both := sorted(mine & set(one.markets))):
            raise ConfigError(
                f"{one.source} has {'prices' if invented else 'invented prices'} of {', '.join(both[:5])}, which would mix with those of "
                f"{prices.source}: remove them first with `newsproof outcomes remove {one.source}`"
            )


async def _report(
    client: ClickHouse, new: PriceImport, preview: Preview, computed: Computed, *, already: bool
) -> ImportReport:
    standing: dict[str, dict[str, int]] = {}
    for horizon_s, how, signals, _share in await coverage(client):
        standing.setdefault(horizon_name(horizon_s), {})[how] = signals
    found: Counter[int] = Counter(one.horizon_s for one in computed.outcomes)
    dropped: dict[int, Counter[str]] = {}
    for drop in computed.drops:
        dropped.setdefault(drop.horizon_s, Counter())[drop.reason] += 1
    return ImportReport(
        **msgspec.structs.asdict(preview),
        version=new.version,
        already=already,
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


async def listed(invocation: Invocation) -> list[StandingImport]:
    """Return the imports that stand, oldest first: of two that have a bar of one time, the later one's counts."""
    async with database(invocation, admin=True) as client:
        return [
            StandingImport(
                version=one.version,
                source=one.source,
                imported_at=_utc(one.imported_ms),
                bars=one.bars,
                markets=one.markets,
                from_at=_utc(min((since for since, _ in one.covers), default=None)),
                to_at=_utc(max((until for _, until in one.covers), default=None)),
                horizons=tuple(map(horizon_name, one.horizons_s)),
                maps=tuple(f"{row.asset}={row.symbol}" for row in one.maps),
            )
            for one in await standing_imports(client)
        ]


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
            raise ConfigError(f"there is no import {named!r:.80}: choose an active one ({listed})")
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


def _utc(ms: int | None) -> str:
    return "" if ms is None else f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"


def _now_ms() -> int:
    return int(time.time() * 1000)


def print_preview(found: Preview) -> None:
    """Say what an import brings and what it changes, before it counts."""
    say_result(f"{counted(found.bars, 'bar')} for {', '.join(found.markets) or 'no market'} from {found.source}")
    for one in (one for one in found.overlaps if one.beyond):
        say_result(
            f"{one.market}: {counted(one.bars, 'bar')} overlap with import {one.version} ({one.source}); {one.beyond:,} of them differ by "
            f"more than {found.changed_by:.2%}; median {one.median:.4%}, maximum {one.largest:.2%}"
        )
    if alike := [one for one in found.overlaps if not one.beyond]:
        say_result(
            f"{counted(sum(one.bars for one in alike), 'bar')} overlap with earlier imports ({len(alike)} markets and imports) and differ "
            f"by {max(one.largest for one in alike):.4%} at most"
        )
    _say_changes(found.changes, found.changed_by, "This import changes")


def _say_changes(of: Changes, share: float, begin: str) -> None:
    say_result(
        f"{begin}: {of.new:,} new outcomes; of {of.known:,} known ones, {of.gone:,} are removed and {of.moved:,} get other prices, "
        f"{of.beyond:,} of them by more than {share:.2%} of the entry price"
    )
    for source, outcomes in sorted(of.gone_before_bars.items()):
        say_result(
            f"{source} loses {counted(outcomes, 'outcome')} from a version that did not store prices: import it again"
        )


def print_import(report: ImportReport) -> None:
    """Say what all imports come to, after one more."""
    state = "already has these bars, so nothing was imported" if report.already else "is now active"
    say_result(f"Import {report.version} ({report.source}) {state}")
    rows = [
        (h.horizon, h.signals, h.outcomes, *(h.dropped.get(r, 0) for r in _REASONS), f"{h.dropped_share:.1%}")
        for h in report.horizons
    ]
    columns = ("horizon", "signals", "outcomes", *_REASONS, "dropped")
    table(columns, rows, title="Outcomes of all active imports", right=columns[1:])
    if report.not_mapped:
        named = ", ".join(f"{asset} ({signals})" for asset, signals in report.not_mapped.items())
        say_result(f"No market for the signals on: {named}. If an asset was renamed, use --map ASSET=BASE/QUOTE.")
    ways = sorted({how for by in report.coverage.values() for how in by}, key=lambda how: (how != "counted", how))
    if ways:
        covered = [(horizon, *(by.get(how, 0) for how in ways)) for horizon, by in report.coverage.items()]
        table(("horizon", *ways), covered, title="All live signals (v_outcome_coverage)", right=ways)


def print_imports(found: Sequence[StandingImport]) -> None:
    """Print the active imports as a table."""
    if not found:
        say_result(as_started("No prices imported. Import some with `newsproof outcomes import`."))
        return
    columns = ("import", "source", "imported at", "bars", "markets", "from", "to", "horizons", "maps")
    shown = (msgspec.structs.replace(one, markets=_few(one.markets)) for one in found)
    table(columns, map(msgspec.structs.astuple, shown), title="Active imports", right=("import", "bars"))


def _few(markets: tuple[str, ...]) -> tuple[str, ...]:
    return markets if len(markets) <= 4 else (*markets[:3], f"and {len(markets) - 3} more")


def print_removed(found: Removed) -> None:
    """Say what a removal changed, and what stands now."""
    versions = ", ".join(str(version) for version in found.versions)
    say_result(f"Import {versions} ({', '.join(found.sources)}) was removed: {counted(found.bars, 'bar')}")
    _say_changes(found.changes, found.changed_by, "The removal changes")
    say_result(f"Active imports, oldest first: {', '.join(found.standing) or 'none'}")


def print_changes(found: Changes, *, changed_by: float = CHANGED_BY) -> None:
    """Say what computing again changed."""
    _say_changes(found, changed_by, "The recomputation changes")
