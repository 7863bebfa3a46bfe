"""The profit and loss of a run: its signals traded by stored bars. ``newsproof backtest pnl`` prints it."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from decimal import Context, Decimal

import msgspec

from evaluation.prices.figures import SeriesFigures
from evaluation.prices.ledger import FEW_DAYS, DayEquity, Figures, Ledger, MarkedTrade, ledger_of, mark_trade
from evaluation.prices.run_signals import RunSignal, RunSignals, StoredPrices, read_signals
from evaluation.prices.trades import NoTrade, Order, Trade, TradeRules
from infra.clickhouse.client import ClickHouse
from schemas.printable import counted

_BEFORE_MS = 86_400_000
"""Bars before the first signal say how far apart a market's bars usually are. Those after are read to their end: whether a
market was halted or has ended shows only there."""
_SIDES = {"buy": 1, "sell": -1}
_DIGITS = Context(prec=12)


class TradeRow(msgspec.Struct, frozen=True, kw_only=True):
    """A signal to buy or sell and its trade. ``status``: ``traded``, or the reason why not; then only the signal's own fields are set.

    Prices are fills, slippage included, to 12 digits; money in dollars, times UTC.
    """

    case_id: str
    asset: str
    action: str
    confidence: float
    emitted_at: datetime
    status: str
    symbol: str | None = None
    venue: str | None = None
    stake: Decimal | None = None
    quantity: Decimal | None = None
    entry_at: datetime | None = None
    entry_price: Decimal | None = None
    exit_at: datetime | None = None
    exit_price: Decimal | None = None
    exit_reason: str | None = None
    fees: Decimal | None = None
    profit: Decimal | None = None
    profit_share: float | None = None


class ProfitReport(msgspec.Struct, frozen=True, kw_only=True):
    """The profit of a run's signals under ``rules``. ``observed`` signals say neither buy nor sell.

    ``unfinished``: cases of the run that have no signal to trade, by status. ``exits`` and ``not_traded`` count by reason.
    ``on_synthetic_prices``: trades entered at an invented price. ``equity``: the account at the end of each UTC day.
    ``series``: figures of its daily returns, where the library's were asked for.
    """

    run_id: str
    rules: TradeRules
    capital: Decimal
    signals: int
    observed: int
    unfinished: dict[str, int]
    figures: Figures
    exits: dict[str, int]
    not_traded: dict[str, int]
    on_synthetic_prices: int
    warnings: tuple[str, ...]
    verdict: str
    equity: tuple[DayEquity, ...]
    trades: tuple[TradeRow, ...]
    series: SeriesFigures | None = None


async def profit_of(
    tables: ClickHouse, run_id: str, rules: TradeRules, *, capital: Decimal, repeat: int = 0, seed: int = 0
) -> ProfitReport:
    """Trade the signals of a run (``live``: the recorded ones) by the bars of all imports that stand.

    Raises:
        ConfigError: there is no such run or repeat, or no prices.
    """
    prices = await StoredPrices.opened(tables)
    read = await read_signals(tables, run_id, repeat)
    acted = [signal for signal in read.signals if signal.action in _SIDES]
    now_ms, marked, synthetic = int(time.time() * 1000), list[MarkedTrade | NoTrade](), 0
    async for markets, signals in prices.by_market(acted, before_ms=_BEFORE_MS):
        for signal in signals:
            series = markets.of(signal.judged)
            trade = mark_trade(_order(signal), series, rules, now_ms=now_ms, within_s=prices.within_s)
            marked.append(trade)
            if isinstance(trade, MarkedTrade) and series is not None and series.imports:
                synthetic += series.imports[trade.trade.first] in prices.synthetic
    ledger = ledger_of(marked, capital=capital, seed=seed)
    every: list[Trade | NoTrade] = [*ledger.trades, *ledger.not_traded]
    return ProfitReport(
        run_id=run_id,
        rules=rules,
        capital=capital,
        signals=len(read.signals),
        observed=len(read.signals) - len(acted),
        unfinished=read.unfinished,
        figures=ledger.figures,
        exits=ledger.exits,
        not_traded=ledger.reasons,
        on_synthetic_prices=synthetic,
        warnings=tuple(_warnings(ledger, read, synthetic)),
        verdict=_verdict(ledger.figures, capital),
        equity=ledger.equity,
        trades=tuple(sorted(map(_row, every), key=lambda row: (row.emitted_at, row.case_id))),
    )


def _order(signal: RunSignal) -> Order:
    return Order(
        case_id=signal.case_id,
        asset=signal.asset,
        side=1 if _SIDES[signal.action] > 0 else -1,
        confidence=signal.confidence,
        horizon_s=signal.horizon_s,
        emitted_at_ms=signal.from_ms,
        withdrawn_at_ms=signal.withdrawn_ms,
    )


def _row(trade: Trade | NoTrade) -> TradeRow:
    order = trade.order
    row = TradeRow(
        case_id=order.case_id,
        asset=order.asset,
        action="buy" if order.side == 1 else "sell",
        confidence=order.confidence,
        emitted_at=_time(order.emitted_at_ms),
        status="traded" if isinstance(trade, Trade) else trade.reason,
    )
    if isinstance(trade, NoTrade):
        return row
    return msgspec.structs.replace(
        row,
        symbol=trade.symbol,
        venue=trade.venue,
        stake=trade.stake,
        quantity=_DIGITS.plus(trade.quantity),
        entry_at=_time(trade.entry_at_ms),
        entry_price=_DIGITS.plus(trade.entry_price),
        exit_at=_time(trade.exit_at_ms),
        exit_price=_DIGITS.plus(trade.exit_price),
        exit_reason=trade.exit_reason,
        fees=trade.fees,
        profit=trade.profit,
        profit_share=round(trade.profit_share, 6),
    )


def _time(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, UTC)


def _warnings(ledger: Ledger, read: RunSignals, synthetic: int) -> list[str]:
    figures, reasons = ledger.figures, ledger.reasons
    warnings = []
    if synthetic:
        warnings.append(
            f"{counted(synthetic, 'trade')} on synthetic prices, which do not depend on the news: they only show that the computation works"
        )
    if read.unfinished:
        states = ", ".join(f"{n:,} {status}" for status, n in read.unfinished.items())
        warnings.append(f"cases of the run without a signal to trade: {states}; their profit is not counted")
    if left := reasons.get("no_exit", 0):
        warnings.append(
            f"{counted(left, 'trade')} without an exit price (no_exit) are not counted: import bars that reach their exits"
        )
    if ended := ledger.exits.get("ended", 0):
        warnings.append(
            f"{counted(ended, 'trade')} whose market ended (ended): valued at its last close, which a trader may not "
            "have got"
        )
    if figures.exposure_max > 1:
        warnings.append(
            f"up to {figures.exposure_max:.1f} times the capital was at stake at once: "
            "the excess is borrowed, and its interest is not deducted"
        )
    if figures.sharpe is not None and figures.days < FEW_DAYS:
        warnings.append(
            f"{figures.days} days: a Sharpe ratio of so few says little (standard error {figure_text(figures.sharpe_error)})"
        )
    return warnings


def _verdict(figures: Figures, capital: Decimal) -> str:
    if not figures.trades:
        return "nothing was traded"
    came = f"{figures.profit:+,.2f} on {capital:,.2f} dollars in {counted(figures.trades, 'trade')}, {figures.profit_per_trade:+,.2f} each"
    if figures.profit_low is None or figures.profit_high is None:
        return f"{came}; too few blocks of time ({figures.blocks}) to tell it from chance"
    band = f"95 % interval {figures.profit_low:+,.2f} … {figures.profit_high:+,.2f}"
    if figures.profit_low <= 0 <= figures.profit_high:
        return f"{came} ({band}): not distinguishable from zero"
    return f"{came} ({band}): a {'profit' if figures.profit_low > 0 else 'loss'}"


def figure_text(value: float | None, form: str = ".2f") -> str:
    """Return a figure as text, a dash for None."""
    return "–" if value is None else f"{value:{form}}"
