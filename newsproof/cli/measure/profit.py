"""``newsproof backtest pnl`` and ``study``: what a run's signals were worth, by imported prices."""

from __future__ import annotations

from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from newsproof.app.invocation import READS_ONLY, of, parse_span, run
from newsproof.cli.options import JsonReport, Seed, json_flag

Run = Annotated[
    str, typer.Argument(metavar="RUN", help="Run id, or `live` for the recorded judgements.", show_default=False)
]
Repeat = Annotated[int, typer.Option(min=0, help="Repeat to use, counted from 0, if the run has several.")]


class Size(StrEnum):
    """Size of a trade."""

    fixed = "fixed"
    confidence = "confidence"


class Dimension(StrEnum):
    """Field that an event study groups by."""

    verdict = "verdict"
    event_type = "event_type"
    source = "source"


def pnl(
    ctx: typer.Context,
    run_id: Run,
    latency: Annotated[float, typer.Option(min=0, help="Seconds from a signal or its retraction to the order.")] = 60.0,
    fee_bps: Annotated[
        float, typer.Option(min=0, max=1_000, help="Fee per fill, in basis points of its value.")
    ] = 10.0,
    slippage_bps: Annotated[float, typer.Option(min=0, max=1_000, help="Slippage per fill, in basis points.")] = 5.0,
    stake: Annotated[float, typer.Option(min=0.01, help="Stake per trade, in USD.")] = 1_000.0,
    capital: Annotated[
        float, typer.Option(min=0.01, help="Account balance before the first trade, in USD.")
    ] = 10_000.0,
    size: Annotated[
        Size, typer.Option(help="fixed: the stake. confidence: the stake multiplied by the confidence.")
    ] = Size.fixed,
    hold: Annotated[
        str | None,
        typer.Option(help="Hold every trade for this time (30m, 4h, 1d). Default: each signal's own horizon."),
    ] = None,
    stop: Annotated[
        float | None,
        typer.Option(
            min=0.0001, max=0.9999, help="Close a trade at this loss, as a share (0.05 = 5 %). Default: no stop."
        ),
    ] = None,
    trades: Annotated[
        Path | None, typer.Option(help="Write every buy and sell signal and its result to this CSV file.")
    ] = None,
    repeat: Repeat = 0,
    seed: Seed = 0,
    as_json: JsonReport = False,
) -> None:
    """Compute what a run's signals would have earned after costs, from imported prices. See docs/profit.md."""
    from evaluation.profit.report import show_profit
    from evaluation.profit.trades import TradeRules

    rules = TradeRules(
        latency_s=latency,
        fee_bps=Decimal(str(fee_bps)),
        slippage_bps=Decimal(str(slippage_bps)),
        stake=Decimal(str(stake)),
        sizing=size.value,
        hold_s=None if hold is None else _seconds(hold),
        stop=None if stop is None else Decimal(str(stop)),
    )
    work = show_profit(
        of(ctx), run_id, rules, capital=Decimal(str(capital)), repeat=repeat, seed=seed, trades=trades, as_json=as_json
    )
    run(work, interrupted=READS_ONLY)


def study(
    ctx: typer.Context,
    run_id: Run,
    by: Annotated[
        list[Dimension] | None, typer.Option(help="Group by this field. Repeatable. Default: each of them in turn.")
    ] = None,
    undirected: Annotated[
        bool, typer.Option("--undirected", help="Use the asset's raw returns, not returns in the claim's direction.")
    ] = False,
    repeat: Repeat = 0,
    seed: Seed = 0,
    as_json: Annotated[bool, json_flag("Print the study as one line of JSON.")] = False,
) -> None:
    """Show price moves from one hour before to one day after each signal, minus the market's move.

    See docs/profit.md.
    """
    from evaluation.profit.study_report import show_study

    chosen = [one.value for one in by or Dimension]
    run(
        show_study(of(ctx), run_id, by=chosen, directed=not undirected, repeat=repeat, seed=seed, as_json=as_json),
        interrupted=READS_ONLY,
    )


def _seconds(text: str) -> int:
    from schemas.errors import ConfigError

    if (seconds := parse_span(text)) is None:
        raise ConfigError(f"--hold {text!r:.40}: write a number and s, m, h or d, such as 30m, 4h or 1d")
    return seconds
