"""The command line: the global options. Its commands: :mod:`newsproof.cli.listing`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from newsproof.app import terminal
from newsproof.app.invocation import Invocation, of, run_command_line
from newsproof.app.version import VERSION
from newsproof.cli.listing import ListedGroup

app = typer.Typer(
    cls=ListedGroup,
    name="newsproof",
    help="Turn raw crypto news into search-verified trading signals, on Kafka.",
    epilog="--data-dir, --env-file and --debug work before and after the command. Exit status: 0 success · 1 a "
    "check failed · 2 wrong usage or settings · 3 server unreachable · 130 interrupted. Settings: "
    "`newsproof config`.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(VERSION)
        raise typer.Exit


@app.callback()
def newsproof(
    ctx: typer.Context,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            help="Directory for the embedded servers' data. Default: NEWSPROOF_DATA_DIR, or .data.", show_default=False
        ),
    ] = None,
    env_file: Annotated[
        Path | None,
        typer.Option(help="Read settings from this file instead of .env.", show_default=False),
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Print the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Turn raw crypto news into search-verified trading signals, on Kafka."""
    invocation = of(ctx)
    invocation.data_dir, invocation.env_file = data_dir, env_file
    Invocation.debug = debug
    terminal.GIVEN.data_dir, terminal.GIVEN.env_file = data_dir, env_file


@app.command(hidden=True)
def reference() -> None:
    """Print docs/cli.md."""
    from newsproof.cli.reference import cli_page

    typer.echo(cli_page(app), nl=False)


def main() -> None:
    """Run the command line and exit with a status of ``newsproof.app.exits``."""
    run_command_line(app, "newsproof")
