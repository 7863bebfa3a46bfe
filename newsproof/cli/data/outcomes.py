"""``newsproof outcomes``: measures signals by prices from a file or an exchange, and stores outcomes in ClickHouse."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from itertools import chain

import msgspec

from infra.clickhouse.client import ClickHouse
from infra.market.outcomes.csv_bars import PriceFile, read_bars
from infra.market.outcomes.exchange import Exchange
from infra.market.outcomes.markets import ENTRY_WITHIN_S, Markets, market_symbol, wanted_symbols
from infra.market.outcomes.returns import EXIT_WITHIN, measure
from infra.market.outcomes.tables import coverage, forget, judged_cases, keep
from newsproof.app.composition import clickhouse_of
from newsproof.app.invocation import Invocation, say_result, table
from newsproof.app.processes.supervisor import prepare_tables
from newsproof.app.servers import servers, with_data
from schemas.prices import HORIZONS_S, Drop, JudgedCase, Outcome, PriceSeries, Renaming

EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
LATEST = datetime(2200, 1, 1, tzinfo=UTC)
_NAMES = {300: "5m", 3600: "1h", 14400: "4h", 86400: "24h"}
_REASONS = ("no_symbol", "no_price", "gap", "horizon_open")


class CaseSelection(msgspec.Struct, frozen=True, kw_only=True):
    """Which cases to measure, and how. ``renamed``: on which market an asset traded, and when."""

    since: datetime = EARLIEST
    until: datetime = LATEST
    renamed: tuple[Renaming, ...] = ()
    entry_within_s: float = ENTRY_WITHIN_S


class AtHorizon(msgspec.Struct, frozen=True, kw_only=True):
    """Result of an import at one horizon. ``dropped_share`` (0–1) is of all signals; unused reasons are omitted."""

    horizon: str
    signals: int
    outcomes: int
    dropped: dict[str, int]
    dropped_share: float


class ImportReport(msgspec.Struct, frozen=True, kw_only=True):
    """Result of an import. ``not_mapped`` maps each asset without a market in it to its number of signals.

    ``coverage`` is over all imports, for live signals: by horizon, signals per standing (``v_outcome_coverage``).
    """

    source: str
    bars: int
    markets: tuple[str, ...]
    horizons: tuple[AtHorizon, ...]
    not_mapped: dict[str, int]
    coverage: dict[str, dict[str, int]]


@asynccontextmanager
async def _tables(invocation: Invocation) -> AsyncIterator[ClickHouse]:
    settings = await with_data(invocation.settings(), given=invocation.data_dir_given)
    async with servers(settings, kafka=False) as found:
        at = found.applied_to(settings)
        await prepare_tables(at)
        async with clickhouse_of(at) as client:
            yield client


async def import_file(invocation: Invocation, prices: PriceFile, wanted: CaseSelection) -> ImportReport:
    """Measure every judged case by the prices of a file, and store the outcomes."""
    async with _tables(invocation) as client:
        cases = await judged_cases(client, since=wanted.since, until=wanted.until)
        return await _measure(client, cases, prices, wanted)


async def import_from_exchange(
    invocation: Invocation,
    name: str,
    symbols: Sequence[str],
    wanted: CaseSelection,
    *,
    timeframe: str,
    base_url: str | None = None,
) -> ImportReport:
    """Measure every judged case by an exchange's bars, which are requested only around the cases that need them.

    Raises:
        ConfigError: ccxt knows no such exchange, or the exchange has no such market.
        TransientError: the exchange does not answer; nothing was imported.
    """
    async with Exchange(name, base_url=base_url) as exchange, _tables(invocation) as client:
        cases = await judged_cases(client, since=wanted.since, until=wanted.until)
        series = []
        for symbol in symbols:
            windows = _windows(cases, symbol, wanted)
            series.append(await exchange.bars(symbol, windows, timeframe=timeframe))
        found = PriceFile(
            series=tuple(series), bars=sum(len(s.times_ms) for s in series), source=f"{exchange.name}:{timeframe}"
        )
        return await _measure(client, cases, found, wanted)


def _windows(cases: Sequence[JudgedCase], symbol: str, wanted: CaseSelection) -> list[tuple[int, int]]:
    """Return the time ranges (start, end) in ms that the cases of a market need; touching ranges are merged."""
    market = market_symbol(symbol)
    length_ms = round((max(HORIZONS_S) * (1 + EXIT_WITHIN) + wanted.entry_within_s) * 1000)
    merged: list[tuple[int, int]] = []
    for start in sorted(c.knowable_at_ms for c in cases if market in wanted_symbols(c, wanted.renamed)):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], start + length_ms)
        else:
            merged.append((start, start + length_ms))
    return merged


async def _measure(
    client: ClickHouse, cases: Sequence[JudgedCase], prices: PriceFile, wanted: CaseSelection
) -> ImportReport:
    markets, now_ms = Markets(prices.series, wanted.renamed), int(time.time() * 1000)
    matched = [(case, markets.of(case)) for case in cases]
    measured = list(
        chain.from_iterable(
            measure(case, series, now_ms=now_ms, entry_within_s=wanted.entry_within_s) for case, series in matched
        )
    )
    outcomes = [m for m in measured if isinstance(m, Outcome)]
    drops = [m for m in measured if isinstance(m, Drop)]
    await keep(client, outcomes, drops, source=prices.source)
    standing: dict[str, dict[str, int]] = {}
    for horizon_s, how, signals, _share in await coverage(client):
        standing.setdefault(_NAMES[horizon_s], {})[how] = signals
    return ImportReport(
        source=prices.source,
        bars=prices.bars,
        markets=tuple(sorted(_market_name(s) for s in prices.series)),
        horizons=tuple(_at_horizon(h, outcomes, drops) for h in HORIZONS_S),
        not_mapped=dict(Counter(case.asset or "(none)" for case, series in matched if series is None).most_common()),
        coverage=standing,
    )


def _market_name(series: PriceSeries) -> str:
    return f"{series.symbol} ({series.venue})" if series.venue else series.symbol


def _at_horizon(horizon_s: int, outcomes: Sequence[Outcome], drops: Sequence[Drop]) -> AtHorizon:
    found = sum(o.horizon_s == horizon_s for o in outcomes)
    dropped: Counter[str] = Counter(d.reason for d in drops if d.horizon_s == horizon_s)
    signals = found + dropped.total()
    return AtHorizon(
        horizon=_NAMES[horizon_s],
        signals=signals,
        outcomes=found,
        dropped=dict(dropped),
        dropped_share=dropped.total() / signals if signals else 0.0,
    )


async def remove(invocation: Invocation, source: str) -> int:
    """Delete the outcomes that were imported from one source; return their number."""
    async with _tables(invocation) as client:
        return await forget(client, source)


def print_import(report: ImportReport) -> None:
    say_result(f"{report.bars:,} bars of {', '.join(report.markets) or 'no market'} from {report.source}")
    rows = [
        (h.horizon, h.signals, h.outcomes, *(h.dropped.get(r, 0) for r in _REASONS), f"{h.dropped_share:.1%}")
        for h in report.horizons
    ]
    columns = ("horizon", "signals", "outcomes", *_REASONS, "dropped")
    table(columns, rows, title="Outcomes of this import", right=columns[1:])
    if report.not_mapped:
        named = ", ".join(f"{asset} ({signals})" for asset, signals in report.not_mapped.items())
        say_result(f"No market here for the signals on: {named}. Renamed? Say --map ASSET=BASE/QUOTE.")
    ways = sorted({how for by in report.coverage.values() for how in by}, key=lambda how: (how != "counted", how))
    if ways:
        covered = [(horizon, *(by.get(how, 0) for how in ways)) for horizon, by in report.coverage.items()]
        table(("horizon", *ways), covered, title="All live signals, over all imports (v_outcome_coverage)", right=ways)


__all__ = [
    "CaseSelection",
    "ImportReport",
    "import_file",
    "import_from_exchange",
    "print_import",
    "read_bars",
    "remove",
]
