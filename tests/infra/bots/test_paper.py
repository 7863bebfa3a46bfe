"""Fills on paper: which price each order gets, what happens without one, and the profit worked out by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import pytest

from infra.bots.adapter import Order
from infra.bots.definition import BotDefinition
from infra.bots.paper import BarPrices, ExchangePrices, ImportedPrices, InventedPrices, Mark, Paper, paper_book
from infra.bots.table import order_adapter
from infra.clickhouse.client import ClickHouse
from infra.market.exchanges import exchanges
from infra.settings import Settings
from schemas.deliveries import DeliveryRecord, Planned, Settled, Side
from schemas.errors import ConfigError, TransientError
from schemas.prices import PriceSeries
from tests.builders import signal
from tests.evaluation.stored import store_prices
from tests.infra.fakes.market import BINANCE_NONE, COINBASE_NONE, DOWN, Routed
from tests.infra.fakes.server import Say

AT = datetime(2024, 6, 5, 12, 2, 30, tzinfo=UTC)
BARS = PriceSeries(
    symbol="BTC/USDT",
    venue="",
    times_ms=[round(AT.timestamp() * 1000) - 150_000 + n * 300_000 for n in range(3)],
    opens=[100.0, 101.0, 102.0],
    highs=[103.0] * 3,
    lows=[99.0] * 3,
    closes=[102.0] * 3,
    volumes=[1.0] * 3,
)


def bot(**fields: Any) -> BotDefinition:
    return BotDefinition(**{"name": "b", "kind": "paper", "map": {"BTC": "BTC/USDT"}, **fields})


def order(intent: Literal["enter", "exit"], side: Side = "long", instrument: str = "BTC/USDT", **more: Any) -> Order:
    fields: dict[str, Any] = {"bot": "b", "reference": "e1", "signal": signal(), "reason": "", "at": AT, **more}
    return Order(intent=intent, side=side, instrument=instrument, **fields)


@pytest.mark.parametrize(
    ("coinbase", "binance", "given", "outcome", "price"),
    [
        ({"bid": "99.5", "ask": "100.5"}, None, order("enter"), "delivered", 100.5),
        ({"bid": "99.5", "ask": "100.5"}, None, order("exit"), "delivered", 99.5),
        ({"bid": "99.5", "ask": "100.5"}, None, order("enter", "short"), "delivered", 99.5),
        (COINBASE_NONE, {"bidPrice": "9.5", "askPrice": "10.5"}, order("exit", "short"), "delivered", 10.5),
        (COINBASE_NONE, BINANCE_NONE, order("enter"), "refused", None),
        (DOWN, BINANCE_NONE, order("exit"), "throttled", None),
        ({"bid": "0", "ask": "x"}, BINANCE_NONE, order("exit"), "throttled", None),
    ],
)
async def test_a_buyer_pays_the_ask_a_seller_gets_the_bid_and_an_exit_waits_for_a_price(
    coinbase: Any, binance: Any, given: Order, outcome: str, price: float | None
) -> None:
    says = [one if isinstance(one, Say) else Say(one or {}) for one in (coinbase, binance)]
    async with Routed({"/products/BTC-USD/ticker": says[0]}) as first, Routed({"symbol=BTCUSDT": says[1]}) as second:
        both = exchanges(coinbase=first.url, binance=second.url, timeout_s=5, correct="")
        paper = Paper(bot(fee_bps=20), ExchangePrices(both))
        result = await paper.perform(given)
        mark = await ExchangePrices(both).mark("BTC/USDT", AT, buys=(given.intent == "enter") == (given.side == "long"))
        assert mark == Mark(price, AT) if price else "coinbase" in str(mark)
        if outcome == "delivered":
            await paper.check()
        elif outcome == "refused":
            with pytest.raises(ConfigError, match=r"\[b\] map: BTC/USDT has no price \(coinbase"):
                await paper.check()
        else:  # an exchange that does not respond is no fault of the map: the bot waits
            with pytest.raises(TransientError, match="no price of BTC/USDT now"):
                await paper.check()
        await paper.close()
    assert (result.outcome, result.price) == (outcome, price), result
    assert result.fee == (0.002 if price else 0) and (result.wait_s > 0) == (outcome == "throttled")


async def test_imported_bars_fill_at_the_first_open_from_the_order_on() -> None:
    paper = Paper(bot(), BarPrices([BARS]))
    late = AT + timedelta(hours=1)
    results = [
        await paper.perform(one)
        for one in (
            order("enter"),
            order("enter", at=late),
            order("exit", at=late),
            order("enter", instrument="ETH/USDT"),
        )
    ]
    assert [(one.outcome, one.price) for one in results] == [
        ("delivered", 101.0), ("refused", None), ("throttled", None), ("refused", None),
    ]  # fmt: skip
    assert "no bar from 2024-06-05 13:02 UTC on: newsproof outcomes import" in results[1].reason
    with pytest.raises(ConfigError, match=r"\[b\] map: 'bitcoin' names no market"):
        Paper(bot(map={"BTC": "bitcoin"}), BarPrices([]))


async def test_invented_prices_fill_every_order_the_same_in_one_minute_and_only_outside_live_mode() -> None:
    paper = Paper(bot(prices="invented"), InventedPrices())
    await paper.check()
    first, second = [await paper.perform(order("enter")), await paper.perform(order("exit"))]
    assert first.outcome == second.outcome == "delivered" and first.price == second.price
    assert first.price is not None and 90 < first.price < 110
    later = await paper.perform(order("exit", at=AT + timedelta(minutes=1)))
    assert later.price != first.price
    with pytest.raises(ConfigError, match="prices: invented ones are for trying bots offline"):
        order_adapter(bot(prices="invented"), Settings(newsproof_mode="live"))


async def test_bars_are_those_of_the_imports_in_clickhouse_and_the_newest_is_the_mark(clickhouse: ClickHouse) -> None:
    await store_prices(clickhouse, 1, "csv:a.csv", BARS)
    prices = ImportedPrices(clickhouse)
    assert await prices.price("BTC/USDT", AT, buys=True) == 101.0
    assert await prices.mark("BTC/USDT", AT, buys=True) == Mark(100.0, AT - timedelta(seconds=150))
    assert "no prices of BTC/USDT on 2024-06-07" in str(
        await prices.mark("BTC/USDT", AT + timedelta(days=2), buys=True)
    )
    assert "newsproof outcomes import" in str(await prices.price("BTC/USDT", AT + timedelta(days=9), buys=True))
    for ask in (ImportedPrices(None).price, ImportedPrices(None).mark):
        assert "set CLICKHOUSE_URL" in str(await ask("BTC/USDT", AT, buys=True))


def test_the_profit_is_a_share_of_the_stake_after_the_fees_of_both_fills() -> None:
    def planned(id: str, intent: Any, side: Side, instrument: str, entry: str | None = None) -> Planned:
        return Planned(
            id=id, bot="b", adapter="paper", instrument=instrument, intent=intent, signal_id="s", revision=1, asset="A",
            reason="", planned_at=AT, valid_until=AT, mode="paper", side=side, entry=entry,
        )  # fmt: skip

    def settled(id: str, price: float | None, outcome: Any = "delivered") -> Settled:
        return Settled(delivery=id, bot="b", outcome=outcome, price=price, fee=0.001)

    records: list[DeliveryRecord] = [
        planned("e1", "enter", "long", "BTC/USDT"), settled("e1", 100.0),
        planned("e2", "enter", "short", "ETH/USDT"), settled("e2", 10.0),
        planned("e3", "enter", "long", "SOL/USDT"), settled("e3", None, "refused"),
        planned("e4", "enter", "long", "XRP/USDT"), settled("e4", 1.0),
        planned("x1", "exit", "long", "BTC/USDT", "e1"), settled("x1", None, "unknown"), settled("x1", 110.0),
    ]  # fmt: skip
    book = paper_book(records, "b", {"ETH/USDT": 8.0})
    assert [(one.entry, one.exited_at, one.exit_price) for one in book] == [
        ("e1", AT, 110.0), ("e2", None, 8.0), ("e4", None, None),
    ]  # fmt: skip
    # 110/100 - 1 - 0.1 % - 0.1 % of 1.1; then 20 % of a short without the fee of an exit that has not happened.
    assert [one.profit for one in book] == [pytest.approx(0.1 - 0.001 - 0.0011), pytest.approx(0.2 - 0.001), None]
    assert paper_book(records, "another") == []
