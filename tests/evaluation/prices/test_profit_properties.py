"""What holds of every ledger, whatever the prices: no look-ahead, no better fill than a trader gets, no cent that goes astray."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from evaluation.prices.ledger import ledger_of, mark_trade
from evaluation.prices.trades import Trade, TradeRules, trade_of
from schemas.prices import PriceSeries
from tests.evaluation.prices.price_paths import DAY, MINUTE, START, bars, order

PRICES = st.lists(st.floats(0.01, 1e5), min_size=20, max_size=40)
SHARES = st.decimals(0, 50, places=1)
RULES = st.builds(
    TradeRules,
    latency_s=st.sampled_from([0.0, 60.0, 600.0]),
    fee_bps=SHARES,
    slippage_bps=SHARES,
    stop=st.none() | st.decimals("0.01", "0.5", places=2),
)
ORDERS = st.builds(
    dict,
    side=st.sampled_from([1, -1]),
    horizon_s=st.sampled_from([300, 900, 3600]),
    withdrawn_at_ms=st.none() | st.integers(START, START + 100 * MINUTE),
)


def market(opens: list[float], wide: float) -> PriceSeries:
    return bars(opens, highs=[p * (1 + wide) for p in opens], lows=[p * (1 - wide) for p in opens])


def traded(given_order: dict[str, Any], series: PriceSeries, rules: TradeRules) -> Trade | None:
    found = trade_of(order(**given_order), series, rules, now_ms=START + DAY)
    return found if isinstance(found, Trade) else None


@given(PRICES, st.floats(0, 0.3), ORDERS, RULES)
def test_a_trade_sees_nothing_before_its_entry_and_nothing_after_its_exit(
    opens: list[float], wide: float, given_order: dict[str, Any], rules: TradeRules
) -> None:
    series = market(opens, wide)
    if (found := traded(given_order, series, rules)) is None:
        return
    left = found.last + (found.exit_reason == "stop")  # which needs the low of its bar
    other = market([*[7.0] * found.first, *opens[found.first : left + 1], *[7.0] * (len(opens) - left - 1)], wide)
    if found.exit_reason in ("horizon", "withdrawn"):
        # Of the bar of the exit the open alone is known.
        other = bars(other.opens, highs=[*other.highs[:left], 1e9], lows=[*other.lows[:left], 0.0])
    again = traded(given_order, other, rules)
    assert again is not None and (again.profit, again.exit_at_ms) == (found.profit, found.exit_at_ms)
    assert found.entry_at_ms >= found.order.emitted_at_ms + rules.latency_s * 1000


@given(PRICES, st.floats(0, 0.3), ORDERS, RULES)
def test_no_stop_fills_better_than_its_level(
    opens: list[float], wide: float, given_order: dict[str, Any], rules: TradeRules
) -> None:
    found = traded(given_order, market(opens, wide), rules)
    if found is None or rules.stop is None or not found.exit_reason.startswith("stop"):
        return
    # Slippage and fees come on top of the loss that was allowed; a cent is what rounding may take.
    assert found.profit <= -rules.stop * found.stake + Decimal("0.01")


@given(PRICES, RULES, st.lists(ORDERS, min_size=1, max_size=8))
def test_what_the_account_gains_is_the_sum_of_the_profits_to_the_cent(
    opens: list[float], rules: TradeRules, orders: list[dict[str, Any]]
) -> None:
    series = market(opens, 0.05)
    every = [order(case_id=str(n), **one) for n, one in enumerate(orders)]
    ledger = ledger_of((mark_trade(one, series, rules, now_ms=START + DAY) for one in every), capital=Decimal(1000))
    assert len(ledger.trades) + len(ledger.not_traded) == len(orders)
    if ledger.trades:
        assert ledger.equity[-1].equity == Decimal(1000) + sum(trade.profit for trade in ledger.trades)
        assert ledger.figures.profit == sum(trade.profit for trade in ledger.trades)
        assert ledger.figures.gross_profit == ledger.figures.profit + ledger.figures.fees


@given(PRICES, ORDERS)
def test_without_costs_and_stops_a_purchase_gains_what_a_short_sale_loses(
    opens: list[float], given_order: dict[str, Any]
) -> None:
    free = TradeRules(fee_bps=Decimal(0), slippage_bps=Decimal(0))
    both = [traded(given_order | {"side": side}, bars(opens), free) for side in (1, -1)]
    if both[0] is not None and both[1] is not None:
        assert both[0].profit == -both[1].profit
