"""Candles from exchanges behind one protocol: Coinbase (prices in USD) and Binance (prices in USDT).

Wire formats:

- Coinbase: https://docs.cdp.coinbase.com/api-reference/exchange-api/rest-api/products/get-product-candles. 5 min, 1 h
  and 1 d; at most 300 bars a request; newest first; JSON numbers; no bar for a period without trades. Bars of 4 h are
  merged from bars of 1 h.
- Binance: https://developers.binance.com/docs/binance-spot-api-docs/rest-api/market-data-endpoints (klines). Oldest
  first; numbers as strings.

On both, bars of 4 h and 1 d begin at multiples of their length in UTC.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import groupby
from typing import Any

import httpx
import msgspec

from infra.http import UselessAnswerError
from infra.http_json import Service, error_message, json_of, refused
from infra.market.source import FigureService, Source, number, when
from schemas.evidence import Candle

FIVE_MINUTES = timedelta(minutes=5)
STEPS = {"1h": timedelta(hours=1), "4h": timedelta(hours=4), "1d": timedelta(days=1)}
MAX_BARS = 500
"""Maximum number of bars per request, whatever the effect's own limit."""
_COINBASE_PAGE = 300
_INVALID_SYMBOL = -1121
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Bar(msgspec.Struct, frozen=True):
    """A bar with exact numbers. ``ended`` is the end of its period; ``open`` is None if it cannot be read."""

    ended: datetime
    open: Decimal | None
    high: Decimal
    low: Decimal
    close: Decimal
    volume: Decimal


class Exchange(Source, ABC):
    """An exchange. ``unit`` is the currency of its prices.

    Its methods return bars in any order, or None if the exchange has no market for the symbol.

    Raises:
        TransientError, PermanentError: the request failed.
        UselessAnswerError: the response cannot be parsed, or contains an impossible bar.
    """

    name: str
    unit: str

    @abstractmethod
    async def five_minutes(self, symbol: str, first: datetime, last: datetime) -> list[Bar] | None:
        """Return the five-minute bars that begin between ``first`` and ``last`` (inclusive), at most 300."""

    @abstractmethod
    async def bars(self, symbol: str, interval: str, first: datetime, end: datetime) -> list[Candle] | None:
        """Return the bars of an interval of ``STEPS`` that begin at or after ``first`` and end at or before ``end``."""

    async def top(self, symbol: str) -> tuple[Decimal, Decimal] | None:
        """Return the best bid and the best ask of now."""
        prices = await self._top(symbol)
        if prices is None:
            return None
        bid, ask = map(number, prices)
        if bid is None or ask is None or not 0 < bid <= ask:
            raise UselessAnswerError(f"{self.service.name}'s best prices cannot be read: {prices!s:.80}")
        return bid, ask

    @abstractmethod
    async def _top(self, symbol: str) -> tuple[Any, Any] | None: ...


class Coinbase(Exchange):
    """Coinbase Exchange. Requests its pages concurrently."""

    name, unit = "coinbase", "USD"

    async def five_minutes(self, symbol: str, first: datetime, last: datetime) -> list[Bar] | None:
        page = await self._page(symbol, FIVE_MINUTES, first, last)
        return None if page is None else [_traded(bar, self.service) for bar in page]

    async def bars(self, symbol: str, interval: str, first: datetime, end: datetime) -> list[Candle] | None:
        step = STEPS["1h"] if interval == "4h" else STEPS[interval]
        starts, at = [], first
        while at < end:
            starts.append(at)
            at += step * _COINBASE_PAGE
        pages = await asyncio.gather(*(self._candles(symbol, step, start, end) for start in starts))
        known = [page for page in pages if page is not None]
        if len(known) < len(pages):
            return None
        candles = [bar for page in known for bar in page]
        return joined(candles, STEPS["4h"]) if interval == "4h" else candles

    async def _top(self, symbol: str) -> tuple[Any, Any] | None:
        # https://docs.cdp.coinbase.com/api-reference/exchange-api/rest-api/products/get-product-ticker
        response = await self.get(f"/products/{symbol}-USD/ticker", {}, absent=frozenset({404}))
        return None if response.status_code == 404 else _fields(response, self.service, "bid", "ask")

    async def _candles(self, symbol: str, step: timedelta, start: datetime, end: datetime) -> list[Candle] | None:
        last = min(end - step, start + step * (_COINBASE_PAGE - 1))
        page = await self._page(symbol, step, start, last)
        if page is None:
            return None
        return [bar for bar in (_candle(row, self.service) for row in page) if start + step <= bar.ended_at <= end]

    async def _page(self, symbol: str, step: timedelta, first: datetime, last: datetime) -> Iterator[Bar] | None:
        params = {"granularity": str(int(step.total_seconds())), "start": _iso(first), "end": _iso(last)}
        response = await self.get(f"/products/{symbol}-USD/candles", params, absent=frozenset({404}))
        if response.status_code == 404:
            return None
        return _rows(json_of(response, self.service, exact=True), self.service, (0, 3, 2, 1, 4, 5), step, per_second=1)


class Binance(Exchange):
    """Binance spot. Supports every interval of ``STEPS``."""

    name, unit = "binance", "USDT"

    async def five_minutes(self, symbol: str, first: datetime, last: datetime) -> list[Bar] | None:
        bounds = {"startTime": _ms(first), "endTime": _ms(last), "limit": 300}
        page = await self._page(symbol, "5m", FIVE_MINUTES, bounds)
        return None if page is None else [_traded(bar, self.service) for bar in page]

    async def bars(self, symbol: str, interval: str, first: datetime, end: datetime) -> list[Candle] | None:
        bounds = {"startTime": _ms(first), "endTime": _ms(end) - 1, "limit": MAX_BARS}
        page = await self._page(symbol, interval, STEPS[interval], bounds)
        if page is None:
            return None
        return [bar for bar in (_candle(row, self.service) for row in page) if first < bar.ended_at <= end]

    async def _page(
        self, symbol: str, interval: str, step: timedelta, bounds: Mapping[str, int]
    ) -> Iterator[Bar] | None:
        if symbol in {"USDT", "USD"}:
            return None
        params = {"symbol": f"{symbol}USDT", "interval": interval, **{name: str(n) for name, n in bounds.items()}}
        response = await self._known("/api/v3/klines", params)
        if response is None:
            return None
        body = json_of(response, self.service, exact=True)
        return _rows(body, self.service, (0, 1, 2, 3, 4, 5), step, per_second=1000)

    async def _top(self, symbol: str) -> tuple[Any, Any] | None:
        # https://developers.binance.com/docs/binance-spot-api-docs/rest-api/market-data-endpoints
        response = await self._known("/api/v3/ticker/bookTicker", {"symbol": f"{symbol}USDT"})
        return None if response is None else _fields(response, self.service, "bidPrice", "askPrice")

    async def _known(self, path: str, params: Mapping[str, str]) -> httpx.Response | None:
        """Return the response; None: there is no such market."""
        response = await self.get(path, params, absent=frozenset({400}))
        if response.status_code != 400:
            return response
        body = json_of(response, self.service, exact=True)
        if isinstance(body, dict) and body.get("code") == _INVALID_SYMBOL:
            return None
        raise refused(self.service, 400, error_message(response, "msg"))


def exchanges(*, coinbase: str, binance: str, timeout_s: float, correct: str) -> tuple[Exchange, ...]:
    """Return the exchanges in order of preference. ``correct`` ends the error text of a rejected request.

    Raises:
        ConfigError: an address setting is invalid.
    """
    prices = FigureService(
        name="Coinbase", address_setting="COINBASE_BASE_URL", correct=correct, about="prices and bars"
    )
    others = FigureService(
        name="Binance", address_setting="BINANCE_BASE_URL", correct=correct, about="the same, if Coinbase has no market"
    )
    return Coinbase(prices, coinbase, timeout_s=timeout_s), Binance(others, binance, timeout_s=timeout_s)


def joined(bars: Sequence[Candle], step: timedelta) -> list[Candle]:
    """Merge bars into longer ones. A period without trades has no bar, so a longer bar may have fewer parts."""
    ordered = sorted({bar.ended_at: bar for bar in bars}.values(), key=lambda bar: bar.ended_at)
    made = []
    for end, group in groupby(ordered, lambda bar: _ceiling(bar.ended_at, step)):
        parts = list(group)
        high, low = max(part.high for part in parts), min(part.low for part in parts)
        volume = float(sum(Decimal(repr(part.volume)) for part in parts))
        prices = {"open": parts[0].open, "high": high, "low": low, "close": parts[-1].close}
        made.append(Candle(ended_at=end, **prices, volume=volume))
    return made


def floor(at: datetime, step: timedelta) -> datetime:
    """Round down to a multiple of ``step`` in UTC."""
    return at - (at - _EPOCH) % step


def _rows(body: Any, service: Service, places: Sequence[int], step: timedelta, *, per_second: int) -> Iterator[Bar]:
    """Parse rows. ``places`` are the row indexes of start time, open, high, low, close and volume."""
    if not isinstance(body, list) or any(not isinstance(row, list) or len(row) < 6 for row in body):
        raise UselessAnswerError(f"{service.name}'s response is no list of candles")
    for row in body:
        began = when(row[places[0]], per_second=per_second)
        opened, high, low, close, volume = (number(row[n]) for n in places[1:])
        if began is None or high is None or low is None or close is None or volume is None:
            raise _unreadable(service)
        yield Bar(began + step, opened, high, low, close, volume)


def _fields(response: httpx.Response, service: Service, *names: str) -> Any:
    body = json_of(response, service, exact=True)
    return tuple(body.get(name) for name in names) if isinstance(body, dict) else (None,) * len(names)


def _traded(bar: Bar, service: Service) -> Bar:
    if bar.close <= 0:
        raise _unreadable(service)
    return bar


def _candle(bar: Bar, service: Service) -> Candle:
    if bar.open is None:
        raise _unreadable(service)
    if not (0 < bar.low <= min(bar.open, bar.close) and max(bar.open, bar.close) <= bar.high and bar.volume >= 0):
        raise UselessAnswerError(f"{service.name}'s response has an impossible candle")
    prices = {"open": float(bar.open), "high": float(bar.high), "low": float(bar.low), "close": float(bar.close)}
    return Candle(ended_at=bar.ended, **prices, volume=float(bar.volume))


def _unreadable(service: Service) -> UselessAnswerError:
    return UselessAnswerError(f"{service.name}'s response has a candle that cannot be read")


def _ceiling(at: datetime, step: timedelta) -> datetime:
    return at + (_EPOCH - at) % step


def _ms(at: datetime) -> int:
    return int(at.timestamp() * 1000)


def _iso(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
