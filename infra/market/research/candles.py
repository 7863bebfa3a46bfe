"""Bars of an asset as of a time: Coinbase in dollars, else Binance in USDT. Only bars that were complete by then.

Wire shapes: https://docs.cdp.coinbase.com/api-reference/exchange-api/rest-api/products/get-product-candles (1 h and 1 d, at
most 300 a request, none for a time without trade; bars of 4 h are made of those of 1 h) and
https://developers.binance.com/docs/binance-spot-api-docs/rest-api/market-data-endpoints (klines). Bars of 4 h and 1 d begin
at multiples of that in UTC on both.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import groupby
from typing import Any, Protocol

from infra.http import UselessAnswerError, quoted
from infra.http_json import Service, json_of, own_words, refused
from infra.market.port import failure_of
from infra.market.source import Source, no_ticker, number, ticker, when
from infra.ports import Answer, Free
from schemas.calls import ProviderMode
from schemas.effects import CandlesReply, Failure, FetchCandles, Reply
from schemas.errors import PermanentError, TransientError
from schemas.evidence import Candle

STEPS = {"1h": timedelta(hours=1), "4h": timedelta(hours=4), "1d": timedelta(days=1)}
MAX_BARS = 500
"""More are not asked for, whatever the effect says."""
STALE_AFTER = 3
"""A market whose last bar ended this many bars ago is not traded any more."""
_COINBASE_PAGE = 300
_COINBASE = Service(name="Coinbase", address_setting="COINBASE_BASE_URL", correct="ask about another asset")
_BINANCE = Service(name="Binance", address_setting="BINANCE_BASE_URL", correct="ask about another asset")
_INVALID_SYMBOL = -1121
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class BarSource(Protocol):
    """One exchange. ``unit`` is what its prices are in."""

    name: str
    unit: str

    async def bars(self, symbol: str, interval: str, first: datetime, end: datetime) -> list[Candle] | None:
        """Return the bars that begin at ``first`` or later and end at ``end`` or before, in any order; None: no such market."""
        ...

    async def close(self) -> None: ...


class CoinbaseBars(Source):
    """Numbers as JSON; pages are asked side by side."""

    name, unit = "coinbase", "USD"

    async def bars(self, symbol: str, interval: str, first: datetime, end: datetime) -> list[Candle] | None:
        """As :class:`BarSource`."""
        step = STEPS["1h"] if interval == "4h" else STEPS[interval]
        starts, at = [], first
        while at < end:
            starts.append(at)
            at += step * _COINBASE_PAGE
        pages = await asyncio.gather(*(self._page(symbol, step, start, end) for start in starts))
        known = [page for page in pages if page is not None]
        if len(known) < len(pages):
            return None
        found = [bar for page in known for bar in page]
        return joined(found, STEPS["4h"]) if interval == "4h" else found

    async def _page(self, symbol: str, step: timedelta, start: datetime, end: datetime) -> list[Candle] | None:
        last = min(end - step, start + step * (_COINBASE_PAGE - 1))
        params = {"granularity": str(int(step.total_seconds())), "start": _iso(start), "end": _iso(last)}
        response = await self.get(f"/products/{symbol}-USD/candles", params, absent=frozenset({404}))
        if response.status_code == 404:
            return None
        found = _rows(json_of(response, self.service, exact=True), self.service, (0, 3, 2, 1, 4, 5), step, per_second=1)
        return [bar for bar in found if start + step <= bar.ended_at <= end]


class BinanceBars(Source):
    """Numbers as texts, oldest first; knows every interval."""

    name, unit = "binance", "USDT"

    async def bars(self, symbol: str, interval: str, first: datetime, end: datetime) -> list[Candle] | None:
        """As :class:`BarSource`."""
        if symbol in {"USDT", "USD"}:
            return None
        bounds = {"startTime": str(_ms(first)), "endTime": str(_ms(end) - 1), "limit": str(MAX_BARS)}
        params = {"symbol": f"{symbol}USDT", "interval": interval, **bounds}
        response = await self.get("/api/v3/klines", params, absent=frozenset({400}))
        body = json_of(response, self.service, exact=True)
        if response.status_code == 400:
            if isinstance(body, dict) and body.get("code") == _INVALID_SYMBOL:
                return None
            raise refused(self.service, 400, own_words(response, "msg"))
        found = _rows(body, self.service, (0, 1, 2, 3, 4, 5), STEPS[interval], per_second=1000)
        return [bar for bar in found if first < bar.ended_at <= end]


class LiveCandles(Free):
    """A port for ``FetchCandles``. Safe for concurrent use within one event loop.

    Guarantees of a reply: oldest first, each bar once, none that ended after ``as_of``, at most ``limit`` of them and at least
    one; fewer where the market is young or had no trade.
    """

    provider = "candles"
    mode: ProviderMode = "live"

    def __init__(self, sources: Sequence[BarSource]) -> None:
        """``sources`` are asked in turn, until one has the market."""
        self._sources = tuple(sources)

    async def perform(self, effect: FetchCandles) -> Answer:
        """Read once. What fails, and an asset that no exchange here trades, is a ``Failure`` reply, and free."""
        return Answer(reply=await self._read(effect), cost_usd=Decimal(0), cost_source="free")

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        for source in self._sources:
            await source.close()

    async def _read(self, effect: FetchCandles) -> Reply:
        symbol = ticker(effect.asset)
        if symbol is None:
            return _none(f"no bars: {no_ticker(effect.asset)}")
        step, limit = STEPS[effect.interval], max(1, min(effect.limit, MAX_BARS))
        end = _floor(effect.as_of.astimezone(UTC), step)
        failures: list[UselessAnswerError | TransientError | PermanentError] = []
        absent = []
        for source in self._sources:
            try:
                found = await source.bars(symbol, effect.interval, end - limit * step, end)
            except (TransientError, PermanentError, UselessAnswerError) as exc:
                failures.append(exc)
                continue
            bars = sorted({bar.ended_at: bar for bar in found or ()}.values(), key=lambda bar: bar.ended_at)
            if bars and bars[-1].ended_at > end - STALE_AFTER * step:
                kept = tuple(bars[-limit:])
                return CandlesReply(candles=kept, source=source.name, unit=source.unit, interval=effect.interval)
            absent.append(f"{source.name} has no {'trade' if found is not None else 'market'} of {symbol} then")
        if failures:
            return failure_of(next((one for one in failures if isinstance(one, TransientError)), failures[0]))
        return _none(f"no bars: {'; '.join(absent)}")


def joined(bars: Sequence[Candle], step: timedelta) -> list[Candle]:
    """Return longer bars made of shorter ones. A time without trade has no bar, so a longer one may be made of fewer."""
    ordered = sorted({bar.ended_at: bar for bar in bars}.values(), key=lambda bar: bar.ended_at)
    made = []
    for end, group in groupby(ordered, lambda bar: _ceiling(bar.ended_at, step)):
        parts = list(group)
        high, low = max(part.high for part in parts), min(part.low for part in parts)
        volume = float(sum(Decimal(repr(part.volume)) for part in parts))
        prices = {"open": parts[0].open, "high": high, "low": low, "close": parts[-1].close}
        made.append(Candle(ended_at=end, **prices, volume=volume))
    return made


def _rows(body: Any, service: Service, places: Sequence[int], step: timedelta, *, per_second: int) -> list[Candle]:
    """``places``: where the begin, open, high, low, close and volume stand in a row."""
    if not isinstance(body, list) or any(not isinstance(row, list) or len(row) < 6 for row in body):
        raise UselessAnswerError(f"{service.name}'s answer is no list of candles; it is asked again")
    made = []
    for row in body:
        began = when(row[places[0]], per_second=per_second)
        opened, high, low, close, volume = (number(row[n]) for n in places[1:])
        if began is None or opened is None or high is None or low is None or close is None or volume is None:
            raise UselessAnswerError(f"{service.name}'s answer has a candle that cannot be read; it is asked again")
        if not (0 < low <= min(opened, close) and max(opened, close) <= high and volume >= 0):
            raise UselessAnswerError(f"{service.name}'s answer has an impossible candle; it is asked again")
        prices: Mapping[str, float] = {
            **{"open": float(opened), "high": float(high)},
            **{"low": float(low), "close": float(close), "volume": float(volume)},
        }
        made.append(Candle(ended_at=began + step, **prices))
    return made


def _floor(at: datetime, step: timedelta) -> datetime:
    return at - (at - _EPOCH) % step


def _ceiling(at: datetime, step: timedelta) -> datetime:
    return at + (_EPOCH - at) % step


def _ms(at: datetime) -> int:
    return (at - _EPOCH) // timedelta(milliseconds=1)


def _iso(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def _none(message: str) -> Failure:
    return Failure(kind="invalid_request", message=quoted(message), retryable=False)


def coinbase_bars(base_url: str, *, timeout_s: float) -> CoinbaseBars:
    """Return Coinbase's bars.

    Raises:
        ConfigError: the address cannot be one.
    """
    return CoinbaseBars(_COINBASE, base_url, timeout_s=timeout_s)


def binance_bars(base_url: str, *, timeout_s: float) -> BinanceBars:
    """Return Binance's bars.

    Raises:
        ConfigError: the address cannot be one.
    """
    return BinanceBars(_BINANCE, base_url, timeout_s=timeout_s)
