"""Terminal output of ``backtest pnl`` and ``backtest study``: tables, JSON, and the trades as CSV."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import msgspec

from evaluation.looks import look_at
from evaluation.prices.figures import SeriesFigures, require_library, series_figures
from evaluation.prices.profit_report import ProfitReport, TradeRow, figure_text, profit_of
from evaluation.prices.study_report import (
    TITLES,
    StudyReport,
    counts_in_words,
    study_report,
    study_sheets,
)
from evaluation.prices.trades import TradeRules
from newsproof.app.data_access import database
from newsproof.app.invocation import Invocation
from newsproof.app.sheet import UNWRAPPED, json_line, say_result
from newsproof.app.sheet import figures_table as table
from newsproof.report.run_name import run_name
from schemas.errors import ConfigError
from schemas.printable import counted, printable_line

MAX_TRADES = 20
"""Trades in a printed table; --json and --trades have them all."""


async def show_profit(
    invocation: Invocation,
    run_id: str,
    rules: TradeRules,
    *,
    capital: Decimal,
    repeat: int,
    seed: int,
    trades: Path | None,
    figures: bool,
    as_json: bool,
) -> None:
    """Print the report; write every signal's row to the CSV file ``trades``. ``figures``: with those of the library.

    Raises:
        ConfigError: no such run, no prices, the library is not installed, or the file cannot be written.
    """
    if figures:
        require_library()
    async with database(invocation, admin=True) as tables:
        report = await profit_of(tables, run_id, rules, capital=capital, repeat=repeat, seed=seed)
        await look_at(tables, [run_id], {"pnl": rules, "repeat": repeat, "capital": capital}, report.figures)
        name = await run_name(tables, run_id)
    if figures:
        report = msgspec.structs.replace(report, series=series_figures(report.equity, capital))
    if trades is not None:
        _write(trades, report.trades)
    if as_json:
        json_line(report)
    else:
        _print_profit(report, name)


def _print_profit(report: ProfitReport, name: str) -> None:
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


def _print_series(found: SeriesFigures) -> None:
    shares = ("annual_return", "annual_volatility", "max_drawdown", "value_at_risk", "conditional_value_at_risk")
    rows = [
        (name.replace("_", " "), figure_text(value, ".2%" if name in shares else ".2f"))
        for name, value in msgspec.structs.asdict(found).items()
        if name != "days"
    ]
    table(
        ("", "figure"),
        rows,
        title=f"Daily returns of the account, {counted(found.days, 'day')} (empyrical)",
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


async def show_study(
    invocation: Invocation, run_id: str, *, by: Sequence[str], directed: bool, repeat: int, seed: int, as_json: bool
) -> None:
    """Print the study.

    Raises:
        ConfigError: no such run, or no prices.
    """
    async with database(invocation, admin=True) as tables:
        report = await study_report(tables, run_id, by=by, directed=directed, repeat=repeat, seed=seed)
        await look_at(tables, [run_id], {"study": by, "directed": directed, "repeat": repeat}, report.study)
        name = await run_name(tables, run_id)
    if as_json:
        json_line(report)
    else:
        _print_study(report, name)


def _print_study(report: StudyReport, name: str) -> None:
    for said in counts_in_words(report, name):
        say_result(said)
    for sheet in (one for returns in TITLES for one in study_sheets(report.study, returns)):
        sheet.print(piped=UNWRAPPED)
    for warning in report.warnings:
        say_result(f"! {warning}")
