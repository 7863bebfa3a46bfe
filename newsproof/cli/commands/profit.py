"""Commands that ask prices what a run's signals were worth: ``backtest pnl`` and ``backtest study``, mounted by the group ``backtest``."""

from __future__ import annotations

import re
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from newsproof.app.invocation import READS_ONLY, of, run

Run = Annotated[
    str, typer.Argument(metavar="RUN", help="Run id, or `live` for the recorded judgements.", show_default=False)
]
Repeat = Annotated[int, typer.Option(min=0, help="Repeat to use, counted from 0, if the run has several.")]
Seed = Annotated[int, typer.Option(min=0, help="Random seed.")]
_HOLD = re.compile(r"([1-9][0-9]{0,5})(s|m|h|d)")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


class Size(StrEnum):
    """How large a trade is."""

    fixed = "fixed"
    confidence = "confidence"


class Dimension(StrEnum):
    """What an event study groups by."""

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
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as one line of JSON.")] = False,
) -> None:
    """Compute what a run's signals would have earned after costs, from imported prices. See docs/profit.md."""
    from evaluation.prices.profit_report import show_profit
    from evaluation.prices.trades import TradeRules

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
    as_json: Annotated[bool, typer.Option("--json", help="Print the study as one line of JSON.")] = False,
) -> None:
    """Show price moves from one hour before to one day after each signal, minus the market's move.

    See docs/profit.md.
    """
    from evaluation.prices.study_report import show_study

    chosen = [one.value for one in by or Dimension]
    run(
        show_study(of(ctx), run_id, by=chosen, directed=not undirected, repeat=repeat, seed=seed, as_json=as_json),
        interrupted=READS_ONLY,
    )


def _seconds(text: str) -> int:
    from schemas.errors import ConfigError

    match = _HOLD.fullmatch(text)
    if match is None:
        raise ConfigError(f"--hold {text!r:.40}: write a number and s, m, h or d, such as 30m, 4h or 1d")
    return int(match[1]) * _SECONDS[match[2]]
