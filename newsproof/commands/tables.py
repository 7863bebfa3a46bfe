"""The command for analysts: SQL on ClickHouse."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from newsproof.invocation import of, run


class Format(StrEnum):
    """How rows are printed."""

    table = "table"
    csv = "csv"
    json = "json"


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command(rich_help_panel="News in, signals out")(sql)


def sql(
    ctx: typer.Context,
    query: Annotated[str, typer.Argument(help='One statement, such as "SELECT * FROM v_cost_by_step".')],
    format: Annotated[Format, typer.Option(help="csv has a header line; json is one object a line.")] = Format.table,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
) -> None:
    """Ask ClickHouse. `newsproof sql "SHOW TABLES"` lists the tables and the v_* views."""
    from newsproof.sql import show

    run(show(of(ctx), query, Format.json if as_json else format))
