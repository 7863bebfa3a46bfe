"""The commands about many candidates: ``backtest walk-forward`` and ``trials``, mounted by the group ``backtest``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from newsproof.app.invocation import READS_ONLY, of, run
from newsproof.cli.commands.compare import AllowCodeChange, Seed

Trial = Annotated[str, typer.Argument(metavar="TRIAL", help="Trial name from `backtest trials`.", show_default=False)]
Against = Annotated[str, typer.Option(help="Baseline: a run id or `live`.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object on the last line of standard output.")]


def walk_forward(
    ctx: typer.Context,
    trial: Trial,
    against: Against = "live",
    metric: Annotated[
        str, typer.Option(help="Metric for choosing and scoring: profit@5m, @1h, @4h or @24h.")
    ] = "profit@24h",
    seed: Seed = 0,
    allow_code_change: AllowCodeChange = False,
    as_json: AsJson = False,
) -> None:
    """For each block of days, choose the candidate that was best on earlier days, and report the total result."""
    from newsproof.evaluation.trials.show import show_walk_forward
    from newsproof.evaluation.watch.differences import parse_metric

    chosen = parse_metric(metric, of(ctx).settings().profit_cap)
    given: dict[str, Any] = {"metric": chosen, "seed": seed, "allow_code_change": allow_code_change}
    run(show_walk_forward(of(ctx), trial, against=against, as_json=as_json, **given), interrupted=READS_ONLY)


def trials(ctx: typer.Context, as_json: AsJson = False) -> None:
    """List the runs of all trials: their cases and candidates, and whether their results may support a claim."""
    from newsproof.evaluation.backtest.run.show_trials import show_trials

    run(show_trials(of(ctx), as_json=as_json))
