"""``newsproof backtest compare``, ``gate``, ``power``, ``pnl`` and ``study``: differences between runs, and profit."""

from __future__ import annotations

from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from newsproof.app.invocation import READS_ONLY, of, run, span_of
from newsproof.app.sheet import say_result
from newsproof.cli.options import JsonLastLine, JsonReport, Seed, argument, json_flag, option


class ReportFormat(StrEnum):
    """Output format of a comparison."""

    table = "table"
    json = "json"
    md = "md"
    html = "html"


A = Annotated[str, argument("Baseline: a run id or `live`.", show_default=False)]
B = Annotated[str, argument("Candidate: a run id or `live`.", show_default=False)]
Primary = Annotated[
    str | None,
    option(
        "Primary metric, tested on its own: profit@24h, profit@7d, hit_rate@1h, brier@4h …, or profit (each "
        "signal's own horizon). Default: the one that run B declared, else profit@24h."
    ),
]
Cap = Annotated[
    float | None, option("Maximum gain or loss of one case, as a share. Default: PROFIT_CAP.", min=0.0001, max=10.0)
]
Cost = Annotated[
    float, option("Cost of one trade, entry and exit together, in basis points of its value.", min=0, max=1_000)
]
Latency = Annotated[float, option("Seconds from a signal or its retraction to the order.", min=0)]
Format = Annotated[ReportFormat, option("json: one object. html: one file. md: for a pull request.")]
Draws = Annotated[int, option("Number of random sign flips per test.", min=199, max=99_999)]
AllowCodeChange = Annotated[
    bool, option("Compare with `live` even if other code recorded it. The verdict says so.", "--allow-code-change")
]


def compare(
    ctx: typer.Context,
    a: A,
    b: B,
    format: Format = ReportFormat.table,
    differences: Annotated[
        int, option("Number of largest differences to show with their texts.", min=0, max=1_000)
    ] = 10,
    primary: Primary = None,
    cap: Cap = None,
    trade_cost: Cost = 20.0,
    latency: Latency = 30.0,
    allow_code_change: AllowCodeChange = False,
    draws: Draws = 9_999,
    seed: Seed = 0,
) -> None:
    """Test whether run B judges differently from run A.

    The report says how certain each difference is. See docs/verdict.md.
    """
    from evaluation.compare.compare_runs import print_comparison, read_comparison

    how = scoring(ctx, primary, cap, trade_cost, draws, seed)
    given: dict[str, Any] = {"latency_s": latency, "how": how, "allow_code_change": allow_code_change}
    found = run(read_comparison(of(ctx), a, b, differences=differences, **given), interrupted=READS_ONLY)
    print_comparison(found, format)


def gate(
    ctx: typer.Context,
    a: A,
    b: B,
    margin: Annotated[
        list[str] | None,
        option(
            "Largest acceptable loss: a number for the primary metric, or tail=0.03, truth_errors=0.05, "
            "truth_brier=0.02, action_rate=0.1, delay=60000 (milliseconds a case) or profit_delayed=0.005. Repeatable. "
            "Default: these, and profit=0.005.",
            metavar="[METRIC=]NUMBER",
        ),
    ] = None,
    format: Format = ReportFormat.table,
    primary: Primary = None,
    cap: Cap = None,
    trade_cost: Cost = 20.0,
    latency: Latency = 30.0,
    allow_code_change: AllowCodeChange = False,
    draws: Draws = 9_999,
    seed: Seed = 0,
) -> None:
    """Decide for a CI job whether run B may replace run A.

    Compares profit, tail, truth, coverage and delay.

    Exit status 0 only if the data rules out a loss above each margin, 100 if B loses, 101 without enough evidence.
    """
    from evaluation.compare.compare_runs import gate_status, parse_margins, print_comparison, read_comparison

    margins = parse_margins(margin or ())
    how = scoring(ctx, primary, cap, trade_cost, draws, seed)
    given: dict[str, Any] = {"latency_s": latency, "how": how, "allow_code_change": allow_code_change}
    found = run(read_comparison(of(ctx), a, b, **given), interrupted=READS_ONLY)
    status, why = gate_status(found, margins)
    if format == ReportFormat.table:
        lines = (*(f"! {warning}" for warning in found.warnings), f"Verdict: {found.verdict}.")
        for line in (*lines, *(f"Gate {one}." for one in why)):
            say_result(line)
    else:
        print_comparison(found, format)
    raise typer.Exit(status)


def power(
    ctx: typer.Context,
    a: A,
    b: B,
    difference: Annotated[
        list[str] | None, option("METRIC=DIFFERENCE to detect, such as profit=0.002. Repeatable.")
    ] = None,
    as_json: JsonLastLine = False,
    primary: Primary = None,
    cap: Cap = None,
    trade_cost: Cost = 20.0,
    latency: Latency = 30.0,
    draws: Draws = 9_999,
    seed: Seed = 0,
) -> None:
    """Show which differences this sample can detect.

    Also shows how many days of news a given difference needs.
    """
    from evaluation.compare.compare_runs import parse_differences, power_of, read_comparison
    from newsproof.cli.measure.run_output import show_power

    wanted = parse_differences(difference or ())
    how = scoring(ctx, primary, cap, trade_cost, draws, seed)
    given: dict[str, Any] = {"latency_s": latency, "how": how, "allow_code_change": True}
    found = run(read_comparison(of(ctx), a, b, differences=0, record=False, **given), interrupted=READS_ONLY)
    show_power(found, power_of(found, wanted), as_json=as_json)


def scoring(
    ctx: typer.Context, primary: str | None, cap: float | None, trade_cost: float, draws: int, seed: int
) -> Any:
    """Return the :class:`Scoring` for these options and the settings. ``trade_cost`` is in basis points."""
    from evaluation.compare.metrics import parse_primary
    from evaluation.compare.terms import Scoring

    chosen = parse_primary(primary) if primary else ""
    cap = of(ctx).settings().profit_cap if cap is None else cap
    return Scoring(primary=chosen, cap=cap, trade_cost=trade_cost / 1e4, seed=seed, draws=draws)


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


def pnl(
    ctx: typer.Context,
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
    """
    from evaluation.prices.trades import TradeRules
    from newsproof.cli.measure.price_output import show_profit

    rules = TradeRules(
        latency_s=latency,
        fee_bps=Decimal(str(fee_bps)),
        slippage_bps=Decimal(str(slippage_bps)),
        stake=Decimal(str(stake)),
        sizing=size.value,
        hold_s=None if hold is None else span_of("--hold", hold),
        stop=None if stop is None else Decimal(str(stop)),
    )
    how: dict[str, Any] = {"capital": Decimal(str(capital)), "repeat": repeat, "seed": seed, "figures": figures}
    work = show_profit(of(ctx), run_id, rules, **how, trades=trades, as_json=as_json)
    run(work, interrupted=READS_ONLY)


def study(
    ctx: typer.Context,
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
    """
    from newsproof.cli.measure.price_output import show_study

    chosen = [one.value for one in by or Dimension]
    run(
        show_study(of(ctx), run_id, by=chosen, directed=not undirected, repeat=repeat, seed=seed, as_json=as_json),
        interrupted=READS_ONLY,
    )
