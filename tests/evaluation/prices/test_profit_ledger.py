"""A ledger of ten trades that was worked out by hand: stakes of 1,000 of an account of 10,000, fees of 10 basis points, slippage
of 10, a stop at a loss of 5 %, a latency of a minute.

A purchase at E is filled at 1.001 E, a sale at X at 0.999 X. With R = X / E:

- bought: the stake comes back as V = 1000 R 0.999/1.001 = 998.001998 R; profit = V - 1000 - 0.001 (1000 + V) = 0.999 V - 1001
- sold short: it is bought back for V = 1000 R 1.001/0.999 = 1002.002002 R; profit = 1000 - V - 0.001 (1000 + V) = 999 - 1.001 V
"""

from __future__ import annotations

import statistics
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest

from evaluation.prices.ledger import Ledger, ledger_of, mark_trade
from evaluation.prices.trades import Order, TradeRules
from schemas.prices import PriceSeries
from tests.evaluation.prices.price_paths import DAY, MINUTE, START, bars, order

RULES = TradeRules(latency_s=60, fee_bps=Decimal(10), slippage_bps=Decimal(10), stop=Decimal("0.05"))
HOUR = 60 * MINUTE
FLAT = [100.0] * 13
"""Bars from 00:00 to 01:00, of which the first lies before the entry at 00:05."""

# What, day, hour, opens from the bar before the entry on, lows or highs, withdrawn, profit, fees, exit after minutes and reason.
TRADES: list[tuple[Any, ...]] = [
    # R 1.10: V 1097.802198; 0.999 V = 1096.704396; - 1001 = 95.704396. Fees 0.001 * 2097.80.
    ("t0", 1, 0, 0, [7.0, *FLAT[1:], 110.0], {}, None, "95.70", "2.10", 60, "horizon"),
    # R 1.02, at the same time: V 1017.962038; 1016.944076 - 1001.
    ("t1", 1, 0, 0, [7.0, *FLAT[1:], 102.0], {}, None, "15.94", "2.02", 60, "horizon"),
    # Short, R 0.90: V 901.801802; 999 - 902.703604.
    ("t2", -1, 1, 0, [7.0, *FLAT[1:], 90.0], {}, None, "96.30", "1.90", 60, "horizon"),
    # R 1: the costs alone. V 998.001998; 997.003996 - 1001 = -3.996004.
    ("t3", 1, 1, 5, [7.0, *FLAT[1:], 100.0], {}, None, "-4.00", "2.00", 60, "horizon"),
    # The fourth bar touches 0.95 * 100.1 = 95.095; filled at 0.999 of it: V = 950 * 0.999 = 949.05; 948.10095 - 1001.
    ("t4", 1, 2, 0, [7.0, *FLAT[1:], 120.0], {"lows": {4: 94.0}}, None, "-52.90", "1.95", 15, "stop"),
    # The third bar opens at 90, beyond the stop: filled at 90, R 0.90: V 898.201798; 897.303596 - 1001.
    ("t5", 1, 2, 5, [7.0, 100.0, 100.0, 90.0, *FLAT[4:], 120.0], {}, None, "-103.70", "1.90", 10, "stop_gap"),
    # Short, stopped at 1.05 * 99.9, filled at 1.001 of it: V = 1050 * 1.001 = 1051.05; 999 - 1052.10105.
    ("t6", -1, 3, 0, [7.0, *FLAT[1:], 80.0], {"highs": {2: 106.0}}, None, "-53.10", "2.05", 5, "stop"),
    # Denied at 00:25, which is acted on at 00:26: sold at the open of 00:30, R 0.98: V 978.041958; 977.063916 - 1001.
    ("t7", 1, 5, 0, [7.0, *[100.0] * 5, 98.0, *FLAT[7:], 120.0], {}, 25, "-23.94", "1.98", 25, "withdrawn"),
    # Short, R 1.03: V 1032.062062; 999 - 1033.094124.
    ("t8", -1, 5, 10, [7.0, *FLAT[1:], 103.0], {}, None, "-34.09", "2.03", 60, "horizon"),
    # The bar of the entry itself falls through the stop after its open.
    ("t9", 1, 5, 5, [7.0, *FLAT[1:], 120.0], {"lows": {1: 90.0}}, None, "-52.90", "1.95", 0, "stop"),
]


def made(row: tuple[Any, ...]) -> tuple[Order, PriceSeries]:
    name, side, day, hour, opens, touched, withdrawn, *_ = row
    at = START + day * DAY + hour * HOUR
    reached = {way: [by.get(n, price) for n, price in enumerate(opens)] for way, by in touched.items()}
    series = bars(opens, at_ms=at, symbol=f"{name.upper()}/USDT", **reached)
    fields = {"case_id": name, "asset": name.upper(), "side": side, "emitted_at_ms": at + 3 * MINUTE + 30_000}
    return order(**fields, withdrawn_at_ms=withdrawn if withdrawn is None else at + withdrawn * MINUTE), series


@pytest.fixture(scope="module")
def ledger() -> Ledger:
    signals = [made(row) for row in TRADES]
    markets = {series.symbol: series for _, series in signals}
    found = (mark_trade(one, markets.get(f"{one.asset}/USDT"), RULES, now_ms=START + 30 * DAY) for one, _ in signals)
    return ledger_of(found, capital=Decimal(10_000))


@pytest.mark.parametrize("row", TRADES, ids=[row[0] for row in TRADES])
def test_each_trade_is_as_worked_out(ledger: Ledger, row: tuple[Any, ...]) -> None:
    (trade,) = (t for t in ledger.trades if t.order.case_id == row[0])
    *_, profit, fees, minutes, reason = row
    assert (str(trade.profit), str(trade.fees)) == (profit, fees)
    assert (trade.exit_at_ms - trade.entry_at_ms, trade.exit_reason) == (minutes * MINUTE, reason)
    assert trade.entry_at_ms == trade.order.emitted_at_ms + 90_000


def test_the_account_is_as_worked_out(ledger: Ledger) -> None:
    # 95.70 + 15.94; + 96.30 - 4.00; - 52.90 - 103.70; - 53.10; a day without a trade; - 23.94 - 52.90 - 34.09.
    held = ["10111.64", "10203.94", "10047.34", "9994.24", "9994.24", "9883.31"]
    assert [str(day.equity) for day in ledger.equity] == held
    assert [day.day.day for day in ledger.equity] == [2, 3, 4, 5, 6, 7]


def test_the_figures_are_as_worked_out(ledger: Ledger) -> None:
    figures = ledger.figures
    assert (figures.trades, str(figures.profit), str(figures.fees)) == (10, "-116.69", "19.88")
    assert str(figures.gross_profit) == "-96.81"
    assert str(figures.profit_per_trade) == "-11.67"
    assert figures.win_rate == pytest.approx(3 / 10)
    # From 10,111.64 + 96.30 = 10,207.94 after the second day's first trade down to the end.
    assert str(figures.max_drawdown) == "324.63"
    assert figures.max_drawdown_share == pytest.approx(324.63 / 10207.94)
    # Ten stakes in, and their V out: 9,873.023854.
    assert figures.turnover == pytest.approx(1.9873023854, abs=1e-9)
    # 355 minutes of a stake of 1,000, over 5 days and 11 hours; twice 1,000 on the first day.
    assert figures.exposure_mean == pytest.approx(355 * 0.1 / (5 * 1440 + 11 * 60))
    assert figures.exposure_max == pytest.approx(0.2)
    held = [10_000.0, *(float(day.equity) for day in ledger.equity)]
    returns = [b / a - 1 for a, b in pairwise(held)]
    sharpe = statistics.mean(returns) / statistics.stdev(returns)
    assert figures.sharpe == pytest.approx(sharpe * 365**0.5)
    assert figures.sharpe_error == pytest.approx(((1 + sharpe**2 / 2) / 6 * 365) ** 0.5)
    # Five days have an entry: too few for an interval.
    assert (figures.days, figures.blocks, figures.profit_low) == (6, 5, None)


def test_every_signal_is_traded_or_counted(ledger: Ledger) -> None:
    assert ledger.exits == {"horizon": 5, "stop": 3, "stop_gap": 1, "withdrawn": 1}
    assert ledger.reasons == {}
    refused = mark_trade(order(), None, RULES, now_ms=START)
    assert ledger_of([refused, refused], capital=Decimal(1)).reasons == {"no_symbol": 2}


def test_no_signal_is_no_profit_and_no_figure() -> None:
    empty = ledger_of((), capital=Decimal(1))
    assert (empty.trades, empty.equity, empty.figures.profit) == ((), (), Decimal(0))
    assert (empty.figures.win_rate, empty.figures.sharpe, empty.figures.profit_per_trade) == (None, None, None)
    assert (empty.figures.max_drawdown, empty.figures.exposure_max) == (Decimal(0), 0.0)


def test_an_account_that_is_lost_has_no_sharpe_ratio_and_a_fall_of_more_than_all() -> None:
    # Two stakes of 1,000 on an account of 100: borrowed, and the fall takes more than there was.
    series = bars([*[100.0] * 13, 50.0])
    two = [order(case_id=str(n)) for n in range(2)]
    found = [mark_trade(one, series, TradeRules(), now_ms=START + DAY) for one in two]
    lost = ledger_of(found, capital=Decimal(100))
    assert lost.figures.sharpe is None
    assert lost.figures.max_drawdown_share > 1
    assert lost.figures.exposure_max == pytest.approx(20)


def test_equity_is_marked_while_a_trade_is_open() -> None:
    # It falls by 40 % on the way and comes back: the end says nothing of it, the drawdown does.
    series = bars([100.0, 100.0, *[60.0] * 11, 100.0])
    rules = TradeRules(fee_bps=Decimal(0), slippage_bps=Decimal(0))
    found = ledger_of([mark_trade(order(), series, rules, now_ms=START + DAY)], capital=Decimal(1000))
    assert (str(found.figures.profit), str(found.figures.max_drawdown)) == ("0.00", "400.00")
    # Neither a gain nor a loss.
    assert found.figures.win_rate is None
