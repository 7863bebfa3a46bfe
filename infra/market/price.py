"""Prices as of a time from exchanges' public candles: Coinbase in USD, else Binance in USDT.

Only candles that had ended by then are used: an open candle contains the future.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal

from infra.http import UselessAnswerError, quoted
from infra.market.exchanges import FIVE_MINUTES, Bar, Exchange, exchanges
from infra.market.source import change_pct, market_value, no_ticker, ticker
from schemas.effects import MarketReply
from schemas.errors import NewsproofError, PermanentError, TransientError
from schemas.evidence import MarketValue

WINDOW = timedelta(hours=24)
MAX_AGE = timedelta(hours=1)
"""Maximum age of the last trade's candle; an older price is not the price at that time."""
_SLACK = 2 * FIVE_MINUTES
"""How far from an hour or a day ago the candle to compare with may have ended: exchanges omit candles without trades.
"""


class Prices:
    """Tries the exchanges in order until one has a price of the asset."""

    def __init__(self, *, coinbase: str, binance: str, timeout_s: float) -> None:
        self._exchanges = exchanges(
            coinbase=coinbase, binance=binance, timeout_s=timeout_s, correct="leave the price tool off"
        )

    async def read(self, asset: str, as_of: datetime) -> MarketReply:
        """Return price, changes over an hour and a day, and the day's high, low and volume, as far as they are known.

        Raises:
            NewsproofError: an exchange failed, and no other one has the price.
        """
        symbol, unknown, failures = ticker(asset), list[str](), list[NewsproofError]()
        if symbol is None:
            return MarketReply(values=(), unknown=(f"price: {no_ticker(asset)}",))
        for exchange in self._exchanges:
            try:
                candles = await exchange.five_minutes(symbol, as_of - WINDOW - _SLACK, as_of)
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
        for exchange in self._exchanges:
            await exchange.close()


def summary(candles: list[Bar], as_of: datetime, exchange: Exchange) -> tuple[tuple[MarketValue, ...], tuple[str, ...]]:
    """Return the figures of the day up to ``as_of``, and the names of those that are missing."""
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


def _close_at(candles: list[Bar], at: datetime) -> Decimal | None:
    near = [c for c in candles if at - _SLACK <= c.ended <= at]
    return near[-1].close if near else None
