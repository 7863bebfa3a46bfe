"""``newsproof backtest pnl`` and ``study``: what a run's signals would have earned, and price moves around them."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec

from newsproof.app.data_access import database
from newsproof.app.invocation import Invocation, span_of
from newsproof.app.sheet import UNWRAPPED, json_line, say_result
from newsproof.app.sheet import figures_table as table
from newsproof.cli.options import JsonReport, Latency, Seed, argument, json_flag, option
from schemas.errors import ConfigError
from schemas.printable import counted, printable_line

if TYPE_CHECKING:
    from evaluation.prices.figures import SeriesFigures
    from evaluation.prices.profit_report import ProfitReport, TradeRow
    from evaluation.prices.study_report import StudyReport

MAX_TRADES = 20
"""Trades in a printed table; --json and --trades have them all."""
Run = Annotated[str, argument("Run id, or `live` for the recorded judgements.", metavar="RUN", show_default=False)]
Repeat = Annotated[int, option("Repeat to use, counted from 0, if the run has several.", min=0)]


class Size(StrEnum):
    """Size of a trade."""

    fixed = "fixed"
    confidence = "confidence"


class Dimension(StrEnum):
    """Field that an event study groups by."""

    verdict = "verdict"
    event_type = "event_type"
    source = "source"


async def pnl(
    invocation: Invocation,
    run_id: Run,
    latency: Latency = 30.0,
    fee_bps: Annotated[float, option("Fee per fill, in basis points of its value.", min=0, max=1_000)] = 5.0,
    slippage_bps: Annotated[float, option("Slippage per fill, in basis points.", min=0, max=1_000)] = 5.0,
    stake: Annotated[float, option("Stake per trade, in USD.", min=0.01)] = 1_000.0,
    capital: Annotated[float, option("Account balance before the first trade, in USD.", min=0.01)] = 10_000.0,
    size: Annotated[Size, option("fixed: the stake. confidence: the stake multiplied by the confidence.")] = Size.fixed,
    hold: Annotated[
        str | None, option("Hold every trade for this time (30m, 4h, 1d). Default: each signal's own horizon.")
    ] = None,
    stop: Annotated[
        float | None,
        option("Close a trade at this loss, as a share (0.05 = 5 %). Default: no stop.", min=0.0001, max=0.9999),
    ] = None,
    trades: Annotated[Path | None, option("Write every buy and sell signal and its result to this CSV file.")] = None,
    figures: Annotated[
        bool,
        option(
            "Also show Sortino, Calmar, omega, value at risk, CVaR and others. Needs the extra `figures`.", "--figures"
        ),
    ] = False,
    repeat: Repeat = 0,
    seed: Seed = 0,
    as_json: JsonReport = False,
) -> None:
    """Compute what a run's signals would have earned.

    Costs are deducted; prices come from imports. See docs/profit.md.

    Raises:
        ConfigError: no such run, no prices, the library is not installed, or the file cannot be written.
    """
    from evaluation.looks import look_at
    from evaluation.prices.figures import require_library, series_figures
    from evaluation.prices.profit_report import profit_of
    from evaluation.prices.trades import TradeRules
    from newsproof.report.run_name import run_name

    rules = TradeRules(
        latency_s=latency,
        fee_bps=Decimal(str(fee_bps)),
        slippage_bps=Decimal(str(slippage_bps)),
        stake=Decimal(str(stake)),
        sizing=size.value,
        hold_s=None if hold is None else span_of("--hold", hold),
        stop=None if stop is None else Decimal(str(stop)),
    )
    if figures:
        require_library()
    start = Decimal(str(capital))
    async with database(invocation, admin=True) as tables:
        report = await profit_of(tables, run_id, rules, capital=start, repeat=repeat, seed=seed)
        await look_at(tables, [run_id], {"pnl": rules, "repeat": repeat, "capital": start}, report.figures)
        name = await run_name(tables, run_id)
    if figures:
        report = msgspec.structs.replace(report, series=series_figures(report.equity, start))
    if trades is not None:
        _write(trades, report.trades)
    json_line(report) if as_json else _print_profit(report, name)


def _print_profit(report: ProfitReport, name: str) -> None:
    from evaluation.prices.profit_report import figure_text

    f = report.figures
    rows = [
        ("profit", f"{f.profit:+,.2f}", f"dollars after costs; {f.gross_profit:+,.2f} before {f.fees:,.2f} of fees"),
        ("win rate", figure_text(f.win_rate, ".1%"), "trades with a profit after costs, of those with a profit or a loss"),
        ("Sharpe", figure_text(f.sharpe), f"annualized (365 days), from {counted(f.days, 'day')}; standard error {figure_text(f.sharpe_error)}"),
        ("max drawdown", f"{f.max_drawdown:,.2f}", f"dollars; at most {f.max_drawdown_share:.2%} of the peak before it"),
        ("turnover", f"{f.turnover:.2f}", "value of all fills, as a multiple of the capital"),
        ("exposure", f"{f.exposure_mean:.2%}", f"open stakes as a share of the capital, mean over time; at most {f.exposure_max:.2%}"),
    ]  # fmt: skip
    acted = report.signals - report.observed
    title = (
        f"Profit and loss of {name}: {counted(report.signals, 'signal')}, {acted:,} to buy or sell, {f.trades:,} traded"
    )
    table(("", "figure", "what"), rows, title=title, right=("figure",))
    if report.series is not None:
        _print_series(report.series)
    for what, counts in (("Ended", report.exits), ("Not traded", report.not_traded)):
        if counts:
            say_result(f"{what}: {', '.join(f'{reason} {n:,}' for reason, n in counts.items())}")
    shown = [row for row in report.trades if row.status == "traded"][:MAX_TRADES]
    if shown:
        right = ("stake", "entry", "exit", "fees", "profit")
        columns = ("market", "action", "entered (UTC)", "stake", "entry", "left (UTC)", "exit", "why", "fees", "profit")
        table(columns, map(_cells, shown), title=f"The first {len(shown)} of {counted(f.trades, 'trade')}", right=right)
    for warning in report.warnings:
        say_result(f"! {warning}")
    say_result(f"\nVerdict: {report.verdict}.")


def _print_series(figures: SeriesFigures) -> None:
    from evaluation.prices.profit_report import figure_text

    shares = ("annual_return", "annual_volatility", "max_drawdown", "value_at_risk", "conditional_value_at_risk")
    rows = [
        (name.replace("_", " "), figure_text(value, ".2%" if name in shares else ".2f"))
        for name, value in msgspec.structs.asdict(figures).items()
        if name != "days"
    ]
    table(
        ("", "figure"),
        rows,
        title=f"Daily returns of the account, {counted(figures.days, 'day')} (empyrical)",
        right=("figure",),
    )


def _cells(row: TradeRow) -> tuple[str, ...]:
    def at(time: datetime | None) -> str:
        return "" if time is None else f"{time:%Y-%m-%d %H:%M}"

    def price(value: Decimal | None) -> str:
        return "" if value is None else f"{value:.6g}"

    return (
        *(row.symbol or "", row.action, at(row.entry_at), f"{row.stake:,.2f}", price(row.entry_price)),
        *(at(row.exit_at), price(row.exit_price), row.exit_reason or "", f"{row.fees:,.2f}", f"{row.profit:+,.2f}"),
    )


def _write(path: Path, rows: Sequence[TradeRow]) -> None:
    from evaluation.prices.profit_report import TradeRow

    try:
        with path.open("w", encoding="utf-8", newline="") as out:
            writer = csv.writer(out, lineterminator="\n")
            writer.writerow(TradeRow.__struct_fields__)
            writer.writerows([_plain(value) for value in msgspec.structs.astuple(row)] for row in rows)
    except OSError as exc:
        raise ConfigError(
            f"--trades {path}: {exc.strerror or exc}: name a file in a folder that can be written to"
        ) from exc


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Decimal):
        return f"{value:f}"
    return printable_line(value) if isinstance(value, str) else value


async def study(
    invocation: Invocation,
    run_id: Run,
    by: Annotated[
        list[Dimension] | None, option("Group by this field. Repeatable. Default: each of them in turn.")
    ] = None,
    undirected: Annotated[
        bool, option("Use the asset's raw returns, not returns in the claim's direction.", "--undirected")
    ] = False,
    repeat: Repeat = 0,
    seed: Seed = 0,
    as_json: Annotated[bool, json_flag("Print the study as one line of JSON.")] = False,
) -> None:
    """Show price moves around each signal.

    Returns run from one hour before a signal to one day after it, minus the market's move.

    See docs/profit.md.

    Raises:
        ConfigError: no such run, or no prices.
    """
    from evaluation.looks import look_at
    from evaluation.prices.study_report import study_report
    from newsproof.report.run_name import run_name

    chosen, directed = [dimension.value for dimension in by or Dimension], not undirected
    async with database(invocation, admin=True) as tables:
        report = await study_report(tables, run_id, by=chosen, directed=directed, repeat=repeat, seed=seed)
        await look_at(tables, [run_id], {"study": chosen, "directed": directed, "repeat": repeat}, report.study)
        name = await run_name(tables, run_id)
    json_line(report) if as_json else _print_study(report, name)


def _print_study(report: StudyReport, name: str) -> None:
    from evaluation.prices.study_report import TITLES, counts_in_words, study_sheets

    for sentence in counts_in_words(report, name):
        say_result(sentence)
    for returns in TITLES:
        for sheet in study_sheets(report.study, returns):
            sheet.print(piped=UNWRAPPED)
    for warning in report.warnings:
        say_result(f"! {warning}")
