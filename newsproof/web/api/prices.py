"""Routes of the prices beside signals: at each signal and the latest, and its market's candles, from the active imports."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby, pairwise
from statistics import median
from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from infra.clickhouse.client import ClickHouse
from infra.market.outcomes.bar_files import SYNTHETIC
from infra.market.outcomes.bars import standing_imports, stored_bars
from infra.market.outcomes.markets import ENTRY_WITHIN_S, Markets, wanted_symbols
from newsproof.web.api.live import CASE_ID, TABLES_WITHIN_S, backend_of
from newsproof.web.responses import as_json
from schemas.ids import LIVE_RUN
from schemas.prices import JudgedCase, PriceSeries

router = APIRouter(prefix="/api/v1", tags=["live"])

CaseIds = Annotated[
    list[Annotated[str, Query(pattern=CASE_ID)]],
    Query(
        alias="case",
        min_length=1,
        max_length=100,
        description="IDs of cases with a signal. Repeat the parameter for several.",
    ),
]
_JUDGED = """
SELECT case_id, asset, symbol, venue, toUnixTimestamp64Milli(knowable_at), if(live, toUnixTimestamp64Milli(emitted_at), 0)
FROM v_judgements WHERE run_id = {run:String} AND case_id IN {cases:Array(String)}
"""
# Quarters of an hour, so that the primary key finds the few bars around each signal.
_NEAR = """
SELECT symbol, venue, toUnixTimestamp64Milli(open_at), open, version FROM bars
WHERE version IN {versions:Array(UInt64)} AND (symbol, toStartOfFifteenMinutes(open_at)) IN {near:Array(Tuple(String, DateTime))}
ORDER BY open_at, version DESC
"""
_NEWEST = """
SELECT symbol, venue, toUnixTimestamp64Milli(max(open_at)), argMax(open, (open_at, version)) FROM bars
WHERE version IN {versions:Array(UInt64)} AND symbol IN {symbols:Array(String)} GROUP BY symbol, venue
"""
_ON_ASSET = """
SELECT case_id, toUnixTimestamp64Milli(if(live, greatest(knowable_at, emitted_at), knowable_at)) AS at_ms, action, direction,
       verdict, confidence, withdrawn_as, toUnixTimestamp64Milli(withdrawn_at)
FROM v_judgements WHERE run_id = {run:String} AND asset = {asset:String} AND at_ms >= {since:Int64} AND at_ms < {until:Int64}
ORDER BY at_ms DESC LIMIT 200
"""
_QUARTER_MS = 900_000
_DAY_MS = 86_400_000
_STEPS_MS = (60_000, 300_000, 900_000, 3_600_000, 14_400_000, _DAY_MS)
_MOST_CANDLES = 600


class PriceSince(msgspec.Struct, frozen=True, kw_only=True):
    """The first open within 15 minutes after one could act on the signal (docs/profit.md), and its market's last open.

    ``change``: last / price - 1. ``synthetic``: the prices are invented. Times are UTC.
    """

    symbol: str
    price: float
    at: datetime
    last: float
    last_at: datetime
    change: float
    synthetic: bool


@router.get("/prices")
async def prices(request: Request, case_ids: CaseIds) -> Response:
    """Return by case id the price at its signal and the latest one. Cases without either are omitted."""
    async with asyncio.timeout(TABLES_WITHIN_S):
        return as_json({"prices": await prices_of(backend_of(request).reachable_tables(), case_ids)})


async def prices_of(tables: ClickHouse, case_ids: Sequence[str]) -> dict[str, PriceSince]:
    """Return the prices of those cases that have bars near their signal.

    Raises:
        TransientError: ClickHouse is unavailable.
    """
    imports = await standing_imports(tables)
    if not imports:
        return {}
    known = {market.partition(" ")[0] for price_import in imports for market in price_import.markets}
    renamed = [row for price_import in imports for row in price_import.maps]
    cases = await _judged(tables, case_ids)
    asked = {
        case.case_id: (case.entry_from_ms, tuple(s for s in wanted_symbols(case, renamed) if s in known))
        for case in cases
    }
    return await _priced(tables, asked, {price_import.version: price_import.source for price_import in imports})


async def _judged(tables: ClickHouse, case_ids: Sequence[str]) -> list[JudgedCase]:
    result = await tables.query(_JUDGED, {"run": LIVE_RUN, "cases": list(case_ids)})
    return [
        JudgedCase(
            case_id=case_id, asset=asset, symbol=symbol or "", venue=venue or "", knowable_at_ms=knowable_ms,
            emitted_at_ms=emitted_ms or 0,
        )
        for case_id, asset, symbol, venue, knowable_ms, emitted_ms in result.rows
    ]  # fmt: skip


async def _priced(
    tables: ClickHouse, asked: Mapping[str, tuple[int, tuple[str, ...]]], sources: Mapping[int, str]
) -> dict[str, PriceSince]:
    near = {
        (symbol, (at_ms // _QUARTER_MS + n) * 900)
        for at_ms, symbols in asked.values()
        for symbol in symbols
        for n in (0, 1)
    }
    if not near:
        return {}
    every = {"versions": list(sources)}
    bars = (await tables.query(_NEAR, every | {"near": sorted(near)})).rows
    newest = await tables.query(_NEWEST, every | {"symbols": sorted({symbol for symbol, *_ in bars})})
    last = {(symbol, venue): (at_ms, price) for symbol, venue, at_ms, price in newest.rows}
    made = {}
    for case_id, (at_ms, symbols) in asked.items():
        until_ms = at_ms + ENTRY_WITHIN_S * 1000
        fitting = [bar for bar in bars if bar[0] in symbols and at_ms <= bar[2] <= until_ms]
        if fitting:
            # The best market first, then the earliest bar; if several imports have it, the latest.
            best = min(fitting, key=lambda bar: (symbols.index(bar[0]), bar[2], -bar[4]))
            made[case_id] = _since(best, *last[best[:2]], synthetic=sources[best[4]].startswith(SYNTHETIC))
    return made


def _since(bar: tuple[Any, ...], last_ms: int, last: float, *, synthetic: bool) -> PriceSince:
    symbol, _, at_ms, price, _ = bar
    return PriceSince(
        symbol=symbol,
        price=price,
        at=datetime.fromtimestamp(at_ms / 1000, UTC),
        last=last,
        last_at=datetime.fromtimestamp(last_ms / 1000, UTC),
        change=last / price - 1,
        synthetic=synthetic,
    )


class MarkedSignal(msgspec.Struct, frozen=True, kw_only=True):
    """A signal on a market's candles. ``at``: from when on one could act on it; ``withdrawn``: as in ``v_judgements``."""

    case_id: str
    at: datetime
    action: str
    direction: str
    verdict: str | None
    confidence: float
    withdrawn: str
    withdrawn_at: datetime | None


class MarketCandles(msgspec.Struct, frozen=True, kw_only=True):
    """Candles of one market, oldest first: opening time in seconds since 1970 (UTC), open, high, low, close."""

    symbol: str
    venue: str
    step_s: int
    synthetic: bool
    candles: list[tuple[int, float, float, float, float]]
    signals: list[MarkedSignal]


Why = Literal["", "no_signal", "no_import", "no_bars"]


@router.get("/prices/candles")
async def candles(
    request: Request,
    case_id: Annotated[str, Query(alias="case", pattern=CASE_ID, description="ID of a case with a signal.")],
    days: Annotated[int, Query(ge=1, le=30, description="Days before and after the signal.")] = 1,
) -> Response:
    """Return the prices around a signal, at most 600 candles, and the signals on the same asset in that time.

    Without prices, `market` is null and `why` says what is missing: no_signal (ClickHouse has none of this case), no_import
    (no prices were imported), no_bars (none of the asset in that time).
    """
    async with asyncio.timeout(TABLES_WITHIN_S):
        market, why = await _market_of(backend_of(request).reachable_tables(), case_id, days * _DAY_MS)
    return as_json({"market": market, "why": why})


async def _market_of(tables: ClickHouse, case_id: str, around_ms: int) -> tuple[MarketCandles | None, Why]:
    judged, imports = await _judged(tables, [case_id]), await standing_imports(tables)
    if not judged:
        return None, "no_signal"
    if not imports:
        return None, "no_import"
    [case], renamed = judged, [row for price_import in imports for row in price_import.maps]
    since, until = case.entry_from_ms - around_ms, case.entry_from_ms + around_ms
    symbols = wanted_symbols(case, renamed)
    series = await stored_bars(tables, symbols=symbols, since_ms=since, until_ms=until, imports=imports)
    bars = Markets(series, renamed).of(case)
    if bars is None:
        return None, "no_bars"
    step_ms = _step_of(bars, 2 * around_ms)
    asked = {"run": LIVE_RUN, "asset": case.asset, "since": since, "until": until}
    synthetic = {price_import.version for price_import in imports if price_import.source.startswith(SYNTHETIC)}
    return MarketCandles(
        symbol=bars.symbol,
        venue=bars.venue,
        step_s=step_ms // 1000,
        synthetic=not synthetic.isdisjoint(bars.imports),
        candles=_candles(bars, step_ms),
        signals=[_marked(row) for row in (await tables.query(_ON_ASSET, asked)).rows],
    ), ""


def _step_of(bars: PriceSeries, span_ms: int) -> int:
    """Return the least step that gives few enough candles, and none shorter than the bars are apart."""
    usual = median(later - earlier for earlier, later in pairwise(bars.times_ms)) if len(bars.times_ms) > 1 else 0
    least = max(usual, span_ms / _MOST_CANDLES)
    return next((step for step in _STEPS_MS if step >= least), _DAY_MS)


def _candles(bars: PriceSeries, step_ms: int) -> list[tuple[int, float, float, float, float]]:
    made = []
    for part, places in groupby(range(len(bars.times_ms)), key=lambda n: bars.times_ms[n] // step_ms):
        first, *more = places
        until = (more[-1] if more else first) + 1
        high, low = max(bars.highs[first:until]), min(bars.lows[first:until])
        made.append((part * step_ms // 1000, bars.opens[first], high, low, bars.closes[until - 1]))
    return made


def _marked(row: Sequence[Any]) -> MarkedSignal:
    case_id, at_ms, action, direction, verdict, confidence, withdrawn, withdrawn_ms = row
    return MarkedSignal(
        case_id=case_id,
        at=datetime.fromtimestamp(at_ms / 1000, UTC),
        action=action,
        direction=direction,
        verdict=verdict or None,
        confidence=confidence,
        withdrawn=withdrawn,
        withdrawn_at=datetime.fromtimestamp(withdrawn_ms / 1000, UTC) if withdrawn_ms else None,
    )
