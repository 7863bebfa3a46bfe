"""Bars of an asset as of a time: Coinbase in USD, else Binance in USDT. Only bars that were complete by then."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC
from decimal import Decimal

from infra.http import UselessAnswerError, quoted
from infra.market.exchanges import MAX_BARS, STEPS, Exchange, floor
from infra.market.port import failure_of
from infra.market.source import no_ticker, ticker
from infra.ports import Answer, Free
from schemas.calls import ProviderMode
from schemas.effects import CandlesReply, Failure, FetchCandles, Reply
from schemas.errors import PermanentError, TransientError

STALE_AFTER = 3
"""A market whose last bar ended this many bars ago counts as no longer traded."""


class LiveCandles(Free):
    """Port for ``FetchCandles``. Safe for concurrent use within one event loop.

    A reply holds distinct bars, oldest first, none of which ended after ``as_of``: at least one and at most ``limit``,
    fewer where the market is young or had no trades.
    """

    provider = "candles"
    mode: ProviderMode = "live"

    def __init__(self, exchanges: Sequence[Exchange]) -> None:
        """``exchanges`` are tried in order until one has the market."""
        self._exchanges = tuple(exchanges)

    async def perform(self, effect: FetchCandles) -> Answer:
        """Read once. An error, or an asset that no exchange here trades, becomes a ``Failure`` reply at no cost."""
        return Answer(reply=await self._read(effect), cost_usd=Decimal(0), cost_source="free")

    async def close(self) -> None:
        for exchange in self._exchanges:
            await exchange.close()

    async def _read(self, effect: FetchCandles) -> Reply:
        symbol = ticker(effect.asset)
        if symbol is None:
            return _none(f"no bars: {no_ticker(effect.asset)}")
        step, limit = STEPS[effect.interval], max(1, min(effect.limit, MAX_BARS))
        end = floor(effect.as_of.astimezone(UTC), step)
        failures: list[UselessAnswerError | TransientError | PermanentError] = []
        absent = []
        for exchange in self._exchanges:
            try:
                found = await exchange.bars(symbol, effect.interval, end - limit * step, end)
            except (TransientError, PermanentError, UselessAnswerError) as exc:
                failures.append(exc)
                continue
            bars = sorted({bar.ended_at: bar for bar in found or ()}.values(), key=lambda bar: bar.ended_at)
            if bars and bars[-1].ended_at > end - STALE_AFTER * step:
                kept = tuple(bars[-limit:])
                return CandlesReply(candles=kept, source=exchange.name, unit=exchange.unit, interval=effect.interval)
            absent.append(f"{exchange.name} has no {'trade' if found is not None else 'market'} of {symbol} then")
        if failures:
            return failure_of(next((one for one in failures if isinstance(one, TransientError)), failures[0]))
        return _none(f"no bars: {'; '.join(absent)}")


def _none(message: str) -> Failure:
    return Failure(kind="invalid_request", message=quoted(message), retryable=False)
