"""``newsproof investigate``: have a subject looked into, follow it, and print its brief."""

from __future__ import annotations

from typing import Annotated

import typer

from newsproof.app.invocation import of, run


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command()(investigate)


def investigate(
    ctx: typer.Context,
    subject: Annotated[
        str | None,
        typer.Argument(
            help='What to look into, such as "Monitor DeepSeek\'s latest developments".', show_default=False
        ),
    ] = None,
    as_of: Annotated[
        str | None,
        typer.Option(
            help="Use nothing later: a day or a time (UTC). Default: now; offline: the corpus's last day.",
            metavar="WHEN",
        ),
    ] = None,
    rounds: Annotated[int | None, typer.Option(min=1, max=5, help="At most so many rounds of searches.")] = None,
    searches: Annotated[int | None, typer.Option(min=1, max=50, help="At most so many searches.")] = None,
    follow: Annotated[
        str | None, typer.Option(help="Follow an investigation that runs, or show one that has ended.", metavar="ID")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one last line of JSON instead of the brief.")] = False,
) -> None:
    """Have a subject looked into: searches in rounds, each claim judged by quotes, a brief with references.

    Uses the pipeline that runs on the data directory, else one of its own for the time.
    """
    from newsproof.cli.investigate import Wanted
    from newsproof.cli.investigate import investigate as look_into

    wanted = Wanted(subject=subject, as_of=as_of, rounds=rounds, searches=searches, follow=follow)
    raise typer.Exit(run(look_into(of(ctx), wanted, as_json=as_json)))
