"""Commands of memory: what recall reads, made again from the log."""

from __future__ import annotations

from typing import Annotated

import typer

from newsproof.app.invocation import json_line, of, run

group = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="What past cases are remembered by: a table made from the log."
)


def register(app: typer.Typer) -> None:
    """Add the group to the application."""
    app.add_typer(group, name="memory")


@group.callback()
def memory() -> None:
    """What past cases are remembered by: a table made from the log."""


@group.command()
def rebuild(
    ctx: typer.Context,
    max_cost: Annotated[
        float | None,
        typer.Option(
            "--max-cost",
            min=0.0,
            help="USD that may be paid for vectors of EMBEDDING_PROVIDER that no case has paid for; without it none is asked for.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The report as one line of JSON.")] = False,
) -> None:
    """Make the table `memories` again from the log, in one exchange: recall goes on, and so may workers and the sink.

    The rows are those that the sink makes; run again, it changes nothing. Says how many were as they were before.
    After EMBEDDING_PROVIDER was changed, past cases have no vector of it: --max-cost has them made.
    """
    from decimal import Decimal

    from newsproof.cli.data.memory import print_rebuilt, rebuild_memory

    work = rebuild_memory(of(ctx), max_cost=None if max_cost is None else Decimal(str(max_cost)))
    report = run(
        work,
        interrupted="recall goes on with `memories`, and vectors that were stored are kept; the same command goes on",
    )
    json_line(report) if as_json else print_rebuilt(report)
