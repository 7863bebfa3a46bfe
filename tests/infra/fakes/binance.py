"""As much of Binance's spot API as freqtrade reads in a dry run: markets, bars, best prices and the order book."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.infra.fakes.server import Behaviour, FakeServer, Received, Say

STEP_MS = 300_000
PRICES = {"BTC": 60_000.0, "ETH": 3_000.0, "SOL": 150.0}


class FakeBinance(FakeServer):
    """An exchange whose prices never move."""

    def __init__(self) -> None:
        super().__init__(Say())

    def _chosen(self, request: Received) -> Behaviour:
        url = urlsplit(request.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        what, base = url.path.removeprefix("/api/v3/"), query.get("symbol", "BTCUSDT").removesuffix("USDT")
        now, price = int(time.time() * 1000), PRICES[base]
        if what == "exchangeInfo":
            markets = [_market(one) for one in PRICES]
            return Say(
                {"timezone": "UTC", "serverTime": now, "rateLimits": [], "exchangeFilters": [], "symbols": markets}
            )
        if what == "klines":
            begin = now // STEP_MS * STEP_MS - (int(query.get("limit", 500)) - 1) * STEP_MS
            first = max(begin, int(query.get("startTime", begin)) // STEP_MS * STEP_MS)
            opens = range(first, now, STEP_MS)
            return Say([[at, *[str(price)] * 4, "10", at + STEP_MS - 1, "100", 5, "5", "50", "0"] for at in opens])
        if what == "depth":
            bids, asks = ([[f"{price * (1 + sign * n / 1e4):.2f}", "100"] for n in range(1, 21)] for sign in (-1, 1))
            return Say({"lastUpdateId": now, "bids": bids, "asks": asks})
        if what.startswith("ticker"):
            return Say(_ticker(base, now) if "symbol" in query else [_ticker(one, now) for one in PRICES])
        return Say({"serverTime": now} if what == "time" else {})


def _market(base: str) -> dict[str, Any]:
    return {
        "symbol": f"{base}USDT", "status": "TRADING", "baseAsset": base, "baseAssetPrecision": 8, "quoteAsset": "USDT",
        "quotePrecision": 8, "quoteAssetPrecision": 8, "orderTypes": ["LIMIT", "MARKET"], "isSpotTradingAllowed": True,
        "isMarginTradingAllowed": False, "permissions": ["SPOT"], "permissionSets": [["SPOT"]],
        "filters": [
            {"filterType": "PRICE_FILTER", "minPrice": "0.01", "maxPrice": "1000000", "tickSize": "0.01"},
            {"filterType": "LOT_SIZE", "minQty": "0.00001", "maxQty": "9000", "stepSize": "0.00001"},
            {"filterType": "NOTIONAL", "minNotional": "5", "applyMinToMarket": True, "maxNotional": "9000000"},
        ],
    }  # fmt: skip


def _ticker(base: str, now: int) -> dict[str, Any]:
    price = str(PRICES[base])
    named = dict.fromkeys(("price", "lastPrice", "bidPrice", "askPrice", "openPrice", "highPrice", "lowPrice"), price)
    return {
        "symbol": f"{base}USDT", **named, "bidQty": "1", "askQty": "1", "volume": "1", "quoteVolume": "1",
        "openTime": now, "closeTime": now, "count": 1,
    }  # fmt: skip
