"""The commands for analysts: SQL on ClickHouse, and how other tools get there."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from newsproof.app.invocation import json_line, of, run, say_result, table
from newsproof.cli.sql.output import Format


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    app.command()(sql)
    app.command()(analyst)
    app.command()(export)


def sql(
    ctx: typer.Context,
    query: Annotated[
        str | None,
        typer.Argument(
            help='Statements, such as "SELECT * FROM v_cost_by_step". Default: standard input, or a prompt on a '
            "terminal."
        ),
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="Read statements from a file. -: standard input.")
    ] = None,
    param: Annotated[
        list[str] | None,
        typer.Option(help="name=value for {name:Type} in a statement, bound by ClickHouse. Repeatable."),
    ] = None,
    format: Annotated[Format, typer.Option(help="csv: with a header line. json: one object per line.")] = Format.table,
    as_json: Annotated[bool, typer.Option("--json", help="Same as --format json.")] = False,
    admin: Annotated[
        bool, typer.Option("--admin", help="Connect with write access. Default: read-only analyst.")
    ] = False,
) -> None:
    """Query ClickHouse. `newsproof sql "SHOW TABLES"` lists the tables and the v_* views."""
    from newsproof.cli.sql.sql import prompt, run_script, script_of

    chosen, parameters = Format.json if as_json else format, _parameters(param or [])
    script = script_of(query, file)
    if script is None:
        prompt(of(ctx), chosen, parameters=parameters, admin=admin)
    else:
        run(run_script(of(ctx), script, chosen, parameters=parameters, admin=admin))


def _parameters(given: list[str]) -> dict[str, str]:
    found = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not equals or not name.isidentifier():
            raise typer.BadParameter(f"{one!r}: write name=value", param_hint="--param")
        found[name] = value
    return found


def analyst(
    ctx: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Print how BI tools, clickhouse-connect and curl connect to ClickHouse as the analyst user.

    Prints the password, too.
    """
    from newsproof.cli.access.analyst import reached_at

    found = run(reached_at(of(ctx)))
    if as_json:
        json_line(found)
        return
    table(("what", "value"), [(name, value) for name, value in found.items() if name != "curl"])
    say_result(found["curl"])


def export(
    ctx: typer.Context,
    parquet: Annotated[
        Path,
        typer.Option(help="Output directory, one file per table. Created if missing.", show_default=False),
    ],
    table_: Annotated[
        list[str] | None,
        typer.Option("--table", help="Only this table or view. Repeatable. Default: all.", metavar="NAME"),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Overwrite an earlier export in a non-empty directory.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was written as one JSON object.")] = False,
) -> None:
    """Export tables and v_* views as Parquet files, with a README.md that describes every column."""
    from newsproof.cli.data.parquet_export import export_parquet, print_export

    done = run(export_parquet(of(ctx), parquet, tables=table_ or (), overwrite=overwrite))
    json_line(done) if as_json else print_export(done, parquet)
