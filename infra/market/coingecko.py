"""Prices from CoinGecko, averaged over exchanges, for assets that the exchanges here do not trade.

Wire formats: https://docs.coingecko.com/reference/coins-id-market-chart-range (hourly points for ranges over a day;
without a paid key, the past 365 days) and https://docs.coingecko.com/reference/search-data (tickers are not unique: the
coin with the best rank by market value is used). A key of the free plan is sent in ``x-cg-demo-api-key``, a paid key in
``x-cg-pro-api-key`` to another address.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from urllib.parse import urlsplit

from infra.http import UselessAnswerError
from infra.http_json import json_of
from infra.market.source import FigureService, Point, Source, change_pct, last_known, market_value, number, when
from schemas.evidence import MarketValue

IDS = {
    "BTC": "bitcoin", "ETH": "ethereum", "SOL": "solana", "BNB": "binancecoin", "XRP": "ripple", "DOGE": "dogecoin",
    "ADA": "cardano", "TRX": "tron", "AVAX": "avalanche-2", "DOT": "polkadot", "LINK": "chainlink", "LTC": "litecoin",
    "BCH": "bitcoin-cash", "UNI": "uniswap", "AAVE": "aave", "POL": "polygon-ecosystem-token", "USDT": "tether",
    "USDC": "usd-coin", "DAI": "dai",
}  # fmt: skip
"""Ids of coins that need no lookup."""
_COINGECKO = FigureService(
    name="CoinGecko",
    address_setting="COINGECKO_BASE_URL",
    key_setting="COINGECKO_API_KEY",
    about="prices that no exchange has",
    key_adds="a higher rate limit",
)
_ID = re.compile(r"[a-z0-9][a-z0-9_.-]{0,119}\Z")
_DAY = timedelta(days=1)
_MAX_AGE = timedelta(hours=2)
_SLACK = timedelta(hours=2)
"""Maximum age of the compared point beyond a day; points are about an hour apart."""
_KEPT = timedelta(days=364)
_PAID_HOST = "pro-api.coingecko.com"


class CoinGecko:
    """Reads price, its change and the volume over a day, and market value. ``api_key`` is optional.

    Raises (constructor):
        ConfigError: the address or the key is invalid.
    """

    def __init__(self, base_url: str, *, api_key: str | None = None, timeout_s: float) -> None:
        self._paid = urlsplit(base_url).hostname == _PAID_HOST
        header = "x-cg-pro-api-key" if self._paid else "x-cg-demo-api-key"
        self.source = Source(_COINGECKO, base_url, timeout_s=timeout_s, key=api_key, key_header=header)
        self._ids = dict(IDS)

    async def read(self, symbol: str, as_of: datetime) -> tuple[list[MarketValue], list[str]]:
        """Return the figures of the asset, and reasons for those that are missing.

        Raises:
            NewsproofError: the request failed, or the response cannot be parsed.
        """
        if not self._paid and as_of < datetime.now(UTC) - _KEPT:
            return [], ["price: coingecko keeps a year without a paid key"]
        coin = self._ids.get(symbol) or await self._look_up(symbol)
        if coin is None:
            return [], [f"price: coingecko has no coin {symbol}"]
        self._ids[symbol] = coin
        bounds = {"from": str(int((as_of - _DAY - 2 * _SLACK).timestamp())), "to": str(int(as_of.timestamp()))}
        path = f"/coins/{coin}/market_chart/range"
        response = await self.source.get(path, {"vs_currency": "usd", **bounds}, absent=frozenset({404}))
        if response.status_code == 404:
            return [], [f"price: coingecko has no coin {symbol}"]
        body = json_of(response, self.source.service, exact=True)
        return _figures(body if isinstance(body, dict) else {}, as_of)

    async def _look_up(self, symbol: str) -> str | None:
        body = json_of(await self.source.get("/search", {"query": symbol}), self.source.service)
        coins = body.get("coins") if isinstance(body, dict) else None
        if not isinstance(coins, list):
            raise UselessAnswerError("CoinGecko's response has no coins")
        ranked = [
            (rank, coin_id) for coin in coins if (ranking := _ranked(coin, symbol)) for rank, coin_id in [ranking]
        ]
        return min(ranked)[1] if ranked else None


def _ranked(coin: Any, symbol: str) -> tuple[Decimal, str] | None:
    """Return the coin's rank and id, None for a coin without a rank: anyone may list one under a known ticker."""
    if not isinstance(coin, dict) or str(coin.get("symbol", "")).upper() != symbol:
        return None
    rank, coin_id = number(coin.get("market_cap_rank")), str(coin.get("id", ""))
    return (rank, coin_id) if rank is not None and _ID.match(coin_id) else None


def _figures(body: dict[str, Any], as_of: datetime) -> tuple[list[MarketValue], list[str]]:
    prices, volumes, caps = (_points(body, name) for name in ("prices", "total_volumes", "market_caps"))
    last = last_known(prices, as_of, max_age=_MAX_AGE)
    if last is None or last.value <= 0:
        return [], [f"price: coingecko has none of the two hours before {as_of:%Y-%m-%d %H:%M} UTC"]
    before = last_known(prices, as_of - _DAY, max_age=_SLACK)
    figures = {
        "price": (last.value, "USD"),
        "price_change_24h": (change_pct(last.value, before.value if before else None), "%"),
        "volume_24h_usd": (_value(last_known(volumes, as_of, max_age=_MAX_AGE)), "USD"),
        "market_cap": (_value(last_known(caps, as_of, max_age=_MAX_AGE)), "USD"),
    }
    values = [
        market_value(name, value, unit, "coingecko", last.at)
        for name, (value, unit) in figures.items()
        if value is not None
    ]
    return values, [f"{name}: coingecko has none" for name, (value, _) in figures.items() if value is None]


def _value(point: Point | None) -> Decimal | None:
    return point.value if point is not None and point.value > 0 else None  # CoinGecko writes 0 for unknown


def _points(body: dict[str, Any], name: str) -> list[Point]:
    rows = body.get(name)
    if not isinstance(rows, list):
        raise UselessAnswerError(f"CoinGecko's response has no {name}")
    points = []
    for row in rows:
        pair = row if isinstance(row, list) and len(row) == 2 else (None, None)
        at, value = when(pair[0], per_second=1000), number(pair[1])
        if at is not None and value is not None:
            points.append(Point(at, value))
    if rows and not points:
        raise UselessAnswerError(f"none of CoinGecko's {name} can be read")
    return points
