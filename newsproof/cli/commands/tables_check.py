"""The command that checks the editable tables: tables check."""

from __future__ import annotations

from typing import Annotated

import typer

from newsproof.app import exits
from newsproof.app.invocation import json_line, say_result, table

tables = typer.Typer(
    help="Check the editable tables in agents/tables: entities, assets, outlets and platforms.", no_args_is_help=True
)


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    app.add_typer(tables, name="tables")


@tables.callback()
def _tables() -> None:
    # With one command alone, typer would take away its name.
    pass


@tables.command()
def check(as_json: Annotated[bool, typer.Option("--json", help="Print JSON, one problem per line.")] = False) -> None:
    """Find duplicate rows, rows that can never match, and contradictions.

    Exit status 1 if there are any.
    """
    from agents.tables import load_tables, raw_tables
    from agents.tables.faults import faults_of, file_faults

    read = load_tables(demo=True)
    found = [*file_faults(raw_tables()), *faults_of(read)]
    if as_json:
        for fault in found:
            json_line(fault)
    elif found:
        table(("file", "row", "what is wrong", "what to do"), [(f.file, f.row, f.what, f.do) for f in found])
    else:
        entities = [e for e in read.entities if not e.synthetic]
        accounts = sum(len(e.accounts) for e in entities)
        say_result(
            f"No problems: {len(entities)} entities with {accounts} accounts, {len(read.assets)} assets, "
            f"{len(read.outlets)} outlets, {len(read.platforms)} platforms"
        )
    raise typer.Exit(exits.FINDING if found else exits.OK)
