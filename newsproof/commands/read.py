"""Commands that read the log: signals, cases, case, audit."""

from __future__ import annotations

from typing import Annotated

import typer

from newsproof import exits
from newsproof.invocation import json_line, of, run

HERE = "News in, signals out"
AsJson = Annotated[bool, typer.Option("--json", help="JSON on standard output, one document a line.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    app.command(rich_help_panel=HERE)(signals)
    app.command(rich_help_panel=HERE)(cases)
    app.command(rich_help_panel=HERE)(case)
    app.command(rich_help_panel=HERE)(audit)


def signals(
    ctx: typer.Context,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for further ones, for ever.")] = False,
    asset: Annotated[list[str] | None, typer.Option(help="Only this asset, such as BTC; may be repeated.")] = None,
    min_confidence: Annotated[float, typer.Option(min=0.0, max=1.0, help="Only with at least this confidence.")] = 0.0,
    status: Annotated[
        list[str] | None,
        typer.Option(help="Only of this status (verified, degraded, preliminary_only, retracted, …); may be repeated."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the newest revision of every signal."""
    from newsproof.reading import Filter, show_signals

    wanted = Filter(assets=tuple(asset or ()), min_confidence=min_confidence, statuses=tuple(status or ()))
    run(show_signals(of(ctx), wanted, follow=follow, as_json=as_json))


def cases(
    ctx: typer.Context,
    status: Annotated[str | None, typer.Option(help="open, signal, dropped or failed.")] = None,
    as_json: AsJson = False,
) -> None:
    """List all cases in short."""
    from newsproof.reading import show_cases

    run(show_cases(of(ctx), status=status, as_json=as_json))


def case(
    ctx: typer.Context,
    id: Annotated[str, typer.Argument(metavar="ID", help="Case id, the start of one, or the news's own id (h09).")],
    as_json: AsJson = False,
    events: Annotated[bool, typer.Option("--events", help="The raw records instead, a line of JSON each.")] = False,
) -> None:
    """Tell a case's whole story: every event and thought, the evidence, the confidence, every call and its cost."""
    from newsproof.reading import show_case

    run(show_case(of(ctx), id, events=events, as_json=as_json))


def audit(ctx: typer.Context, as_json: AsJson = False) -> None:
    """Read the whole log and check its promises. Exit status 1 unless nothing is lost and nothing is there twice."""
    from newsproof.reading import audited

    report = run(audited(of(ctx)))
    if as_json:
        json_line(report)
    else:
        from newsproof.report import print_audit

        print_audit(report)
    raise typer.Exit(exits.OK if report.clean else exits.FINDING)
