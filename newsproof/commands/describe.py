"""Commands that describe: config, schemas."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from newsproof.invocation import json_line, of, say_result, table

HERE = "Operate"

schemas = typer.Typer(help="The public contracts as JSON Schema.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    app.command(rich_help_panel=HERE)(config)
    app.add_typer(schemas, name="schemas", rich_help_panel=HERE)
    app.command(hidden=True)(reference)


def config(
    ctx: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="JSON on standard output, one setting a line.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print docs/settings.md instead.")] = False,
) -> None:
    """Show every setting, its value and where that comes from; secrets are masked."""
    from newsproof.configuration import settings_page, views

    if markdown:
        typer.echo(settings_page(), nl=False)
        return
    invocation = of(ctx)
    given = frozenset({"newsproof_data_dir"} if invocation.data_dir is not None else ())
    shown = views(invocation.settings(), given=given)
    if as_json:
        for one in shown:
            json_line(one)
        return
    table(("setting", "value", "from", "meaning"), [(v.name, v.value, v.origin, v.description) for v in shown])


@schemas.command()
def export(
    directory: Annotated[
        Path | None, typer.Argument(help="Where to write a file for each; without it, one document is printed.")
    ] = None,
) -> None:
    """Write the JSON Schema of news, signals, the configuration snapshot and every event."""
    from newsproof.exports import json_schemas, write_schemas

    if directory is None:
        json_line(json_schemas())
    else:
        say_result("\n".join(map(str, write_schemas(directory))))


def reference() -> None:
    """Print docs/cli.md."""
    from newsproof.reference import cli_page

    typer.echo(cli_page(), nl=False)
