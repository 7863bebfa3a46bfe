"""Bars as of a time: complete ones only, from the first exchange that has the market."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from infra.market.exchanges import MAX_BARS, joined
from infra.ports import Port
from schemas.effects import CandlesReply, Failure, FetchCandles, Reply
from schemas.evidence import Candle
from tests.infra.fakes import market as fake
from tests.infra.fakes.market import AS_OF, BINANCE_NONE, COINBASE_NONE, asked, research
from tests.infra.fakes.server import Say

HOURS = (
    ("2024-06-05T07:00", 10.0, 11.0, 9.0, 10.5, 1.25),
    ("2024-06-05T08:00", 10.5, 12.0, 10.0, 11.0, 2.5),
    ("2024-06-05T09:00", 11.0, 13.0, 10.5, 12.5, 0.5),
    ("2024-06-05T11:00", 12.5, 12.75, 8.0, 9.0, 4.0),
    ("2024-06-05T12:00", 9.0, 99.0, 1.0, 50.0, 9.0),  # open at AS_OF: it would know the future
)


async def bars(ports: dict[str, Port], interval: Any = "1h", *, asset: str = "BTC", limit: int = 4) -> Reply:
    effect = FetchCandles(asset=asset, interval=interval, limit=limit, as_of=AS_OF)
    answer = await ports["candles"].perform(effect)
    assert answer.cost_usd == 0
    assert msgspec.json.decode(msgspec.json.encode(answer.reply), type=Reply) == answer.reply
    return answer.reply


def candle(ended: str, *prices: float) -> Candle:
    opened, high, low, close, volume = prices
    at = datetime.fromisoformat(f"{ended}+00:00")
    return Candle(ended_at=at, open=opened, high=high, low=low, close=close, volume=volume)


async def test_bars_are_those_that_had_ended_oldest_first() -> None:
    async with research(coinbase=fake.coinbase_bars(*HOURS)) as (ports, servers):
        reply = await bars(ports)
        [request] = servers["coinbase"].requests
        assert servers["binance"].requests == []
    assert request.path.startswith("/products/BTC-USD/candles?")
    assert asked(request) == {"granularity": "3600", "start": "2024-06-05T08:00:00Z", "end": "2024-06-05T11:00:00Z"}
    assert reply == CandlesReply(
        candles=(
            candle("2024-06-05T09:00", 10.5, 12.0, 10.0, 11.0, 2.5),
            candle("2024-06-05T10:00", 11.0, 13.0, 10.5, 12.5, 0.5),
            candle("2024-06-05T12:00", 12.5, 12.75, 8.0, 9.0, 4.0),
        ),
        source="coinbase",
        unit="USD",
        interval="1h",
    )


async def test_four_hours_are_made_of_hours_where_an_exchange_lacks_them() -> None:
    async with research(coinbase=fake.coinbase_bars(*HOURS)) as (ports, servers):
        reply = await bars(ports, "4h", limit=2)
        assert asked(servers["coinbase"].requests[0])["granularity"] == "3600"
    assert isinstance(reply, CandlesReply)
    assert reply.candles == (
        candle("2024-06-05T08:00", 10.0, 11.0, 9.0, 10.5, 1.25),
        candle("2024-06-05T12:00", 10.5, 13.0, 8.0, 9.0, 7.0),
    )


async def test_a_day_is_a_day_in_utc() -> None:
    days = [("2024-06-03", 1.0, 2.0, 0.5, 1.5, 7.0), ("2024-06-04", 1.5, 2.5, 1.0, 2.0, 8.0)]
    async with research(coinbase=fake.coinbase_bars(*days, ("2024-06-05", 2.0, 9.0, 1.0, 9.0, 1.0))) as (
        ports,
        servers,
    ):
        reply = await bars(ports, "1d", limit=2)
        assert asked(servers["coinbase"].requests[0])["granularity"] == "86400"
    assert isinstance(reply, CandlesReply)
    assert [(c.ended_at, c.close) for c in reply.candles] == [
        (datetime(2024, 6, 4, tzinfo=UTC), 1.5),
        (datetime(2024, 6, 5, tzinfo=UTC), 2.0),
    ]


async def test_long_stretches_are_asked_for_in_pages_that_the_exchange_allows() -> None:
    async with research(coinbase=fake.coinbase_bars(*HOURS)) as (ports, servers):
        reply = await bars(ports, "4h", limit=10_000)
        requests = [asked(request) for request in servers["coinbase"].requests]
    spans = sorted((datetime.fromisoformat(r["start"]), datetime.fromisoformat(r["end"])) for r in requests)
    assert all(end - start <= timedelta(hours=299) for start, end in spans)
    assert spans[0][0] == datetime(2024, 6, 5, 12, tzinfo=UTC) - timedelta(hours=4 * MAX_BARS)
    assert spans[-1][1] == datetime(2024, 6, 5, 11, tzinfo=UTC)
    assert all(later[0] - earlier[1] == timedelta(hours=1) for earlier, later in pairwise(spans))
    assert isinstance(reply, CandlesReply) and len(reply.candles) == 2, "each bar once, whatever page it came in"


async def test_the_next_exchange_is_asked_where_the_first_has_no_market_or_fails() -> None:
    for coinbase in (COINBASE_NONE, fake.DOWN, Say([])):
        async with research(coinbase=coinbase, binance=fake.binance_bars(*HOURS)) as (ports, servers):
            reply = await bars(ports, limit=3)
            [request] = servers["binance"].requests
        assert asked(request) == {
            **{"symbol": "BTCUSDT", "interval": "1h", "limit": str(MAX_BARS)},
            **{"startTime": str(fake.epoch("2024-06-05T09:00") * 1000)},
            **{"endTime": str(fake.epoch("2024-06-05T12:00") * 1000 - 1)},
        }
        assert isinstance(reply, CandlesReply) and (reply.source, reply.unit) == ("binance", "USDT")
        assert [c.close for c in reply.candles] == [12.5, 9.0]


async def test_a_market_that_is_not_traded_any_more_has_no_bars() -> None:
    old = ("2024-06-05T06:00", 1.0, 2.0, 0.5, 1.5, 7.0)
    async with research(coinbase=fake.coinbase_bars(old), binance=BINANCE_NONE) as (ports, _):
        reply = await bars(ports, limit=48)
    assert reply == Failure(
        kind="invalid_request",
        message="no bars: coinbase has no trade of BTC then; binance has no market of BTC then",
        retryable=False,
    )


async def test_a_failure_is_not_taken_for_a_market_that_does_not_exist() -> None:
    for scripts in ({"coinbase": COINBASE_NONE}, {"binance": BINANCE_NONE}):
        async with research(**scripts) as (ports, _):
            reply = await bars(ports, asset="XYZ")
        assert isinstance(reply, Failure) and (reply.kind, reply.retryable) == ("unavailable", True)


@pytest.mark.parametrize("asset", ["", "unknown", "比特币", "BTC-USD", "../x", "a b"])
async def test_words_that_are_no_ticker_ask_nobody(asset: str) -> None:
    async with research() as (ports, servers):
        reply = await bars(ports, asset=asset)
        assert not any(server.requests for server in servers.values())
    assert isinstance(reply, Failure) and "no ticker" in reply.message and not reply.retryable


def test_volumes_are_added_exactly() -> None:
    hours = [candle(f"2024-06-05T0{n}:00", 1.0, 1.0, 1.0, 1.0, 0.1) for n in (1, 2, 3)]
    assert [bar.volume for bar in joined(hours, timedelta(hours=4))] == [0.3]
