"""Prices of the research chat: exchanges first, CoinGecko where they have none."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from infra.ports import Port
from schemas.effects import Failure, FetchMarket, MarketReply, Reply
from tests.infra.fakes import market as fake
from tests.infra.fakes.market import BINANCE_NONE, COINBASE_NONE, known_name, research
from tests.infra.fakes.server import Say

NOW = datetime.now(UTC).replace(minute=30, second=0, microsecond=0) - timedelta(hours=1)
"""CoinGecko keeps a year, so its tests are of today."""
HOUR = timedelta(hours=1)
POINTS = {
    NOW - 25 * HOUR: (90.0, 1.0, 1.0),
    NOW - 24 * HOUR: (100.0, 5e6, 9e8),
    NOW - HOUR / 2: (110.5, 6e6, 1e9),
    NOW + HOUR / 2: (999.0, 9e9, 9e9),  # not yet
}
NOWHERE: dict[str, Any] = {"coinbase": COINBASE_NONE, "binance": BINANCE_NONE}


async def price(ports: dict[str, Port], asset: str, as_of: datetime = NOW) -> Reply:
    answer = await ports["market"].perform(FetchMarket(kind="price", asset=asset, as_of=as_of))
    assert (answer.cost_usd, ports["market"].mode) == (0, "live")
    assert msgspec.json.decode(msgspec.json.encode(answer.reply), type=Reply) == answer.reply
    return answer.reply


def figures(reply: Reply) -> dict[str, float]:
    assert isinstance(reply, MarketReply), reply
    assert all(known_name("price", v.name) for v in reply.values)
    return {v.name: v.value for v in reply.values}


async def test_an_exchange_that_has_the_market_is_enough() -> None:
    began = int((NOW - timedelta(minutes=10)).timestamp())
    candle = Say(f"[[{began}, 1, 3, 1.5, 2.5, 7]]".encode())
    async with research(coinbase=candle) as (ports, servers):
        reply = await price(ports, "XYZ")
        assert servers["coingecko"].requests == []
    assert figures(reply)["price"] == 2.5
    assert isinstance(reply, MarketReply) and {v.source for v in reply.values} == {"coinbase"}


async def test_coingecko_is_asked_where_no_exchange_has_the_market() -> None:
    async with research(coingecko=fake.coingecko(POINTS), **NOWHERE) as (ports, servers):
        reply = await price(ports, "$link")
        [request] = servers["coingecko"].requests
    assert request.path.startswith("/coins/chainlink/market_chart/range?vs_currency=usd")
    assert int(fake.asked(request)["to"]) == NOW.timestamp()
    assert figures(reply) == {
        "price": 110.5,
        "price_change_24h": 10.5,
        "volume_24h_usd": 6e6,
        "market_cap": 1e9,
    }
    assert isinstance(reply, MarketReply)
    assert {(v.source, v.observed_at) for v in reply.values} == {("coingecko", NOW - HOUR / 2)}
    assert reply.unknown == ("price: coinbase has no market for LINK", "price: binance has no market for LINK")


async def test_a_ticker_is_looked_up_and_the_best_ranked_coin_of_it_is_taken() -> None:
    coins = [
        {"id": "impostor", "symbol": "PEPE", "market_cap_rank": None},
        {"id": "pepecoin-old", "symbol": "pepe", "market_cap_rank": 900},
        {"id": "pepe", "symbol": "PEPE", "market_cap_rank": 30},
        {"id": "pepe-2", "symbol": "PEPE2", "market_cap_rank": 1},
    ]
    routes = {"/search?query=PEPE": Say({"coins": coins}), "/coins/pepe/": fake.coingecko(POINTS)}
    async with research(coingecko=routes, **NOWHERE) as (ports, servers):
        assert figures(await price(ports, "PEPE"))["price"] == 110.5
        await price(ports, "PEPE")
        paths = [request.path.partition("?")[0] for request in servers["coingecko"].requests]
    assert paths == ["/search", "/coins/pepe/market_chart/range", "/coins/pepe/market_chart/range"]


async def test_a_ticker_without_a_ranked_coin_is_unknown() -> None:
    coins = Say({"coins": [{"id": "impostor", "symbol": "NOPE", "market_cap_rank": None}, "x"]})
    async with research(coingecko=coins, **NOWHERE) as (ports, _):
        reply = await price(ports, "NOPE")
    assert isinstance(reply, MarketReply) and reply.values == ()
    assert reply.unknown[-1] == "price: coingecko has no coin NOPE"


async def test_exchanges_that_fail_are_named_beside_coingeckos_price() -> None:
    async with research(coingecko=fake.coingecko(POINTS)) as (ports, _):
        reply = await price(ports, "BTC")
    assert figures(reply)["price"] == 110.5
    assert isinstance(reply, MarketReply) and "exchanges failed" in reply.unknown[0]


async def test_a_failure_is_not_taken_for_a_coin_that_nobody_has() -> None:
    unknown = Say({"coins": []})
    async with research(coingecko=unknown) as (ports, _):
        both = await price(ports, "XYZ")
    assert isinstance(both, Failure) and both.retryable
    async with research(**NOWHERE) as (ports, _):
        reply = await price(ports, "XYZ")
    assert isinstance(reply, Failure) and reply.status == 503


async def test_a_stale_figure_is_no_price() -> None:
    old = fake.coingecko({NOW - 3 * HOUR: (1.0, 1.0, 1.0)})
    async with research(coingecko=old, **NOWHERE) as (ports, _):
        reply = await price(ports, "BTC")
    assert isinstance(reply, MarketReply) and reply.values == ()
    assert "none of the two hours before" in reply.unknown[-1]


async def test_figures_that_are_not_given_are_named() -> None:
    lone = fake.coingecko({NOW - HOUR: (1.0, 0.0, 0.0)})
    async with research(coingecko=lone, **NOWHERE) as (ports, _):
        reply = await price(ports, "BTC")
    assert figures(reply) == {"price": 1.0}
    assert isinstance(reply, MarketReply)
    assert reply.unknown[2:] == tuple(
        f"{name}: coingecko has none" for name in ("price_change_24h", "volume_24h_usd", "market_cap")
    )


async def test_more_than_a_year_back_coingecko_is_not_asked_without_a_paid_key() -> None:
    async with research(**NOWHERE) as (ports, servers):
        reply = await price(ports, "BTC", NOW - timedelta(days=400))
        assert servers["coingecko"].requests == []
    assert isinstance(reply, MarketReply) and "keeps a year" in reply.unknown[-1]


async def test_a_key_goes_into_its_header_and_a_refused_one_names_its_setting() -> None:
    wrong = Say({"status": {"error_code": 10002, "error_message": "API Key Missing"}}, status=401)
    key = {"coingecko_api_key": "CG-secret"}
    async with research(settings=key, coingecko=wrong, **NOWHERE) as (ports, servers):
        reply = await price(ports, "BTC")
        assert servers["coingecko"].requests[0].headers["x-cg-demo-api-key"] == "CG-secret"
    assert isinstance(reply, Failure) and (reply.kind, reply.retryable) == ("auth", False)
    assert "COINGECKO_API_KEY" in reply.message and "CG-secret" not in reply.message


async def test_a_word_that_is_no_ticker_asks_nobody() -> None:
    async with research() as (ports, servers):
        reply = await price(ports, "../admin")
        assert not any(server.requests for server in servers.values())
    assert isinstance(reply, MarketReply) and "no ticker" in reply.unknown[0]
