"""Synthetic market data for trying the research chat without a network.

Deterministic by asset and time. Each figure is smooth noise drawn from a hash, so any hour can be computed without
those before it. Bars of 1 h, 4 h and 1 d and the price are consistent with each other. Every value's source is
``offline``. Figures have the magnitude of real ones in 2025, so that a chart looks plausible; nothing else in them is
true.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import math
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import msgspec

from infra.market.exchanges import MAX_BARS, STEPS, floor
from infra.market.source import no_ticker, ticker
from infra.ports import Answer, Free
from schemas.calls import ProviderMode
from schemas.effects import CandlesReply, Failure, FetchCandles, FetchMarket, MarketReply, Reply
from schemas.evidence import Candle, MarketValue

SOURCE = "offline"
SEED = 7


class InventedAsset(msgspec.Struct, frozen=True):
    """An asset of the data set: approximate price (USD), volume an hour (units) and active addresses a day."""

    price: float
    volume: float
    addresses: float
    chain_tvl: float = 0.0


ASSETS = {
    "BTC": InventedAsset(95_000.0, 650.0, 620_000.0),
    "ETH": InventedAsset(3_300.0, 11_000.0, 480_000.0, 58e9),
    "SOL": InventedAsset(170.0, 160_000.0, 3_900_000.0, 9e9),
    "BNB": InventedAsset(680.0, 9_000.0, 1_300_000.0, 6e9),
    "XRP": InventedAsset(2.3, 30_000_000.0, 45_000.0),
    "DOGE": InventedAsset(0.24, 110_000_000.0, 52_000.0),
    "ADA": InventedAsset(0.75, 21_000_000.0, 30_000.0, 3e8),
    "AVAX": InventedAsset(27.0, 350_000.0, 34_000.0, 1.2e9),
    "USDT": InventedAsset(1.0, 900_000.0, 300_000.0),
    "USDC": InventedAsset(1.0, 700_000.0, 120_000.0),
}
STEADY = frozenset({"USDT", "USDC"})
_HOUR, _DAY = timedelta(hours=1), timedelta(days=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_OCTAVES = ((2048, 0.20), (512, 0.10), (128, 0.05), (32, 0.025), (8, 0.012), (2, 0.006))
"""Hours between two draws, and the amplitude in the log price: longer waves are larger, as in a random walk."""


class OfflineMarket(Free):
    """Port for ``FetchMarket``: price, economy, sentiment, network. ``latency_s`` delays each reply."""

    provider = SOURCE

    def __init__(self, *, mode: ProviderMode = "offline", latency_s: float = 0.0) -> None:
        self.mode: ProviderMode = mode
        self._latency_s = latency_s

    async def perform(self, effect: FetchMarket) -> Answer:
        """Return synthetic figures; ``unknown`` says so for an asset outside the data set."""
        await asyncio.sleep(self._latency_s)
        return Answer(reply=_figures(effect), cost_usd=Decimal(0), cost_source="free")

    async def close(self) -> None: ...


class OfflineCandles(Free):
    """Port for ``FetchCandles``: synthetic bars, complete ones only, as an exchange returns them."""

    provider = SOURCE

    def __init__(self, *, mode: ProviderMode = "offline", latency_s: float = 0.0) -> None:
        self.mode: ProviderMode = mode
        self._latency_s = latency_s

    async def perform(self, effect: FetchCandles) -> Answer:
        """Return synthetic bars, or a ``Failure`` for an asset outside the data set."""
        await asyncio.sleep(self._latency_s)
        return Answer(reply=_bars(effect), cost_usd=Decimal(0), cost_source="free")

    async def close(self) -> None: ...


def _figures(effect: FetchMarket) -> Reply:
    at = effect.as_of.astimezone(UTC)
    symbol = ticker(effect.asset)
    if effect.kind == "economy":
        return _reply(_economy(at))
    if effect.kind == "sentiment":
        return _reply(_sentiment(at))
    if effect.kind not in ("price", "network"):
        return Failure(kind="not_configured", message=f"offline mode has no figures of {effect.kind}", retryable=False)
    if symbol is None:
        return MarketReply(values=(), unknown=(f"{effect.kind}: {no_ticker(effect.asset)}",))
    if symbol not in ASSETS:
        return MarketReply(values=(), unknown=(f"{effect.kind}: {_absent(symbol)}",))
    if effect.kind == "price":
        return _reply(_price(symbol, at))
    return _reply(_network(symbol, at))


def _reply(values: Iterator[tuple[str, float, str, datetime]]) -> MarketReply:
    made = (
        MarketValue(name=name, value=_short(value), unit=unit, source=SOURCE, observed_at=at)
        for name, value, unit, at in values
    )
    return MarketReply(values=tuple(made), unknown=())


def _price(symbol: str, at: datetime) -> Iterator[tuple[str, float, str, datetime]]:
    end = floor(at, _HOUR)
    day = [_hour(symbol, end - n * _HOUR) for n in range(24)]
    now = day[0].close
    yield "price", now, "USD", end
    yield "price_change_1h", (now / _close(symbol, end - _HOUR) - 1) * 100, "%", end
    yield "price_change_24h", (now / _close(symbol, end - _DAY) - 1) * 100, "%", end
    yield "price_high_24h", max(bar.high for bar in day), "USD", end
    yield "price_low_24h", min(bar.low for bar in day), "USD", end
    yield "volume_24h", sum(bar.volume for bar in day), "units of the asset", end


def _economy(at: datetime) -> Iterator[tuple[str, float, str, datetime]]:
    day = floor(at, _DAY)
    month = day - 30 * _DAY

    def level(name: str, base: float, width: float, when: datetime) -> float:
        return base + width * _wave(f"economy:{name}", when)

    for name, base, width in (("fed_funds_rate", 4.1, 1.2), ("treasury_yield_10y", 4.2, 1.0)):
        now = level(name, base, width, day)
        yield name, now, "%", day
        yield f"{name}_change_30d", now - level(name, base, width, month), "percentage points", day
    yield "m2_growth", level("m2_growth", 4.0, 5.0, day.replace(day=1)), "% year on year", day.replace(day=1)
    dollar, before = (level("dxy", 122.0, 12.0, when) for when in (day, month))
    yield "dxy", dollar, "index (2006-01 = 100)", day
    yield "dxy_change_30d", (dollar / before - 1) * 100, "%", day


def _sentiment(at: datetime) -> Iterator[tuple[str, float, str, datetime]]:
    day = floor(at, _DAY)
    now, before = (
        float(min(98, max(2, round(50 + 160 * _wave("fear_greed", when))))) for when in (day, day - 7 * _DAY)
    )
    yield "fear_greed_index", now, "0-100", day
    yield "fear_greed_index_change_7d", now - before, "points", day


def _network(symbol: str, at: datetime) -> Iterator[tuple[str, float, str, datetime]]:
    day, asset = floor(at, _DAY), ASSETS[symbol]
    series = [("active_addresses", asset.addresses, "addresses"), ("mvrv", 2.0, "ratio")]
    series.append(("transactions_per_day", asset.addresses * 0.8, "transactions"))
    if symbol == "BTC":
        series += [("transfer_volume_usd", 9e9, "USD"), ("hash_rate", 9e8, "TH/s")]
        series.append(("stablecoin_supply_total", 2.6e11, "USD"))
    if asset.chain_tvl:
        series += [("chain_tvl", asset.chain_tvl, "USD"), ("stablecoin_supply", asset.chain_tvl * 0.9, "USD")]
    for name, base, unit in series:
        now, yesterday, seven = (base * math.exp(_wave(f"{symbol}:{name}", day - n * _DAY)) for n in (0, 1, 7))
        yield name, now, unit, day
        yield f"{name}_change_1d", (now / yesterday - 1) * 100, "%", day
        yield f"{name}_change_7d", (now / seven - 1) * 100, "%", day
    flow = asset.price * asset.volume * 24
    into = [0.2 * flow * math.exp(_wave(f"{symbol}:in", day - n * _DAY)) for n in range(7)]
    out = [0.2 * flow * math.exp(_wave(f"{symbol}:out", day - n * _DAY)) for n in range(7)]
    yield "exchange_inflow", into[0], "USD", day
    yield "exchange_outflow", out[0], "USD", day
    yield "exchange_netflow", into[0] - out[0], "USD", day
    yield "exchange_netflow_7d", sum(into) - sum(out), "USD", day


def _bars(effect: FetchCandles) -> Reply:
    symbol = ticker(effect.asset)
    if symbol is None or symbol not in ASSETS:
        message = f"no bars: {no_ticker(effect.asset) if symbol is None else _absent(symbol)}"
        return Failure(kind="invalid_request", message=message, retryable=False)
    step, limit = STEPS[effect.interval], max(1, min(effect.limit, MAX_BARS))
    end = floor(effect.as_of.astimezone(UTC), step)
    made = tuple(_bar(symbol, end - n * step, step) for n in reversed(range(limit)))
    return CandlesReply(candles=made, source=SOURCE, unit="USD", interval=effect.interval)


def _bar(symbol: str, end: datetime, step: timedelta) -> Candle:
    hours = [_hour(symbol, end - n * _HOUR) for n in reversed(range(step // _HOUR))]
    return Candle(
        ended_at=end,
        open=hours[0].open,
        high=max(hour.high for hour in hours),
        low=min(hour.low for hour in hours),
        close=hours[-1].close,
        volume=_short(sum(hour.volume for hour in hours)),
    )


@functools.lru_cache(maxsize=16_384)
def _hour(symbol: str, end: datetime) -> Candle:
    opened, closed = _close(symbol, end - _HOUR), _close(symbol, end)
    n = (end - _EPOCH) // _HOUR
    reach = 0.0002 if symbol in STEADY else 0.004
    up, down = (abs(_draw(f"{symbol}:{way}", n)) * reach for way in ("up", "down"))
    volume = ASSETS[symbol].volume * math.exp(_draw(f"{symbol}:volume", n)) * (1 + 20 * abs(closed / opened - 1))
    high, low = _short(max(opened, closed) * (1 + up)), _short(min(opened, closed) * (1 - down))
    return Candle(ended_at=end, open=opened, high=high, low=low, close=closed, volume=_short(volume))


@functools.lru_cache(maxsize=16_384)
def _close(symbol: str, at: datetime) -> float:
    width = 0.01 if symbol in STEADY else 1.0
    return _short(ASSETS[symbol].price * math.exp(width * _wave(f"{symbol}:price", at)))


def _wave(name: str, at: datetime) -> float:
    """Smooth noise around 0, rarely beyond 0.3: waves of several lengths, each interpolated between two draws."""
    hours = (at - _EPOCH) / _HOUR
    total = 0.0
    for length, reach in _OCTAVES:
        n, part = divmod(hours, length)
        t = part / length
        weight = t * t * (3 - 2 * t)
        total += reach * ((1 - weight) * _draw(name, int(n), length) + weight * _draw(name, int(n) + 1, length))
    return total


@functools.lru_cache(maxsize=65_536)
def _draw(name: str, n: int, length: int = 1) -> float:
    """Return a number between -1 and 1 that depends only on the arguments."""
    digest = hashlib.blake2b(f"{SEED}:{name}:{length}:{n}".encode(), digest_size=8).digest()
    return int.from_bytes(digest) / 2**63 - 1


def _short(value: float) -> float:
    """Round to seven digits: beyond them, exponential functions differ between machines."""
    return float(f"{value:.7g}")


def _absent(symbol: str) -> str:
    return f"the offline data set has no {symbol}; it has {', '.join(ASSETS)}"
