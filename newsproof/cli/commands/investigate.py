"""``newsproof investigate``: researches a subject, follows the investigation and prints its brief."""

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
            help='Subject to research, such as "Monitor DeepSeek\'s latest developments".', show_default=False
        ),
    ] = None,
    as_of: Annotated[
        str | None,
        typer.Option(
            help="Ignore everything published later: a day or a time (UTC). Default: now; offline, the corpus's "
            "last day.",
            metavar="WHEN",
        ),
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(min=1, max=5, help="Maximum search rounds. Default: INVESTIGATION_MAX_ROUNDS.")
    ] = None,
    searches: Annotated[
        int | None, typer.Option(min=1, max=50, help="Maximum searches. Default: INVESTIGATION_MAX_SEARCHES.")
    ] = None,
    follow: Annotated[
        str | None, typer.Option(help="Follow a running investigation, or show a finished one.", metavar="ID")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object on the last line instead of the brief.")
    ] = False,
) -> None:
    """Research a subject: search in rounds, verify each claim by quotes, and write a brief with references.

    Uses the pipeline that runs on the data directory. Otherwise it starts one and stops it at the end.
    """
    from newsproof.cli.investigate import Wanted
    from newsproof.cli.investigate import investigate as look_into

    wanted = Wanted(subject=subject, as_of=as_of, rounds=rounds, searches=searches, follow=follow)
    raise typer.Exit(run(look_into(of(ctx), wanted, as_json=as_json)))
