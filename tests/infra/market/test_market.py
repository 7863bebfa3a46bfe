"""Market figures: as of the case's time, exact, and honest about what a source does not know."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any, Literal

import msgspec
import pytest

from agents.evidence.claim import Claim
from agents.evidence.measurements import measured, measurements_of
from infra.market.economy import known_from
from infra.market.ports import LiveMarket
from infra.market.source import number, ticker
from schemas.effects import Failure, FetchMarket, MarketReply, Reply
from tests.infra.fakes import market as fake
from tests.infra.fakes.market import BINANCE_NONE, COINBASE_NONE, DOWN, epoch, market
from tests.infra.fakes.server import Say

AS_OF = datetime(2024, 6, 3, 12, 2, 30, tzinfo=UTC)
"""A Monday."""
DAY = 24 * 60


def began(minutes_before: int) -> int:
    """Return the epoch second at which a five-minute candle began, counted from 12:00."""
    return int((datetime(2024, 6, 3, 12, tzinfo=UTC) - timedelta(minutes=minutes_before)).timestamp())


CANDLES = (
    (began(0), "1", "99999999", "99999999", "1000"),  # open at AS_OF: it would know the future
    (began(5), "69000.01", "69100.5", "69050.10", "1.5"),
    (began(65), "68000", "68500", "68367.43", "2.25"),
    (began(DAY + 5), "66000", "67000", "67000", "3"),
    (began(2 * DAY), "1", "2", "1.5", "4"),
)


async def ask(port: LiveMarket, kind: Literal["price", "macro", "onchain"], asset: str = "BTC") -> Reply:
    answer = await port.perform(FetchMarket(kind=kind, asset=asset, as_of=AS_OF))
    assert answer.cost_usd == 0
    assert msgspec.json.decode(msgspec.json.encode(answer.reply), type=Reply) == answer.reply
    return answer.reply


def figures(reply: Reply) -> dict[str, float]:
    assert isinstance(reply, MarketReply), reply
    return {v.name: v.value for v in reply.values}


@pytest.mark.parametrize(("name", "unit"), [("coinbase", "USD"), ("binance", "USDT")])
async def test_the_price_is_that_of_the_last_candle_that_had_ended(name: str, unit: str) -> None:
    scripts: dict[str, Any] = {"coinbase": COINBASE_NONE, name: getattr(fake, name)(*CANDLES)}
    async with market(**scripts) as (port, servers):
        reply = await ask(port, "price", "$btc")
        asked = servers[name].requests[0].path
    assert figures(reply) == {
        "price": 69050.1,
        "price_change_1h": 0.999,
        "price_change_24h": 3.06,
        "price_high_24h": 69100.5,
        "price_low_24h": 68000.0,
        "volume_24h": 3.75,
    }
    assert isinstance(reply, MarketReply)
    assert {(v.source, v.observed_at) for v in reply.values} == {(name, datetime(2024, 6, 3, 12, tzinfo=UTC))}
    assert {v.unit for v in reply.values if v.name == "price"} == {unit}
    written = {
        "coinbase": "/products/BTC-USD/candles?granularity=300&start=2024-06-02T11%3A52%3A30Z&end=2024-06-03T12%3A02%3A30Z",
        "binance": "/api/v3/klines?symbol=BTCUSDT&interval=5m&startTime=1717329150000&endTime=1717416150000&limit=300",
    }
    assert asked == written[name]


async def test_an_asset_without_a_market_is_unknown_and_no_failure() -> None:
    async with market(coinbase=COINBASE_NONE, binance=BINANCE_NONE) as (port, _):
        reply = await ask(port, "price", "XYZ")
    assert isinstance(reply, MarketReply) and reply.values == ()
    assert reply.unknown == ("price: coinbase has no market for XYZ", "price: binance has no market for XYZ")


async def test_an_exchange_that_fails_is_named_beside_the_others_price() -> None:
    async with market(coinbase=DOWN, binance=fake.binance(*CANDLES)) as (port, _):
        reply = await ask(port, "price")
    assert figures(reply)["price"] == 69050.1
    assert isinstance(reply, MarketReply) and "coinbase failed" in reply.unknown[0]


def two_hours(low: str, high: str, *, every: int = 5) -> list[tuple[int, str, str, str, str]]:
    """Candles back to two hours before, and one each of what must not be read: still open, and older."""
    within = [(began(minutes), low, high, high, "10") for minutes in range(5, 125, every)]
    return [(began(0), "0.5", "2", "1", "10"), *within, (began(125), "0.4", "3", "1", "10")]


def last_hours(reply: Reply) -> dict[tuple[str, str], tuple[float, str]]:
    assert isinstance(reply, MarketReply), reply
    return {(v.source, v.name): (v.value, v.unit) for v in reply.values if v.name.endswith("_2h")}


async def test_a_dollar_peg_is_read_at_both_exchanges_over_the_two_hours_before_and_never_later() -> None:
    scripts = {
        "coinbase": fake.coinbase(*two_hours("0.9712", "0.9990")),
        "binance": fake.binance(*two_hours("0.9685", "0.9981", every=30)),
    }
    async with market(**scripts) as (port, servers):
        reply = await ask(port, "price", "USDC")
        assert [len(servers[name].requests) for name in scripts] == [1, 1]
    assert last_hours(reply) == {
        ("coinbase", "price_low_2h"): (0.9712, "USD"),
        ("coinbase", "price_high_2h"): (0.999, "USD"),
        ("coinbase", "candles_2h"): (24.0, "of 24"),
        ("binance", "price_low_2h"): (0.9685, "USDT"),
        ("binance", "price_high_2h"): (0.9981, "USDT"),
        ("binance", "candles_2h"): (4.0, "of 24"),
    }
    assert isinstance(reply, MarketReply)
    assert {v.observed_at for v in reply.values} == {datetime(2024, 6, 3, 12, tzinfo=UTC)}
    assert [v.source for v in reply.values if v.name == "price"] == ["coinbase"], "one price is the reference"


async def test_one_exchange_without_an_answer_leaves_a_pegs_other_window_and_is_named() -> None:
    async with market(coinbase=fake.coinbase(*two_hours("0.97", "1")), binance=BINANCE_NONE) as (port, _):
        reply = await ask(port, "price", "USDT")
    assert {source for source, _ in last_hours(reply)} == {"coinbase"}
    assert isinstance(reply, MarketReply) and "price: binance has no market for USDT" in reply.unknown
    async with market(coinbase=DOWN, binance=fake.binance(*two_hours("0.97", "1"))) as (port, _):
        reply = await ask(port, "price", "USDC")
    assert {source for source, _ in last_hours(reply)} == {"binance"} and figures(reply)["price"] == 1.0
    async with market(coinbase=DOWN, binance=BINANCE_NONE) as (port, _):
        assert isinstance(await ask(port, "price", "USDC"), Failure)


async def test_what_has_no_dollar_peg_is_asked_of_one_exchange_and_has_no_such_window() -> None:
    async with market(coinbase=fake.coinbase(*CANDLES), binance=fake.binance(*CANDLES)) as (port, servers):
        reply = await ask(port, "price")
        assert servers["binance"].requests == []
    assert last_hours(reply) == {}


@pytest.mark.parametrize(
    ("coinbase", "binance", "said"),
    [
        (("0.88", "0.99"), ("0.87", "0.99"), "confirms"),
        (("0.999", "1.001"), ("0.998", "1.0005"), "contradicts"),
        (("0.88", "0.99"), ("0.999", "1.001"), None),
        (("0.994", "1.0"), ("0.999", "1.0"), None),
        (("0.999", "1.001"), None, "contradicts"),
        (("0.88", "0.99"), None, None),
        (None, ("0.999", "1.001"), None),
    ],
)
async def test_what_the_price_tool_brings_decides_a_claimed_depeg(
    coinbase: Any, binance: Any, said: str | None
) -> None:
    scripts = {
        "coinbase": fake.coinbase(*two_hours(*coinbase)) if coinbase else COINBASE_NONE,
        "binance": fake.binance(*two_hours(*binance)) if binance else BINANCE_NONE,
    }
    async with market(**scripts) as (port, _):
        reply = await ask(port, "price", "USDC")
    assert isinstance(reply, MarketReply)
    claim = Claim(text="USDC falls to $0.87", language="en", event_type="depeg", asset="USDC", as_of=AS_OF)
    assert measured(claim, measurements_of(reply.values, claim)) == said


async def test_a_failure_is_not_taken_for_an_asset_without_a_market() -> None:
    for scripts in ({"coinbase": DOWN, "binance": BINANCE_NONE}, {"coinbase": COINBASE_NONE, "binance": DOWN}):
        async with market(**scripts) as (port, _):
            reply = await ask(port, "price")
        assert isinstance(reply, Failure)
        assert (reply.kind, reply.retryable, reply.status) == ("unavailable", True, 503)


async def test_a_market_without_trade_within_the_hour_has_no_price() -> None:
    old = (began(70), "1", "2", "1.5", "1")
    async with market(coinbase=fake.coinbase(old), binance=BINANCE_NONE) as (port, _):
        reply = await ask(port, "price")
    assert isinstance(reply, MarketReply) and reply.values == ()
    assert "no trade on coinbase within an hour" in reply.unknown[0]


async def test_a_change_without_a_candle_to_compare_with_is_unknown() -> None:
    async with market(coinbase=fake.coinbase(CANDLES[1])) as (port, _):
        reply = await ask(port, "price")
    assert set(figures(reply)) == {"price", "price_high_24h", "price_low_24h", "volume_24h"}
    assert isinstance(reply, MarketReply)
    assert reply.unknown == ("price_change_1h: too little trade", "price_change_24h: too little trade")


async def test_words_that_are_no_ticker_ask_nobody() -> None:
    async with market() as (port, servers):
        for asset in ("", "unknown", "比特币", "../admin", "BTC?x=1", "a b", "BTC-USD", "X" * 16, "N/A", "\n"):
            for kind in ("price", "onchain"):
                reply = await ask(port, kind, asset)
                assert isinstance(reply, MarketReply) and reply.values == () and "no ticker" in reply.unknown[0]
        assert not any(server.requests for server in servers.values())


async def test_macro_figures_are_those_that_were_published_by_then() -> None:
    # 3 June 2024 is a Monday: Friday's yield comes out on its evening, Thursday's came out on Friday's.
    on = ("2024-05-29", "2024-05-30", "2024-05-31", "2024-06-03")
    tables = {
        "id=DGS10": fake.fred("DGS10", *zip(on, ("4.61", "4.55", "4.51", "4.41"), strict=True)),
        "id=VIXCLS": fake.fred("VIXCLS", *zip(on, ("14.28", ".", "12.92", "13.11"), strict=True)),
    }
    moods = fake.mood(("2024-06-04", "1"), ("2024-06-03", "74"), ("2024-06-02", "71"))
    async with market(fear_greed=moods, fred=tables) as (port, servers):
        reply = await ask(port, "macro", "")
        assert sorted(request.path for request in servers["fred"].requests) == [
            f"/graph/fredgraph.csv?id={name}&cosd=2024-05-24&coed=2024-06-03" for name in ("DGS10", "VIXCLS")
        ]
    assert isinstance(reply, MarketReply) and {value.source for value in reply.values} == {"alternative.me", "fred"}
    assert figures(reply) == {"fear_greed_index": 74.0, "us_10y_yield": 4.55, "vix": 14.28}


def test_a_figure_of_fred_is_known_from_the_evening_of_the_next_business_day() -> None:
    assert known_from(date(2024, 5, 30)) == datetime(2024, 5, 31, 21, 30, tzinfo=UTC)
    assert known_from(date(2024, 5, 31)) == datetime(2024, 6, 3, 21, 30, tzinfo=UTC)


async def test_one_macro_source_that_fails_is_named_and_both_are_a_failure() -> None:
    async with market(fear_greed=fake.mood(("2024-06-03", "74"))) as (port, _):
        reply = await ask(port, "macro")
        assert figures(reply) == {"fear_greed_index": 74.0}
        assert isinstance(reply, MarketReply) and "fred DGS10 failed" in reply.unknown[0]
    async with market() as (port, _):
        both = await ask(port, "macro")
    assert isinstance(both, Failure) and both.retryable


async def test_the_supply_of_a_stablecoin_and_its_changes() -> None:
    on = [("2024-05-27", 100.0), ("2024-06-02", 80), ("2024-06-03", 60.5), ("2024-06-04", 1)]
    rows = [{"date": epoch(day), "totalCirculating": {"peggedUSD": supply}} for day, supply in on]
    async with market(defillama_stablecoins=Say(rows)) as (port, servers):
        reply = await ask(port, "onchain", "USDC")
        assert servers["defillama_stablecoins"].requests[0].path == "/stablecoincharts/all?stablecoin=2"
    assert figures(reply) == {
        "stablecoin_supply": 60.5,
        "stablecoin_supply_change_1d": -24.375,
        "stablecoin_supply_change_7d": -39.5,
    }


@pytest.mark.parametrize(
    "body", [{"status": "not-found"}, {"status": "ok"}, [], {"status": "ok", "values": [{"x": "a"}]}]
)
async def test_a_chart_that_cannot_be_read_is_no_answer(body: Any) -> None:
    async with market(blockchain_info=Say(body)) as (port, _):
        reply = await ask(port, "onchain", "BTC")
    assert isinstance(reply, Failure) and (reply.kind, reply.retryable) == ("invalid_output", True)


def test_numbers_are_read_exactly_or_not_at_all() -> None:
    assert str(number("0.1000000000000000055")) == "0.1000000000000000055"
    nonsense: list[Any] = [True, None, "", "NaN", "inf", "1e40", [], "1_0_x"]
    assert [number(v) for v in nonsense] == [None] * 8
    assert ticker(" $usdc ") == "USDC"
