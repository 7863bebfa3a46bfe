"""The ledger of a run: its trades, the account that they move, and the usual figures of both. Pure.

The account. Every trade has a stake of its own, so trades may overlap and none waits for another's money; nothing is
compounded. ``capital`` is what the account held before the first trade: gains and losses go to it, shares are of it. Where
the open stakes exceed it, the account was borrowing: ``exposure_max`` above 1 says so. Interest, funding and the cost of
borrowing what is sold short are not in it.

Equity is marked at the open of every bar of every open trade, in whole cents; after its market's last bar a trade keeps its
last mark. Costs of an exit are taken at the exit.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import msgspec
import numpy as np
import numpy.typing as npt

from evaluation.prices.trades import CENT, NoTrade, Order, Trade, TradeRules, trade_of
from evaluation.statistics.blocks import Estimate, mean_of
from infra.market.outcomes.returns import Within
from schemas.prices import PriceSeries

DAYS_A_YEAR = 365
"""Crypto markets never close."""
FEW_DAYS = 30
"""Below so many days a Sharpe ratio says little: its standard error is then above 3.5 a year."""
_DAY_MS = 86_400_000
Whole = npt.NDArray[np.int64]


class DayEquity(msgspec.Struct, frozen=True, kw_only=True):
    """The account in dollars at the end of a UTC day."""

    day: date
    equity: Decimal


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """Result of the trades. Money in dollars, shares from 0 to 1, None where nothing can be said.

    ``profit_low`` and ``profit_high``: 95 % interval of ``profit_per_trade``, drawing whole blocks of time (a UTC day, or twice
    the longest trade if that is more); None below six blocks, of which ``blocks`` says the number. ``win_rate``: trades with a profit after costs, among those with a profit or a loss. ``gross_profit``: before fees,
    after slippage. ``sharpe``: mean over standard deviation (n - 1) of the daily returns of the equity from the first day
    of a trade to the last, times the root of 365; no interest is taken off. None below two days, without variation, or
    where the account was empty. ``sharpe_error``: its standard error (Lo 2002, equation 9, for independent returns).
    ``max_drawdown``: largest fall of the marked equity from a peak; ``max_drawdown_share`` of that peak, and its own largest.
    ``turnover``: value of all fills by the capital. ``exposure_mean``, ``exposure_max``: open stakes by the capital, over the
    time from the first entry to the last exit.
    """

    trades: int
    profit: Decimal
    gross_profit: Decimal
    fees: Decimal
    profit_per_trade: Decimal | None
    profit_low: float | None
    profit_high: float | None
    blocks: int
    win_rate: float | None
    sharpe: float | None
    sharpe_error: float | None
    days: int
    max_drawdown: Decimal
    max_drawdown_share: float
    turnover: float
    exposure_mean: float
    exposure_max: float


class Ledger(msgspec.Struct, frozen=True, kw_only=True):
    """Trades in order of their entry, signals without one, the account by day, and the figures."""

    trades: tuple[Trade, ...]
    not_traded: tuple[NoTrade, ...]
    equity: tuple[DayEquity, ...]
    figures: Figures

    @property
    def reasons(self) -> dict[str, int]:
        """How many signals have no trade, by reason."""
        return dict(Counter(order.reason for order in self.not_traded).most_common())

    @property
    def exits(self) -> dict[str, int]:
        """How many trades ended for which reason."""
        return dict(Counter(trade.exit_reason for trade in self.trades).most_common())


class MarkedTrade(msgspec.Struct, frozen=True):
    """A trade, and by how many ``cents`` it changes the account at each of ``times`` (ms, rising)."""

    trade: Trade
    times: Whole
    cents: Whole


def mark_trade(
    order: Order, series: PriceSeries | None, rules: TradeRules, *, now_ms: int, within_s: Within | None = None
) -> MarkedTrade | NoTrade:
    """Trade one signal as :func:`trade_of` does, and mark it at each bar; its market's bars are not needed any more then."""
    trade = trade_of(order, series, rules, now_ms=now_ms, within_s=within_s)
    if isinstance(trade, NoTrade) or series is None:
        return trade if isinstance(trade, NoTrade) else NoTrade(order=order, reason="no_symbol")
    bars = slice(trade.first, trade.last + 1)
    opens = np.asarray(series.opens[bars], dtype=np.float64)
    entry, quantity = float(trade.entry_price), float(trade.quantity)
    fee = float(trade.fees) * entry / (entry + float(trade.exit_price))  # each fill pays by its own value
    value = np.rint((order.side * quantity * (opens - entry) - fee) * 100).astype(np.int64)
    value[-1] = _cents(trade.profit)
    return MarkedTrade(trade, np.asarray(series.times_ms[bars], dtype=np.int64), np.diff(value, prepend=0))


def ledger_of(marked: Iterable[MarkedTrade | NoTrade], *, capital: Decimal, seed: int = 0) -> Ledger:
    """Return the ledger of these trades and of the signals without one. ``capital`` (dollars) is above 0; ``seed`` draws the interval."""
    every = list(marked)
    made = sorted(
        (trade for trade in every if isinstance(trade, MarkedTrade)),
        key=lambda trade: (trade.trade.entry_at_ms, trade.trade.order.case_id),
    )
    trades = tuple(trade.trade for trade in made)
    times, cents = equity_curve(made, capital)
    equity = _by_day(times, cents)
    return Ledger(
        trades=trades,
        not_traded=tuple(trade for trade in every if isinstance(trade, NoTrade)),
        equity=equity,
        figures=_figures(trades, cents, equity, capital=capital, seed=seed),
    )


def equity_curve(trades: Sequence[MarkedTrade], capital: Decimal) -> tuple[Whole, Whole]:
    """Return the times (ms, rising) at which the account changes, from the first entry on, and its balance then, in cents."""
    if not trades:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    times, places = np.unique(np.concatenate([trade.times for trade in trades]), return_inverse=True)
    by_time = np.zeros(len(times), np.int64)
    np.add.at(by_time, places, np.concatenate([trade.cents for trade in trades]))
    return times, np.cumsum(by_time) + _cents(capital)


def _cents(amount: Decimal) -> int:
    return int(amount.quantize(CENT).scaleb(2))


def _by_day(times: Whole, cents: Whole) -> tuple[DayEquity, ...]:
    """Return the account at the end of each UTC day, days without a change too."""
    if not len(times):
        return ()
    first, last = int(times[0]) // _DAY_MS, int(times[-1]) // _DAY_MS
    ends = (np.arange(first, last + 1, dtype=np.int64) + 1) * _DAY_MS
    held = cents[np.searchsorted(times, ends, side="left") - 1]
    start = datetime.fromtimestamp(first * 86_400, UTC).date()
    return tuple(
        DayEquity(day=start + timedelta(days=n), equity=Decimal(int(c)).scaleb(-2)) for n, c in enumerate(held)
    )


def _figures(
    trades: Sequence[Trade], cents: Whole, equity: Sequence[DayEquity], *, capital: Decimal, seed: int
) -> Figures:
    profit = sum((t.profit for t in trades), Decimal(0))
    fees = sum((t.fees for t in trades), Decimal(0))
    between = _per_trade(trades, seed)
    sharpe, error, days = _sharpe([day.equity for day in equity], capital)
    fall, fall_share = _drawdown(cents, capital)
    exposure_mean, exposure_max = _exposure(trades, capital)
    won, lost = sum(t.profit > 0 for t in trades), sum(t.profit < 0 for t in trades)
    filled = sum((t.quantity * (t.entry_price + t.exit_price) for t in trades), Decimal(0))
    return Figures(
        trades=len(trades),
        profit=profit,
        gross_profit=profit + fees,
        fees=fees,
        profit_per_trade=(profit / len(trades)).quantize(CENT) if trades else None,
        profit_low=between.low if between else None,
        profit_high=between.high if between else None,
        blocks=between.blocks if between else 0,
        win_rate=won / (won + lost) if won + lost else None,
        sharpe=sharpe,
        sharpe_error=error,
        days=days,
        max_drawdown=fall,
        max_drawdown_share=fall_share,
        turnover=float(filled / capital),
        exposure_mean=exposure_mean,
        exposure_max=exposure_max,
    )


def _per_trade(trades: Sequence[Trade], seed: int) -> Estimate | None:
    # Trades of one time share the market's move, so blocks of time get random signs, never trades.
    if not trades:
        return None
    block_ms = max(_DAY_MS, 2 * max(t.exit_at_ms - t.entry_at_ms for t in trades))
    blocks = np.unique([t.entry_at_ms // block_ms for t in trades], return_inverse=True)[1].astype(np.intp)
    return mean_of(np.array([float(t.profit) for t in trades]), blocks, seed=seed)


def _sharpe(equity: Sequence[Decimal], capital: Decimal) -> tuple[float | None, float | None, int]:
    """Return the yearly ratio of daily returns, its standard error and the number of days."""
    held = np.array([float(capital), *map(float, equity)])
    days = len(equity)
    if days < 2 or (held <= 0).any():
        return None, None, days
    returns = np.diff(held) / held[:-1]
    spread = float(returns.std(ddof=1))
    if spread <= 1e-15:
        return None, None, days
    daily = float(returns.mean()) / spread
    error = math.sqrt((1 + daily**2 / 2) / days)
    return daily * math.sqrt(DAYS_A_YEAR), error * math.sqrt(DAYS_A_YEAR), days


def _drawdown(cents: Whole, capital: Decimal) -> tuple[Decimal, float]:
    held = np.concatenate([np.array([_cents(capital)], np.int64), cents])
    peaks = np.maximum.accumulate(held)
    falls = peaks - held
    return Decimal(int(falls.max())).scaleb(-2), float((falls / peaks).max())


def _exposure(trades: Sequence[Trade], capital: Decimal) -> tuple[float, float]:
    """Return the mean over time and the largest value of the open stakes, by the capital."""
    if not trades:
        return 0.0, 0.0
    steps = [(t.entry_at_ms, float(t.stake)) for t in trades] + [(t.exit_at_ms, -float(t.stake)) for t in trades]
    at, change = (np.array(column) for column in zip(*sorted(steps, key=lambda s: (s[0], s[1])), strict=True))
    held = np.cumsum(change)
    span = float(at[-1] - at[0])
    mean = float((held[:-1] * np.diff(at)).sum()) / span if span else 0.0
    return mean / float(capital), float(held.max()) / float(capital)
