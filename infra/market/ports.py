"""The ports of market data in live mode: ``FetchMarket`` by kind of figure, and ``FetchCandles``."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Protocol

from pydantic import SecretStr

from infra.http import UselessAnswerError, quoted
from infra.market.coingecko import CoinGecko
from infra.market.coinmetrics import CoinMetrics
from infra.market.economy import Fred, Mood, economy, macro, sentiment
from infra.market.exchanges import MAX_BARS, STEPS, Exchange, exchanges, floor
from infra.market.network import Network
from infra.market.prices import Prices
from infra.market.source import Source, no_ticker, ticker
from infra.ports import Answer, Free
from infra.settings import Settings
from schemas.calls import ProviderMode
from schemas.effects import CandlesReply, Failure, FetchCandles, FetchMarket, MarketReply, Reply
from schemas.errors import PermanentError, TransientError

STALE_AFTER = 3
"""A market whose last bar ended at least this many bars ago counts as no longer traded."""


class Kind(Protocol):
    """The source of one kind of figure."""

    @property
    def sources(self) -> Sequence[Source]: ...

    async def read(self, asset: str, as_of: datetime) -> MarketReply: ...


def failure_of(exc: UselessAnswerError | TransientError | PermanentError) -> Failure:
    """Translate an exception of a free adapter into its ``Failure`` reply."""
    if isinstance(exc, UselessAnswerError):
        assert isinstance(exc.answer.reply, Failure)
        return exc.answer.reply
    again = isinstance(exc, TransientError)
    wait = exc.retry_after_s if isinstance(exc, TransientError) else None
    return Failure(kind=exc.kind, message=str(exc), retryable=again, retry_after_s=wait, status=exc.status)


class LiveMarket(Free):
    """Port for ``FetchMarket``. Safe for concurrent use within one event loop."""

    provider = "market"
    mode: ProviderMode = "live"

    def __init__(self, **kinds: Kind) -> None:
        """``kinds``: price, macro, onchain; in the research chat price, economy, sentiment, network."""
        self._kinds = kinds

    async def perform(self, effect: FetchMarket) -> Answer:
        """Read once. Missing figures are listed in ``unknown``; an error becomes a ``Failure`` reply at no cost."""
        try:
            reply: MarketReply | Failure = await self._of(effect.kind).read(effect.asset, effect.as_of.astimezone(UTC))
        except (UselessAnswerError, TransientError, PermanentError) as exc:
            reply = failure_of(exc)
        return Answer(reply=reply, cost_usd=Decimal(0), cost_source="free")

    def _of(self, kind: str) -> Kind:
        if kind not in self._kinds:
            known = ", ".join(self._kinds)
            raise PermanentError(f"no source of {kind} is configured here: ask for {known}", kind="not_configured")
        return self._kinds[kind]

    @property
    def sources(self) -> tuple[Source, ...]:
        """The services that this port calls, each once."""
        return tuple({id(source): source for kind in self._kinds.values() for source in kind.sources}.values())

    async def close(self) -> None:
        for source in self.sources:
            await source.close()


class LiveCandles(Free):
    """Port for ``FetchCandles``. Safe for concurrent use within one event loop.

    A reply contains distinct bars, oldest first, that had ended by ``as_of``: at least one and at most ``limit``. There
    are fewer if the market is young or had no trades.
    """

    provider = "candles"
    mode: ProviderMode = "live"

    def __init__(self, exchanges: Sequence[Exchange]) -> None:
        """``exchanges`` are tried in order until one has the market."""
        self.sources = tuple(exchanges)

    async def perform(self, effect: FetchCandles) -> Answer:
        """Read once. An error, or an asset that no exchange here trades, becomes a ``Failure`` reply at no cost."""
        return Answer(reply=await self._read(effect), cost_usd=Decimal(0), cost_source="free")

    async def close(self) -> None:
        for exchange in self.sources:
            await exchange.close()

    async def _read(self, effect: FetchCandles) -> Reply:
        symbol = ticker(effect.asset)
        if symbol is None:
            return _none(f"no bars: {no_ticker(effect.asset)}")
        step, limit = STEPS[effect.interval], max(1, min(effect.limit, MAX_BARS))
        end = floor(effect.as_of.astimezone(UTC), step)
        failures: list[UselessAnswerError | TransientError | PermanentError] = []
        absent = []
        for exchange in self.sources:
            try:
                candles = await exchange.bars(symbol, effect.interval, end - limit * step, end)
            except (TransientError, PermanentError, UselessAnswerError) as exc:
                failures.append(exc)
                continue
            bars = sorted({bar.ended_at: bar for bar in candles or ()}.values(), key=lambda bar: bar.ended_at)
            if bars and bars[-1].ended_at > end - STALE_AFTER * step:
                kept = tuple(bars[-limit:])
                return CandlesReply(candles=kept, source=exchange.name, unit=exchange.unit, interval=effect.interval)
            absent.append(f"{exchange.name} has no {'trade' if candles is not None else 'market'} of {symbol} then")
        if failures:
            return failure_of(
                next((failure for failure in failures if isinstance(failure, TransientError)), failures[0])
            )
        return _none(f"no bars: {'; '.join(absent)}")


def _none(message: str) -> Failure:
    return Failure(kind="invalid_request", message=quoted(message), retryable=False)


def live_market(settings: Settings) -> LiveMarket:
    """Return the news pipeline's port: price, macro, onchain.

    Raises:
        ConfigError: an address or a key is invalid; the message names its setting.
    """
    return LiveMarket(
        price=Prices(_exchanges(settings, "leave the price tool off"), pegs=True),
        macro=macro(_fred(settings), _mood(settings)),
        onchain=Network("onchain", settings),
    )


def live_research(settings: Settings) -> dict[str, LiveMarket | LiveCandles]:
    """Return the research chat's ports ``market`` (price, economy, sentiment, network) and ``candles``.

    Raises:
        ConfigError: an address or a key is invalid; the message names its setting.
    """
    timeout_s, bars = settings.deep_analysis_tool_timeout, _exchanges(settings, "ask about another asset")
    coins = CoinGecko(settings.coingecko_base_url, api_key=_key(settings.coingecko_api_key), timeout_s=timeout_s)
    metrics = None
    if settings.coinmetrics_enabled:
        key = _key(settings.coinmetrics_api_key)
        metrics = CoinMetrics(settings.coinmetrics_base_url, api_key=key, timeout_s=timeout_s)
    market = LiveMarket(
        price=Prices(bars, coingecko=coins),
        economy=economy(_fred(settings)),
        sentiment=sentiment(_mood(settings)),
        network=Network("network", settings, coinmetrics=metrics),
    )
    return {"market": market, "candles": LiveCandles(bars)}


def _exchanges(settings: Settings, correct: str) -> tuple[Exchange, ...]:
    return exchanges(
        coinbase=settings.coinbase_base_url,
        binance=settings.binance_base_url,
        timeout_s=settings.deep_analysis_tool_timeout,
        correct=correct,
    )


def _fred(settings: Settings) -> Fred:
    return Fred(
        table=settings.fred_base_url,
        api=settings.fred_api_base_url,
        api_key=_key(settings.fred_api_key),
        timeout_s=settings.deep_analysis_tool_timeout,
    )


def _mood(settings: Settings) -> Mood:
    return Mood(settings.fear_greed_base_url, timeout_s=settings.deep_analysis_tool_timeout)


def _key(secret: SecretStr | None) -> str | None:
    return secret.get_secret_value() if secret is not None else None
