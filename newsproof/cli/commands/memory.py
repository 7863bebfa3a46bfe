"""Commands of memory: what recall reads, made again from the log."""

from __future__ import annotations

from typing import Annotated

import typer

from newsproof.app.invocation import json_line, of, run

group = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Rebuild the memory of past cases from the log.")


def register(app: typer.Typer) -> None:
    """Add the group to the application."""
    app.add_typer(group, name="memory")


@group.callback()
def memory() -> None:
    """Rebuild the memory of past cases from the log."""


@group.command()
def rebuild(
    ctx: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as one line of JSON.")] = False,
) -> None:
    """Rebuild the table `memories` from the log.

    The new table replaces the old one in one step, so recall, workers and the sink keep running. It has the rows that the sink
    would write, so a second run changes nothing. The report counts the rows that did not change.

    After a change of EMBEDDING_PROVIDER, past cases have no vectors of the new provider and are not recalled by it.
    """
    from newsproof.cli.data.memory import print_rebuilt, rebuild_memory

    report = run(rebuild_memory(of(ctx)), interrupted="recall keeps using `memories`; repeat the command")
    json_line(report) if as_json else print_rebuilt(report)
