"""Prices as of a time from exchanges' public candles: Coinbase in USD, else Binance in USDT; both to check a peg.

For the chat, CoinGecko is called if neither has the market. It covers more coins, but with hourly prices instead of
trades.

Only candles that had ended by that time are used, because an open candle contains the future.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal

import msgspec

from infra.http import UselessAnswerError, quoted
from infra.market.coingecko import CoinGecko
from infra.market.exchanges import FIVE_MINUTES, Bar, Exchange
from infra.market.source import Source, change_pct, market_value, no_ticker, ticker
from schemas.effects import MarketReply
from schemas.errors import NewsproofError, PermanentError, TransientError
from schemas.evidence import DOLLAR_PEGGED, MarketValue

WINDOW = timedelta(hours=24)
MAX_AGE = timedelta(hours=1)
"""Maximum age of the last trade's candle; an older price is not the price at that time."""
_SLACK = 2 * FIVE_MINUTES
"""Maximum age of the compared candle beyond an hour or a day, because exchanges omit candles without trades."""


class _Day(msgspec.Struct, frozen=True):
    """One exchange's figures for the day and for its last two hours, and the missing ones."""

    values: tuple[MarketValue, ...] = ()
    last_hours: tuple[MarketValue, ...] = ()
    unknown: tuple[str, ...] = ()
    failure: NewsproofError | None = None


class Prices:
    """Tries the exchanges in order until one has a price of the asset.

    With ``pegs``, it calls all of them concurrently if the asset is pegged to the dollar, because one venue alone does
    not show whether the peg was lost.
    """

    def __init__(
        self, exchanges: Sequence[Exchange], *, pegs: bool = False, coingecko: CoinGecko | None = None
    ) -> None:
        self._exchanges, self._pegs, self._coingecko = tuple(exchanges), pegs, coingecko
        self.sources: tuple[Source, ...] = (*self._exchanges, *(() if coingecko is None else (coingecko.source,)))

    async def read(self, asset: str, as_of: datetime) -> MarketReply:
        """Return the price and related figures; ``unknown`` lists missing figures, and sources without the price.

        Raises:
            NewsproofError: a source failed, and no other one has the price.
        """
        symbol = ticker(asset)
        if symbol is None:
            return MarketReply(values=(), unknown=(f"price: {no_ticker(asset)}",))
        if self._coingecko is None:
            return await self._of_exchanges(symbol, as_of)
        failed: NewsproofError | None = None
        unknown: tuple[str, ...]
        try:
            reading = await self._of_exchanges(symbol, as_of)
        except (TransientError, PermanentError, UselessAnswerError) as exc:
            failed, unknown = exc, (f"price: exchanges failed ({quoted(exc, 120)})",)
        else:
            if reading.values:
                return reading
            unknown = reading.unknown
        try:
            values, absent = await self._coingecko.read(symbol, as_of)
        except (TransientError, PermanentError, UselessAnswerError) as exc:
            if failed is None or isinstance(exc, TransientError):
                raise
            raise failed from exc
        if failed is not None and not values:
            raise failed
        return MarketReply(values=tuple(values), unknown=(*unknown, *absent))

    async def _of_exchanges(self, symbol: str, as_of: datetime) -> MarketReply:
        """Return price, changes over an hour and a day, and the day's high, low and volume, as far as they are known.

        They come from the first exchange that has a price. For a coin whose peg is checked, the result of
        :func:`last_two_hours` for each exchange is added.

        Raises:
            NewsproofError: an exchange failed, and no other one has the price.
        """
        days = list[_Day]()
        if pegged := self._pegs and symbol in DOLLAR_PEGGED:
            days += await asyncio.gather(*(_day(source, symbol, as_of) for source in self._exchanges))
        else:
            for exchange in self._exchanges:
                days.append(await _day(exchange, symbol, as_of))
                if days[-1].values:
                    break
        first = next((day for day in days if day.values), None)
        if first is None and (failures := [day.failure for day in days if day.failure is not None]):
            raise failures[0]
        return MarketReply(
            values=(first.values if first else ()) + tuple(v for day in days if pegged for v in day.last_hours),
            unknown=tuple(text for day in days if day is first or not day.values for text in day.unknown),
        )


async def _day(exchange: Exchange, symbol: str, as_of: datetime) -> _Day:
    try:
        candles = await exchange.five_minutes(symbol, as_of - WINDOW - _SLACK, as_of)
    except (TransientError, PermanentError, UselessAnswerError) as exc:
        return _Day(unknown=(f"price: {exchange.name} failed ({quoted(exc, 120)})",), failure=exc)
    if candles is None:
        return _Day(unknown=(f"price: {exchange.name} has no market for {symbol}",))
    values, absent = summary(candles, as_of, exchange)
    return _Day(values=values, last_hours=last_two_hours(candles, as_of, exchange), unknown=absent)


def last_two_hours(candles: list[Bar], as_of: datetime, exchange: Exchange) -> tuple[MarketValue, ...]:
    """Return the lowest and the highest price of the two hours before ``as_of``, and the number of candles.

    ``candles_2h`` counts the candles that had ended by then; 24 are complete. Returns nothing if there are none.
    """
    recent = [c for c in candles if as_of - timedelta(hours=2) < c.ended <= as_of]
    if not recent:
        return ()
    last = max(c.ended for c in recent)
    figures = {
        "price_low_2h": (min(c.low for c in recent), exchange.unit),
        "price_high_2h": (max(c.high for c in recent), exchange.unit),
        "candles_2h": (Decimal(len({c.ended for c in recent})), "of 24"),
    }
    return tuple(market_value(name, value, unit, exchange.name, last) for name, (value, unit) in figures.items())


def summary(candles: list[Bar], as_of: datetime, exchange: Exchange) -> tuple[tuple[MarketValue, ...], tuple[str, ...]]:
    """Return the figures of the day up to ``as_of``, and the missing ones with the reason."""
    day = sorted((c for c in candles if as_of - WINDOW - _SLACK < c.ended <= as_of), key=lambda c: c.ended)
    if not day or day[-1].ended < as_of - MAX_AGE:
        return (), (f"price: no trade on {exchange.name} within an hour before {as_of:%Y-%m-%d %H:%M} UTC",)
    last, within = day[-1], [c for c in day if c.ended > as_of - WINDOW]
    figures: dict[str, tuple[Decimal | None, str]] = {
        "price": (last.close, exchange.unit),
        "price_change_1h": (change_pct(last.close, _close_at(day, as_of - timedelta(hours=1))), "%"),
        "price_change_24h": (change_pct(last.close, _close_at(day, as_of - WINDOW)), "%"),
        "price_high_24h": (max(c.high for c in within), exchange.unit),
        "price_low_24h": (min(c.low for c in within), exchange.unit),
        "volume_24h": (sum((c.volume for c in within), Decimal(0)), "units of the asset"),
    }
    values = tuple(
        market_value(name, value, unit, exchange.name, last.ended)
        for name, (value, unit) in figures.items()
        if value is not None
    )
    return values, tuple(f"{name}: too little trade" for name, (value, _) in figures.items() if value is None)


def _close_at(candles: list[Bar], at: datetime) -> Decimal | None:
    near = [c for c in candles if at - _SLACK <= c.ended <= at]
    return near[-1].close if near else None
