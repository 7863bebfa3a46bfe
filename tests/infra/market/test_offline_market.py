"""The invented market of offline mode: labelled, the same for ever, and one story at every interval."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, Literal

import msgspec
import pytest

from infra.market import VALUES
from infra.market.ports import live_research
from infra.offline.market import ASSETS
from infra.ports import Port
from infra.settings import Settings, load_settings
from newsproof.app.research_composition import offline_research
from schemas.effects import CandlesReply, Failure, FetchCandles, FetchMarket, MarketReply, Reply
from schemas.errors import ConfigError
from tests.infra.fakes.market import known_name

NOW = datetime(2026, 3, 1, 12, 34, 56, tzinfo=UTC)
KINDS: tuple[Literal["price", "economy", "sentiment", "network"], ...] = ("price", "economy", "sentiment", "network")


def ports(mode: str = "offline") -> dict[str, Port]:
    return offline_research(load_settings(newsproof_mode=mode))


async def market(kind: Any, asset: str = "BTC", as_of: datetime = NOW) -> Reply:
    answer = await ports()["market"].perform(FetchMarket(kind=kind, asset=asset, as_of=as_of))
    assert answer.cost_usd == 0
    assert msgspec.json.decode(msgspec.json.encode(answer.reply), type=Reply) == answer.reply
    return answer.reply


async def candles(interval: Any, *, asset: str = "BTC", limit: int = 48, as_of: datetime = NOW) -> CandlesReply:
    effect = FetchCandles(asset=asset, interval=interval, limit=limit, as_of=as_of)
    reply = (await ports()["candles"].perform(effect)).reply
    assert isinstance(reply, CandlesReply), reply
    return reply


@pytest.mark.parametrize("kind", KINDS)
async def test_every_figure_is_labelled_has_a_known_name_and_is_known_by_then(kind: Any) -> None:
    for asset in ASSETS:
        reply = await market(kind, asset)
        assert isinstance(reply, MarketReply) and reply.values
        assert all(known_name(kind, v.name) and v.unit for v in reply.values)
        assert {v.source for v in reply.values} == {"offline"}
        assert all(v.observed_at <= NOW for v in reply.values)
        assert reply == await market(kind, asset), "the same for ever"


def test_the_ports_say_that_they_are_offline_or_simulated() -> None:
    for mode in ("offline", "simulated"):
        assert {name: port.mode for name, port in ports(mode).items()} == dict.fromkeys(("market", "candles"), mode)
    assert {port.provider for port in ports().values()} == {"offline"}


async def test_bitcoin_has_every_figure_that_a_live_source_without_a_paid_plan_has() -> None:
    given = {kind: await market(kind) for kind in KINDS}
    missing = {
        kind: set(VALUES[kind]) - {v.name for v in reply.values}
        for kind, reply in given.items()
        if isinstance(reply, MarketReply)
    }
    assert missing == {
        "price": {"volume_24h_usd", "market_cap"},
        "economy": set(),
        "sentiment": set(),
        "network": {"chain_tvl", "stablecoin_supply"},
    }


@pytest.mark.parametrize("interval", ["1h", "4h", "1d"])
async def test_bars_are_complete_in_order_and_possible(interval: str) -> None:
    reply = await candles(interval)
    step = {"1h": 1, "4h": 4, "1d": 24}[interval] * timedelta(hours=1)
    assert (reply.source, reply.interval, len(reply.candles)) == ("offline", interval, 48)
    assert reply.candles[-1].ended_at <= NOW < reply.candles[-1].ended_at + step
    assert all(after.ended_at - before.ended_at == step for before, after in pairwise(reply.candles))
    for bar in reply.candles:
        assert 0 < bar.low <= min(bar.open, bar.close) <= max(bar.open, bar.close) <= bar.high
        assert bar.volume > 0


async def test_a_bar_is_the_same_whenever_it_is_asked_for_and_at_every_interval() -> None:
    later = await candles("1h", limit=200, as_of=NOW + timedelta(days=3))
    hours = {bar.ended_at: bar for bar in later.candles}
    assert all(hours[bar.ended_at] == bar for bar in (await candles("1h")).candles)
    for bar in (await candles("4h", limit=5)).candles:
        parts = [hours[bar.ended_at - n * timedelta(hours=1)] for n in (3, 2, 1, 0)]
        assert (bar.open, bar.close) == (parts[0].open, parts[-1].close)
        assert (bar.high, bar.low) == (max(p.high for p in parts), min(p.low for p in parts))


async def test_price_and_bars_tell_one_story() -> None:
    reply = await market("price")
    assert isinstance(reply, MarketReply)
    told = {v.name: v.value for v in reply.values}
    day = (await candles("1h", limit=24)).candles
    assert told["price"] == day[-1].close
    assert told["price_high_24h"] == max(bar.high for bar in day)
    assert told["price_change_24h"] == pytest.approx((day[-1].close / day[0].open - 1) * 100, rel=1e-4)


async def test_assets_move_apart_and_a_stablecoin_hardly_moves() -> None:
    closes = {
        asset: [bar.close for bar in (await candles("1d", asset=asset)).candles] for asset in ("BTC", "ETH", "USDC")
    }
    ratios = [btc / eth for btc, eth in zip(closes["BTC"], closes["ETH"], strict=True)]
    assert max(ratios) / min(ratios) > 1.01
    assert all(abs(close - 1) < 0.01 for close in closes["USDC"])


async def test_an_asset_that_is_not_in_the_data_set_is_said_to_be_unknown() -> None:
    for kind in ("price", "network"):
        reply = await market(kind, "XYZ")
        assert isinstance(reply, MarketReply) and reply.values == () and "has no XYZ" in reply.unknown[0]
        word = await market(kind, "比特币")
        assert isinstance(word, MarketReply) and "no ticker" in word.unknown[0]
    effect = FetchCandles(asset="XYZ", interval="1h", limit=5, as_of=NOW)
    bars = (await ports()["candles"].perform(effect)).reply
    assert isinstance(bars, Failure) and not bars.retryable and "has no XYZ" in bars.message


async def test_other_kinds_are_not_configured() -> None:
    offline = await market("macro")
    live = live_research(load_settings())
    answer = await live["market"].perform(FetchMarket(kind="onchain", asset="BTC", as_of=NOW))
    for reply in (offline, answer.reply):
        assert isinstance(reply, Failure) and (reply.kind, reply.retryable) == ("not_configured", False)


ADDRESSES = [
    name
    for name in Settings.model_fields
    if name.removesuffix("_base_url")
    in {
        *("coinbase", "binance", "coingecko", "fear_greed", "fred", "blockchain_info", "defillama"),
        *("defillama_stablecoins", "coinmetrics"),
    }
]


@pytest.mark.parametrize("name", ADDRESSES)
def test_an_address_that_cannot_be_one_is_refused_before_anything_starts(name: str) -> None:
    with pytest.raises(ConfigError, match=name.upper()):
        live_research(load_settings(**{name: "ftp://example.com"}))


@pytest.mark.parametrize("name", ["coingecko", "fred", "coinmetrics"])
def test_a_key_that_cannot_be_one_is_refused_and_not_repeated(name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name.upper()}_API_KEY") as refused:
        live_research(load_settings(**{f"{name}_api_key": "“quoted”"}))
    assert "quoted" not in str(refused.value)
