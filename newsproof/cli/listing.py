"""The commands by what they are for. A command's module is imported when the command is named, not before."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from functools import lru_cache
from importlib import import_module
from typing import Any

import typer
import typer.main
from typer.core import TyperGroup

from newsproof.app.invocation import OptionsAnywhere

LISTED: dict[str, dict[str, tuple[str, str]]] = {
    "Run": {
        "up": ("process", "Run the whole pipeline until Ctrl-C."),
        "demo": ("process", "Send 42 real news items through the pipeline."),
        "publish": ("publishing", "Publish news from a file or standard input."),
        "investigate": ("investigate", "Research a subject and write a brief."),
        "watch": ("watches", "Research a subject repeatedly."),
        "watches": ("watches", "List, pause, resume and end watches."),
        "listen": ("listening", "Poll news sources: feeds, exchanges, channels, sockets."),
        "web": ("web", "Serve the page and the HTTP API."),
        "worker": ("process", "Run one worker on configured servers."),
        "research-worker": ("process", "Run one worker for the research chat and investigations."),
        "sink": ("process", "Copy the log into ClickHouse."),
    },
    "Read": {
        "signals": ("read", "Show the latest revision of each signal."),
        "cases": ("read", "List all cases."),
        "case": ("read", "Show the timeline of a case, or replay the case."),
        "report": ("report", "Show cost, latency, confidence and calibration."),
        "sql": ("tables", "Query ClickHouse."),
        "export": ("tables", "Export tables and views as Parquet files."),
    },
    "Measure": {
        "backtest": ("backtest", "Replay recorded cases with a changed prompt or model."),
        "shadow": ("model", "Run a candidate prompt on live traffic."),
        "outcomes": ("outcomes", "Import prices and compute returns after signals."),
        "labels": ("labels", "Import and report which claims were true or false."),
        "model-server": ("model", "Serve a scripted model without a key, to test prompts."),
    },
    "Operate": {
        "doctor": ("operate", "Check what is configured, reachable and missing."),
        "sources": ("listening", "List, check, add and mute news sources."),
        "audit": ("read", "Check the log for lost, duplicate and forged records."),
        "budget": ("operate", "Show what was spent, what is left and what was denied."),
        "dlq": ("operate", "List, show and resend dead letters."),
        "config": ("describe", "Show every setting, its value and its origin."),
        "prompts": ("describe", "List all versions of all prompts."),
        "tables": ("tables_check", "Check the tables of entities, assets and outlets."),
        "memory": ("memory", "Rebuild the memory of past cases."),
        "topics": ("operate", "Create and describe the Kafka topics."),
        "schemas": ("describe", "Export the public contracts as JSON Schema."),
        "kafka": ("operate", "Print the login of the embedded Kafka."),
        "analyst": ("tables", "Print the ClickHouse login for BI tools."),
    },
}
"""Heading of the help → command → (module of ``newsproof.cli.commands``, what it does: on one line of 80 columns)."""
MODULE_OF = {name: module for commands in LISTED.values() for name, (module, _) in commands.items()}


@lru_cache
def commands_of(module: str) -> MutableMapping[str, Any]:
    """Return the commands that a module of ``newsproof.cli.commands`` registers, by name."""
    part = typer.Typer(add_completion=False, rich_markup_mode=None)
    import_module(f"newsproof.cli.commands.{module}").register(part)
    return typer.main.get_group(part).commands


class _Listed(MutableMapping[str, Any]):
    """The commands of ``LISTED`` after the given ones; each is made when it is looked up."""

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


class ListGroup(TyperGroup):
    """A group that lists without a command: `dlq --json` is short for `dlq list --json`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put ``list`` before options, or nothing at all."""
        if not args or (args[0].startswith("-") and args[0] not in ("-h", "--help")):
            args = ["list", *args]
        return super().parse_args(ctx, args)


class ListedGroup(OptionsAnywhere):
    """The command line: commands under headings, none loaded but the one that runs."""

    def __init__(self, *, commands: Any = None, **more: Any) -> None:
        super().__init__(**more)
        self.commands = _Listed(commands or {})

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the headings with their commands."""
        widest = max(map(len, MODULE_OF))
        for heading, commands in LISTED.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(widest), short) for name, (_, short) in commands.items()])
