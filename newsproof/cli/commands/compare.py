"""The command that says whether two runs differ: ``backtest compare``, mounted by the group ``backtest``."""

from __future__ import annotations

from typing import Annotated

import typer

from newsproof.app.invocation import of, run
from newsproof.evaluation.compare.formats import ReportFormat


def compare(
    ctx: typer.Context,
    a: Annotated[str, typer.Argument(help="Run id to compare with, or `live`.", show_default=False)],
    b: Annotated[str, typer.Argument(help="Run id to judge, or `live`.", show_default=False)],
    format: Annotated[
        ReportFormat, typer.Option(help="json is one object; junit has a test case a metric and rule.")
    ] = (ReportFormat.table),
    fail_on: Annotated[
        list[str] | None,
        typer.Option(help='Exit with 100 when this holds, such as "brier>+0.01"; may be given several times.'),
    ] = None,
    differences: Annotated[
        int, typer.Option(min=0, max=1_000, help="How many of the largest to show with texts.")
    ] = 10,
    resamples: Annotated[int, typer.Option(min=200, max=100_000, help="Of the bootstrap.")] = 5_000,
    allow_code_change: Annotated[
        bool,
        typer.Option(
            "--allow-code-change", help="Compare with `live` although other code recorded it; the verdict says so."
        ),
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Of the bootstrap; the same one gives the same intervals.")] = 0,
) -> None:
    """Say whether run B judges differently from run A, and how sure that is; docs/verdict.md."""
    from newsproof.evaluation.compare.running import show_comparison

    work = show_comparison(
        of(ctx),
        a,
        b,
        format=format,
        fail_on=fail_on or (),
        differences=differences,
        seed=seed,
        resamples=resamples,
        allow_code_change=allow_code_change,
    )
    raise typer.Exit(run(work))
