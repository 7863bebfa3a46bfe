"""Commands of memory: what recall reads, made again from the log."""

from __future__ import annotations

from typing import Annotated

import typer

from newsproof.invocation import json_line, of, run

group = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="What past cases are remembered by: a table made from the log."
)


def register(app: typer.Typer) -> None:
    """Add the group to the application."""
    app.add_typer(group, name="memory", rich_help_panel="Operate")


@group.callback()
def memory() -> None:
    """What past cases are remembered by: a table made from the log."""


@group.command()
def rebuild(
    ctx: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="The report as one line of JSON.")] = False,
) -> None:
    """Make the table `memories` again from the log, in one exchange: recall goes on, and so may workers and the sink.

    The rows are those that the sink makes; run again, it changes nothing. Says how many were as they were before.
    """
    from newsproof.memory import print_rebuilt, rebuild_memory

    report = run(rebuild_memory(of(ctx)))
    json_line(report) if as_json else print_rebuilt(report)
