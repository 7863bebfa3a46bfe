"""Prices as of a time from exchanges' public candles: Coinbase in dollars, else Binance in USDT.

Wire shapes: https://docs.cdp.coinbase.com/api-reference/exchange-api/rest-api/products/get-product-candles and
https://developers.binance.com/docs/binance-spot-api-docs/rest-api/market-data-endpoints (klines). Only candles that had
ended by then are used: an open one knows the future.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Protocol

import msgspec

from infra.http import UselessAnswerError, quoted
from infra.http_json import Service, json_of, own_words, refused
from infra.market.source import Source, change_pct, market_value, no_ticker, number, ticker, when
from schemas.effects import MarketReply
from schemas.errors import NewsproofError, PermanentError, TransientError
from schemas.evidence import MarketValue

CANDLE = timedelta(minutes=5)
WINDOW = timedelta(hours=24)
MAX_AGE = timedelta(hours=1)
"""An older price is no price of that time."""
_SLACK = 2 * CANDLE
"""How far from an hour or a day ago the candle to compare with may have ended: candles without a trade are left out."""
_COINBASE = Service(name="Coinbase", address_setting="COINBASE_BASE_URL", correct="leave the price tool off")
_BINANCE = Service(name="Binance", address_setting="BINANCE_BASE_URL", correct="leave the price tool off")
_INVALID_SYMBOL = -1121


class Candle(msgspec.Struct, frozen=True):
    """Five minutes of trade; ``ended`` is when it was complete."""

    ended: datetime
    high: Decimal
    low: Decimal
    close: Decimal
    volume: Decimal


class Exchange(Protocol):
    """One exchange. ``unit`` is what its prices are in."""

    name: str
    unit: str

    async def candles(self, symbol: str, as_of: datetime) -> list[Candle] | None:
        """Return the candles of the day before, oldest first; None when it has no such market."""
        ...

    async def close(self) -> None: ...


class Coinbase(Source):
    """Coinbase Exchange: numbers as JSON, newest first."""

    name, unit = "coinbase", "USD"

    async def candles(self, symbol: str, as_of: datetime) -> list[Candle] | None:
        """As :class:`Exchange`."""
        start, end = as_of - WINDOW - _SLACK, as_of
        params = {"granularity": "300", "start": _iso(start), "end": _iso(end)}
        response = await self.get(f"/products/{symbol}-USD/candles", params, absent=frozenset({404}))
        if response.status_code == 404:
            return None
        return _candles(json_of(response, self.service, exact=True), self.service, (0, 2, 1, 4, 5), per_second=1)


class Binance(Source):
    """Binance spot: numbers as texts, oldest first."""

    name, unit = "binance", "USDT"

    async def candles(self, symbol: str, as_of: datetime) -> list[Candle] | None:
        """As :class:`Exchange`."""
        if symbol in {"USDT", "USD"}:
            return None
        start, end = (int(one.timestamp() * 1000) for one in (as_of - WINDOW - _SLACK, as_of))
        params = {
            "symbol": f"{symbol}USDT",
            "interval": "5m",
            "startTime": str(start),
            "endTime": str(end),
            "limit": "300",
        }
        response = await self.get("/api/v3/klines", params, absent=frozenset({400}))
        body = json_of(response, self.service, exact=True)
        if response.status_code == 400:
            if isinstance(body, dict) and body.get("code") == _INVALID_SYMBOL:
                return None
            raise refused(self.service, 400, own_words(response, "msg"))
        return _candles(body, self.service, (0, 2, 3, 4, 5), per_second=1000)


class Prices:
    """Asks the exchanges in turn, until one has a market for the asset."""

    def __init__(self, *, coinbase: str, binance: str, timeout_s: float) -> None:
        self._exchanges: tuple[Exchange, ...] = (
            Coinbase(_COINBASE, coinbase, timeout_s=timeout_s),
            Binance(_BINANCE, binance, timeout_s=timeout_s),
        )

    async def read(self, asset: str, as_of: datetime) -> MarketReply:
        """Return price, changes over an hour and a day, high, low and volume of the day, as far as they are known.

        Raises:
            NewsproofError: an exchange failed, and no other one has the price.
        """
        symbol, unknown, failures = ticker(asset), list[str](), list[NewsproofError]()
        if symbol is None:
            return MarketReply(values=(), unknown=(f"price: {no_ticker(asset)}",))
        for exchange in self._exchanges:
            try:
                candles = await exchange.candles(symbol, as_of)
            except (TransientError, PermanentError, UselessAnswerError) as exc:
                failures.append(exc)
                unknown.append(f"price: {exchange.name} failed ({quoted(exc, 120)})")
                continue
            if candles is None:
                unknown.append(f"price: {exchange.name} has no market for {symbol}")
                continue
            values, absent = summary(candles, as_of, exchange)
            if values:
                return MarketReply(values=values, unknown=(*unknown, *absent))
            unknown += absent
        if failures:
            raise failures[0]
        return MarketReply(values=(), unknown=tuple(unknown))

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        for exchange in self._exchanges:
            await exchange.close()


def summary(
    candles: list[Candle], as_of: datetime, exchange: Exchange
) -> tuple[tuple[MarketValue, ...], tuple[str, ...]]:
    """Return the figures of the day up to ``as_of``, and what is not known of them."""
    day = sorted((c for c in candles if as_of - WINDOW - _SLACK < c.ended <= as_of), key=lambda c: c.ended)
    if not day or day[-1].ended < as_of - MAX_AGE:
        return (), (f"price: no trade on {exchange.name} within an hour before {as_of:%Y-%m-%d %H:%M} UTC",)
    last, within = day[-1], [c for c in day if c.ended > as_of - WINDOW]
    found: dict[str, tuple[Decimal | None, str]] = {
        "price": (last.close, exchange.unit),
        "price_change_1h": (change_pct(last.close, _close_at(day, as_of - timedelta(hours=1))), "%"),
        "price_change_24h": (change_pct(last.close, _close_at(day, as_of - WINDOW)), "%"),
        "price_high_24h": (max(c.high for c in within), exchange.unit),
        "price_low_24h": (min(c.low for c in within), exchange.unit),
        "volume_24h": (sum((c.volume for c in within), Decimal(0)), "units of the asset"),
    }
    values = tuple(
        market_value(name, value, unit, exchange.name, last.ended)
        for name, (value, unit) in found.items()
        if value is not None
    )
    return values, tuple(f"{name}: too little trade" for name, (value, _) in found.items() if value is None)


def _close_at(candles: list[Candle], at: datetime) -> Decimal | None:
    near = [c for c in candles if at - _SLACK <= c.ended <= at]
    return near[-1].close if near else None


def _candles(body: Any, service: Service, places: tuple[int, int, int, int, int], *, per_second: int) -> list[Candle]:
    rows = body if isinstance(body, list) else None
    if rows is None or any(not isinstance(row, list) or len(row) < 6 for row in rows):
        raise UselessAnswerError(f"{service.name}'s answer is no list of candles; it is asked again")
    made = []
    for row in rows:
        began = when(row[places[0]], per_second=per_second)
        high, low, close, volume = (number(row[n]) for n in places[1:])
        if began is None or high is None or low is None or close is None or volume is None or close <= 0:
            raise UselessAnswerError(f"{service.name}'s answer has a candle that cannot be read; it is asked again")
        made.append(Candle(began + CANDLE, high, low, close, volume))
    return made


def _iso(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
