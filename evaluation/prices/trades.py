"""One trade from one signal and the bars of its market. Pure: times, prices and rules in, a trade or a reason out.

The price at a time is that of ``infra.market.outcomes.returns``: the open of the first bar that opens then or later.
Money is exact: prices become decimals as they are written, and a profit is rounded once, to the cent (half to even).
:func:`bars_of` is the one definition of where a trade begins and ends: ``backtest compare`` and ``pnl`` share it.
"""

from __future__ import annotations

from bisect import bisect_left
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Literal

import msgspec

from infra.market.outcomes.markets import DOLLARS, ENTRY_WITHIN_S
from infra.market.outcomes.returns import EXIT_WITHIN, Within, first_bar_from
from schemas.prices import DropReason, PriceSeries

LATENCY_S = 30.0
"""Seconds from the signal, or its withdrawal, to the order."""
FEE_BPS = Decimal(5)
SLIPPAGE_BPS = Decimal(5)
TRADE_COST = float(2 * (FEE_BPS + SLIPPAGE_BPS)) / 1e4
"""What both fills of a trade cost, as a share of its value."""
CENT = Decimal("0.01")
Side = Literal[1, -1]
Sizing = Literal["fixed", "confidence"]
ExitReason = Literal["horizon", "withdrawn", "stop", "stop_gap", "halted", "ended"]
"""Why a trade ended when it did. ``horizon``: its time was over. ``withdrawn``: its signal was. ``stop``: it was touched.
``stop_gap``: the price opened beyond the stop. ``halted``: nobody could leave in time, so it left at the first open after the
halt. ``ended``: the market never opened again; it is valued at the last close, which nobody may have got.
"""
NoTradeReason = Literal[
    "withdrawn_before",
    "no_stake",
    "no_symbol",
    "other_currency",
    "no_price",
    "gap",
    "halted",
    "horizon_open",
    "no_path",
    "no_exit",
]
"""Why a signal has no trade. ``withdrawn_before``: its withdrawal was knowable at the entry. ``no_stake``: its stake is below
a cent. ``no_symbol``: no bars of its market. ``other_currency``: the market is not quoted in dollars. ``no_price``: its
bars end before or begin after the entry. ``gap``: bars on both sides of the entry, none near enough. ``halted``: the market
had stopped, so that nobody could enter. ``horizon_open``: it is not over yet. ``no_path``: a stop was asked for, and the bars
have no highs and lows. ``no_exit``: it was entered, and the bars that are known do not reach to its end.
"""


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """A signal to buy (``side`` 1) or to sell short (-1). Times are milliseconds since 1970.

    ``emitted_at_ms``: when a trader had it. ``withdrawn_at_ms``: when its denial or correction was knowable, None: never.
    """

    case_id: str
    asset: str
    side: Side
    confidence: float
    horizon_s: int
    emitted_at_ms: int
    withdrawn_at_ms: int | None = None
    symbol: str = ""
    venue: str = ""


class TradeRules(msgspec.Struct, frozen=True, kw_only=True):
    """How signals are traded.

    ``latency_s``: from the signal (or its withdrawal) to the order. ``fee_bps``: of the value of each fill. ``slippage_bps``:
    by which each fill is worse than the price. ``stake``: dollars a trade; with ``sizing`` confidence times the confidence.
    ``hold_s``: seconds for every trade, None: each signal's own horizon. ``stop``: loss as a share of the entry's fill at
    which a trade is ended, None: never. ``within_s``: seconds by which a price may come late.
    """

    latency_s: float = LATENCY_S
    fee_bps: Decimal = FEE_BPS
    slippage_bps: Decimal = SLIPPAGE_BPS
    stake: Decimal = Decimal(1000)
    sizing: Sizing = "fixed"
    hold_s: int | None = None
    stop: Decimal | None = None
    within_s: float = ENTRY_WITHIN_S


class Trade(msgspec.Struct, frozen=True, kw_only=True):
    """A signal that was traded. Prices are fills, slippage included; ``fees`` of both fills and ``profit`` after them in dollars.

    ``first`` and ``last`` are the places of its bars in the series. A stop that was touched inside a bar has the opening
    time of that bar as its time.
    """

    order: Order
    symbol: str
    venue: str
    entry_at_ms: int
    entry_price: Decimal
    quantity: Decimal
    stake: Decimal
    exit_at_ms: int
    exit_price: Decimal
    exit_reason: ExitReason
    fees: Decimal
    profit: Decimal
    first: int
    last: int

    @property
    def profit_share(self) -> float:
        """The profit as a share of the stake."""
        return float(self.profit / self.stake)


class NoTrade(msgspec.Struct, frozen=True, kw_only=True):
    """A signal without a trade, and why."""

    order: Order
    reason: NoTradeReason


def trade_of(
    order: Order, series: PriceSeries | None, rules: TradeRules, *, now_ms: int, within_s: Within | None = None
) -> Trade | NoTrade:
    """Trade one signal by the bars of its market (None: there are none). A trade that ends after ``now_ms`` is still open.
    ``within_s``: as :func:`bars_of`."""
    if series is None:
        return NoTrade(order=order, reason="no_symbol")
    stake = rules.stake * (_exact(order.confidence) if rules.sizing == "confidence" else 1)
    stake = stake.quantize(CENT, ROUND_HALF_EVEN)
    if not stake:
        return NoTrade(order=order, reason="no_stake")
    if series.symbol.partition("/")[2].partition(":")[0] not in DOLLARS:
        return NoTrade(order=order, reason="other_currency")
    bars = bars_of(order, series, rules, now_ms, within_s)
    if isinstance(bars, str):
        return NoTrade(order=order, reason=bars)
    first, last, price, reason = bars
    entry = _fill(_exact(series.opens[first]), order.side, rules)
    leave = _fill(price, -order.side, rules)
    quantity = stake / entry
    fees = quantity * (entry + leave) * rules.fee_bps / 10_000
    return Trade(
        order=order,
        symbol=series.symbol,
        venue=series.venue,
        entry_at_ms=series.times_ms[first],
        entry_price=entry,
        quantity=quantity,
        stake=stake,
        exit_at_ms=series.times_ms[last],
        exit_price=leave,
        exit_reason=reason,
        fees=fees.quantize(CENT, ROUND_HALF_EVEN),
        profit=(order.side * quantity * (leave - entry) - fees).quantize(CENT, ROUND_HALF_EVEN),
        first=first,
        last=last,
    )


def _exact(number: float) -> Decimal:
    return Decimal(repr(float(number)))


def _fill(price: Decimal, side: int, rules: TradeRules) -> Decimal:
    """Return the price that a buyer (side 1) pays or a seller (-1) gets: worse by the slippage."""
    return price * (10_000 + side * rules.slippage_bps) / 10_000


def bars_of(
    order: Order, series: PriceSeries, rules: TradeRules, now_ms: int, within_s: Within | None = None
) -> tuple[int, int, Decimal, ExitReason] | NoTradeReason:
    """Return the bars of entry and exit, the exit's price before slippage and its reason; or why there is no trade.

    ``within_s``: by how much the entry's bar may be late, in place of the rules'.
    """
    latency_ms, withdrawn_ms = round(rules.latency_s * 1000), order.withdrawn_at_ms
    first = first_bar_from(series, order.emitted_at_ms + latency_ms, within_s or rules.within_s, now_ms)
    if not isinstance(first, int):
        return first
    entry_ms, hold_s = series.times_ms[first], rules.hold_s or order.horizon_s
    end_ms = entry_ms + hold_s * 1000
    reason: ExitReason = "horizon"
    if withdrawn_ms is not None and withdrawn_ms <= entry_ms:
        return "withdrawn_before"
    if withdrawn_ms is not None and withdrawn_ms + latency_ms < end_ms:
        end_ms, reason = withdrawn_ms + latency_ms, "withdrawn"
    if rules.stop is not None and not (series.lows if order.side == 1 else series.highs):
        return "no_path"
    # What ended early would be counted and what goes on would not: without a price of their own end, neither is.
    own = first_bar_from(series, entry_ms + hold_s * 1000, max(ENTRY_WITHIN_S, hold_s * EXIT_WITHIN), now_ms)
    if isinstance(own, str) and own != "halted":
        return "horizon_open" if own == "horizon_open" else "no_exit"
    stopped = _stopped(order, series, rules, first, end_ms) if rules.stop is not None else None
    if stopped is not None:
        return first, *stopped
    last: int | DropReason = own
    if reason == "withdrawn":
        last = first_bar_from(series, end_ms, max(ENTRY_WITHIN_S, hold_s * EXIT_WITHIN), now_ms)
    if isinstance(last, int):
        return first, last, _exact(series.opens[last]), reason
    if last == "halted":
        return _after_halt(series, first, end_ms)
    return "horizon_open" if last == "horizon_open" else "no_exit"


def _after_halt(series: PriceSeries, first: int, end_ms: int) -> tuple[int, int, Decimal, ExitReason]:
    after = bisect_left(series.times_ms, end_ms)
    if after < len(series.times_ms):
        return first, after, _exact(series.opens[after]), "halted"
    last = after - 1
    return first, last, _exact(series.closes[last] if series.closes else series.opens[last]), "ended"


def _stopped(
    order: Order, series: PriceSeries, rules: TradeRules, first: int, end_ms: int
) -> tuple[int, Decimal, ExitReason] | None:
    """Return the bar that touched the stop and the price it filled at, looking at bars that open before ``end_ms``.

    Inside a bar nobody knows what came first, so a touch always counts. A bar that opens beyond the stop fills at its
    open, which is worse than the stop.
    """
    assert rules.stop is not None
    worst = series.lows if order.side == 1 else series.highs
    level = _fill(_exact(series.opens[first]), order.side, rules) * (1 - order.side * rules.stop)
    limit = float(level)
    for bar in range(first, bisect_left(series.times_ms, end_ms)):
        if (series.opens[bar] - limit) * order.side <= 0:
            return bar, _exact(series.opens[bar]), "stop_gap"
        if (worst[bar] - limit) * order.side <= 0:
            return bar, level, "stop"
    return None
