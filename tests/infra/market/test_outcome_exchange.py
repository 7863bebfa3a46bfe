"""Bars from an exchange through ccxt, against a local server that speaks Binance's wire shape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from infra.market.outcomes.exchange import Exchange
from schemas.errors import ConfigError, PermanentError, TransientError
from tests.infra.fakes.server import FakeServer, HangUp, Say

STEP = 300_000
START = 1_704_067_200_000

MARKETS = {
    "timezone": "UTC",
    "serverTime": START,
    "rateLimits": [],
    "symbols": [
        {
            "symbol": f"{base}USDT",
            "status": "TRADING",
            "baseAsset": base,
            "baseAssetPrecision": 8,
            "quoteAsset": "USDT",
            "quotePrecision": 8,
            "isSpotTradingAllowed": True,
            "isMarginTradingAllowed": False,
            "permissions": [],
            "permissionSets": [["SPOT"]],
            "orderTypes": ["LIMIT"],
            "filters": [{"filterType": "PRICE_FILTER", "minPrice": "0.01", "maxPrice": "1000000", "tickSize": "0.01"}],
        }
        for base in ("BTC", "ETH")
    ],
}
"""https://developers.binance.com/docs/binance-spot-api-docs/rest-api/general-endpoints#exchange-information"""


class Binance:
    """Klines of which the open is the number of the bar, at most ``page`` of them at once, none within ``halted``."""

    def __init__(self, *, page: int = 1000, halted: range = range(0)) -> None:
        self.page, self.halted = page, halted
        self.asked: list[Mapping[str, str]] = []

    async def info(self, _request: web.Request) -> web.Response:
        return web.json_response(MARKETS)

    async def klines(self, request: web.Request) -> web.Response:
        asked = dict(request.query)
        self.asked.append(asked)
        since, limit = int(asked["startTime"]), min(int(asked.get("limit", "500")), self.page)
        first = -(-(since - START) // STEP)
        bars = [n for n in range(first, first + limit) if n not in self.halted]
        rows = [[START + n * STEP, f"{n + 1}.5", "9999", "0.1", "2", "10", 0, "0", 1, "0", "0", "0"] for n in bars]
        return web.json_response(rows)

    async def server(self) -> TestServer:
        app = web.Application()
        app.add_routes([web.get("/api/v3/exchangeInfo", self.info), web.get("/api/v3/klines", self.klines)])
        server = TestServer(app)
        await server.start_server()
        return server


def url(server: TestServer) -> str:
    return f"http://127.0.0.1:{server.port}"


async def test_bars_of_a_window_are_asked_for_page_by_page_and_no_other_is_kept() -> None:
    binance = Binance(page=7)
    server = await binance.server()
    try:
        async with Exchange("binance", base_url=url(server)) as exchange:
            windows = [(START, START + 19 * STEP), (START + 100 * STEP, START + 101 * STEP)]
            found = await exchange.bars("btcusdt", windows, timeframe="5m")
    finally:
        await server.close()
    assert (found.symbol, found.venue) == ("BTC/USDT", "binance")
    wanted = [*range(20), 100, 101]
    assert list(found.times_ms) == [START + n * STEP for n in wanted]
    assert list(found.opens) == [n + 1.5 for n in wanted]
    kept = [set(column) for column in (found.highs, found.lows, found.closes, found.volumes)]
    assert kept == [{9999.0}, {0.1}, {2.0}, {10.0}]
    assert {asked["symbol"] for asked in binance.asked} == {"BTCUSDT"}
    assert {asked["interval"] for asked in binance.asked} == {"5m"}


async def test_a_stretch_without_bars_is_passed_over_and_leaves_a_hole() -> None:
    binance = Binance(halted=range(2, 1500))
    server = await binance.server()
    try:
        async with Exchange("binance", base_url=url(server)) as exchange:
            found = await exchange.bars("BTC/USDT", [(START, START + 1501 * STEP)], timeframe="5m")
    finally:
        await server.close()
    assert [(t - START) // STEP for t in found.times_ms] == [0, 1, 1500, 1501]


async def test_a_market_that_is_not_there_is_refused_with_those_that_are() -> None:
    server = await Binance().server()
    try:
        async with Exchange("binance", base_url=url(server)) as exchange:
            with pytest.raises(ConfigError, match=r"no such market; it has BTC/USDT"):
                await exchange.bars("BTC/EUR", [(START, START)], timeframe="5m")
            with pytest.raises(ConfigError, match="it trades no XYZ"):
                await exchange.bars("XYZ/USDT", [(START, START)], timeframe="5m")
            with pytest.raises(ConfigError, match=r"--timeframe '7m': binance has .*5m"):
                await exchange.bars("BTC/USDT", [(START, START)], timeframe="7m")
    finally:
        await server.close()


def test_an_exchange_that_nobody_knows_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ConfigError, match="binance"):
        Exchange("binanze")


@pytest.mark.parametrize(
    ("answer", "error", "kind"),
    [
        (Say({"code": -1003, "msg": "Too many requests"}, status=429), TransientError, "rate_limit"),
        (Say({"code": 0, "msg": "restricted location"}, status=451), PermanentError, "blocked"),
        (HangUp(), TransientError, "network"),
        (Say(b"<html>maintenance</html>", status=503), TransientError, "network"),
    ],
)
async def test_what_goes_wrong_there_is_told_in_our_own_errors(
    answer: Any, error: type[Exception], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("infra.market.outcomes.exchange.RETRIES", 0)
    async with FakeServer(answer) as server, Exchange("binance", base_url=server.url) as exchange:
        with pytest.raises(error) as told:
            await exchange.bars("BTC/USDT", [(START, START + STEP)], timeframe="5m")
    assert told.value.kind == kind  # type: ignore[attr-defined]
    assert "binance" in str(told.value)


@pytest.mark.parametrize("row", [[START, None, "1", "1", "1", "1"], [START, "-5", "1", "1", "1", "1"], [START, "nan", "1", "1", "1", "1"], [START, "1", "2", "1", "3", "1"], [START, "1", "1", "1", "1", "-1"]])  # fmt: skip
async def test_an_impossible_bar_is_refused(row: list[Any]) -> None:
    async with FakeServer(Say(MARKETS), Say([row])) as server, Exchange("binance", base_url=server.url) as exchange:
        with pytest.raises(PermanentError, match="import a CSV file"):
            await exchange.bars("BTC/USDT", [(START, START)], timeframe="5m")
        asked = urlsplit(server.requests[-1].path)
    assert asked.path == "/api/v3/klines"
    assert parse_qs(asked.query)["symbol"] == ["BTCUSDT"]
