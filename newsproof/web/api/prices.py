"""Route of the prices beside signals: at each signal and since, from the bars of the imports that stand."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from infra.clickhouse.client import ClickHouse
from infra.market.outcomes.bars import standing_imports
from infra.market.outcomes.markets import ENTRY_WITHIN_S, wanted_symbols
from newsproof.web.api.live import CASE_ID, TABLES_WITHIN_S, backend_of
from newsproof.web.responses import as_json
from schemas.ids import LIVE_RUN
from schemas.prices import JudgedCase

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
_QUARTER_MS = 900_000


class PriceSince(msgspec.Struct, frozen=True, kw_only=True):
    """The first open within 15 minutes after one could act on the signal (docs/profit.md), and the newest open of that market.

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
    """Return by case id the price at its signal and the newest one. Cases without either are left out."""
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
    known = {market.partition(" ")[0] for one in imports for market in one.markets}
    renamed = [row for one in imports for row in one.maps]
    found = await tables.query(_JUDGED, {"run": LIVE_RUN, "cases": list(case_ids)})
    asked: dict[str, tuple[int, tuple[str, ...]]] = {}
    for case_id, asset, symbol, venue, knowable_ms, emitted_ms in found.rows:
        case = JudgedCase(
            case_id=case_id, asset=asset, symbol=symbol or "", venue=venue or "", knowable_at_ms=knowable_ms,
            emitted_at_ms=emitted_ms or 0,
        )  # fmt: skip
        asked[case_id] = case.entry_from_ms, tuple(one for one in wanted_symbols(case, renamed) if one in known)
    return await _priced(tables, asked, {one.version: one.source for one in imports})


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
            # The best market first, then the earliest bar; of several imports the newest.
            best = min(fitting, key=lambda bar: (symbols.index(bar[0]), bar[2], -bar[4]))
            made[case_id] = _since(best, *last[best[:2]], synthetic=sources[best[4]].startswith("synthetic"))
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
