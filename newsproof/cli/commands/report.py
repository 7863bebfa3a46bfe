"""The command for the standard report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from newsproof.app.invocation import of, run


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command()(report)


def report(
    ctx: typer.Context,
    run_id: Annotated[str, typer.Option("--run", help="Run id of a backtest, or `live`.")] = "live",
    html: Annotated[
        Path | None,
        typer.Option("--html", help="Also write the report with its charts to this file, which is self-contained."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the metrics as one JSON object instead of tables.")
    ] = False,
) -> None:
    """Show cost, latency, confidence and calibration from ClickHouse, with small charts."""
    from evaluation.prices.study_report import study_section
    from evaluation.statistics import share_interval
    from newsproof.report.command import report_on

    run(report_on(of(ctx), run_id=run_id, html=html, as_json=as_json, study=study_section, interval=share_interval))
