"""The command line: the global options, and the commands under their headings.

A command's module is imported when the command is named, not before.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.main

from newsproof.app import terminal
from newsproof.app.invocation import Invocation, OptionsAnywhere, of, run_command_line
from newsproof.app.version import VERSION

LISTED: dict[str, dict[str, tuple[str, str]]] = {
    "Run": {
        "up": ("run.up", "Run the whole pipeline until Ctrl-C."),
        "demo": ("run.demo", "Send 42 real news items through the pipeline."),
        "publish": ("run.publish", "Publish news from a file or standard input."),
        "verify": ("run.publish", "Check a claim: who supports it, and who denies it."),
        "investigate": ("run.investigate", "Research a subject and write a brief."),
        "watch": ("run.investigate", "Research a subject repeatedly."),
        "watches": ("run.investigate", "List, pause, resume and end watches."),
        "listen": ("run.listen", "Poll news sources: feeds, exchanges, channels, sockets."),
        "bots": ("run.bots", "Run bots that act on signals, and halt them."),
        "web": ("run.up", "Serve the page and the HTTP API."),
        "mcp": ("run.up", "Serve an AI agent over standard input and output."),
        "worker": ("run.up", "Run one worker on configured servers."),
        "research-worker": ("run.up", "Run one worker for the research chat and investigations."),
        "sink": ("run.up", "Copy the log into ClickHouse."),
    },
    "Read": {
        "signals": ("read.signals", "Show the latest revision of each signal."),
        "cases": ("read.signals", "List all cases."),
        "case": ("read.case", "Show the timeline of a case, or replay the case."),
        "report": ("read.tables", "Show cost, latency, confidence and calibration."),
        "sql": ("read.tables", "Query ClickHouse."),
        "export": ("read.export", "Export tables, views and signals as files."),
    },
    "Measure": {
        "backtest": ("measure.backtest", "Replay recorded cases with a changed prompt or model."),
        "shadow": ("measure.backtest", "Run a candidate prompt on live traffic."),
        "outcomes": ("measure.outcomes", "Import prices and compute returns after signals."),
        "labels": ("measure.labels", "Import and report which claims were true or false."),
        "calibration": ("measure.calibration", "Fit and show how often each confidence level came true."),
        "model-server": ("run.up", "Serve a scripted model without a key, to test prompts."),
    },
    "Operate": {
        "doctor": ("operate.doctor", "Check what is configured, reachable and missing."),
        "sources": ("operate.sources", "List, check, add, remove and mute news sources."),
        "audit": ("operate.log", "Check the log for lost, duplicate and forged records."),
        "record": ("operate.record", "Publish, verify and prove a record of all signals."),
        "budget": ("operate.log", "Show what was spent, what is left and what was denied."),
        "dlq": ("operate.log", "List, show and requeue dead letters."),
        "config": ("operate.describe", "Show every setting, its value and its origin."),
        "prompts": ("operate.describe", "List every version of every prompt."),
        "tables": ("operate.describe", "Check the tables of entities, assets and outlets."),
        "memory": ("operate.record", "Rebuild the memory of past cases."),
        "topics": ("operate.log", "Create and describe the Kafka topics."),
        "schemas": ("operate.describe", "Export the public contracts as JSON Schema."),
        "kafka": ("operate.describe", "Print the login of the embedded Kafka."),
        "analyst": ("operate.describe", "Print the ClickHouse login for BI tools."),
    },
}
"""Heading of the help → command → (module of ``newsproof.cli``, its purpose on one line of 80 columns)."""
MODULE_OF = {name: module for listed in LISTED.values() for name, (module, _) in listed.items()}


@lru_cache
def commands_of(module: str) -> MutableMapping[str, Any]:
    """Return the commands of a module of ``newsproof.cli``, by name."""
    return typer.main.get_group(import_module(f"newsproof.cli.{module}").app).commands


class _LazyCommands(MutableMapping[str, Any]):
    """The commands of ``LISTED`` after the given ones. Each is created when it is looked up."""

    def __init__(self, given: MutableMapping[str, Any]) -> None:
        self._made = dict(given)

    def __getitem__(self, name: str) -> Any:
        return self._made[name] if name in self._made else commands_of(MODULE_OF[name])[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._made[name] = command

    def __delitem__(self, name: str) -> None:
        del self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*MODULE_OF, *self._made)))

    def __len__(self) -> int:
        return len(list(iter(self)))


class ListedGroup(OptionsAnywhere):
    """The command line: commands under headings. Only the one that runs is loaded."""

    def __init__(self, *, commands: Any = None, **more: Any) -> None:
        super().__init__(**more)
        self.commands = _LazyCommands(commands or {})

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the headings with their commands."""
        widest = max(map(len, MODULE_OF))
        for heading, listed in LISTED.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(widest), short) for name, (_, short) in listed.items()])


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


def _print_version(wanted: bool) -> None:
    if wanted:
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
        Path | None, typer.Option(help="Read settings from this file instead of .env.", show_default=False)
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Print the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
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
    typer.echo(cli_page(), nl=False)


def main() -> None:
    """Run the command line and exit with a status of ``newsproof.app.exits``."""
    run_command_line(app, terminal.program_name())


# The page that lists all commands

WIDTH = 100
CLI = """\
# The command line

Generated by `newsproof reference`. In a checkout, run `./run COMMAND` instead of `newsproof COMMAND`.
Results go to standard output, everything else to standard error.

Commands that read use the configured servers. Without any, they use the servers that `up` or `demo --keep` runs
on the data directory; otherwise they start embedded servers for as long as the command runs. If the data directory
has no log and you did not name one, they read the log that `demo` left."""


def cli_page() -> str:
    """Return the text of docs/cli.md."""
    return reference_page(app, "newsproof", CLI)


def reference_page(app: typer.Typer, name: str, opening: str) -> str:
    """Return the page of the command line ``name``: the opening, the exit statuses and the help of each command."""
    from newsproof.app import exits
    from newsproof.app.sheet import Sheet

    lines = [
        opening,
        "",
        "## Exit status",
        "",
        Sheet(("status", "meaning"), list(exits.MEANINGS.items())).markdown(),
    ]
    for path, text in _commands(typer.main.get_command(app), name):
        lines += ["", f"## `{path}`", "", "```text", text, "```"]
    return "\n".join(lines) + "\n"


def _commands(command: Any, path: str, parent: Any = None) -> Iterator[tuple[str, str]]:
    # By hand, because the page must not depend on the width of the terminal.
    settings = {**command.context_settings, "terminal_width": WIDTH, "max_content_width": WIDTH}
    name = path if parent is None else path.rsplit(" ", 1)[-1]
    context = command.context_class(command, info_name=name, parent=parent, **settings)
    yield path, "\n".join(line.rstrip() for line in command.get_help(context).splitlines()).strip()
    for name, child in getattr(command, "commands", {}).items():
        if not child.hidden:
            yield from _commands(child, f"{path} {name}", context)
