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
    "Run it": {
        "up": ("process", "Run everything until Ctrl-C: servers, workers, the page."),
        "demo": ("process", "Send 42 real news items through the pipeline, and report."),
        "publish": ("publishing", "Put news in: JSON objects or lines of text."),
        "investigate": ("investigate", "Have a subject looked into, and get a brief."),
        "watch": ("watches", "Have a subject looked into again and again."),
        "watches": ("watches", "The watches: list, pause, resume, end."),
        "listen": ("listening", "Bring news in: feeds, exchanges, channels, sockets."),
        "web": ("web", "Serve the page and the HTTP API by themselves."),
        "worker": ("process", "One worker, against configured servers."),
        "research-worker": ("process", "One worker of the research chat and of investigations."),
        "sink": ("process", "Fill ClickHouse from the log."),
    },
    "Read": {
        "signals": ("read", "The newest revision of every signal."),
        "cases": ("read", "All cases in short."),
        "case": ("read", "One case's whole story, or decided again."),
        "report": ("report", "Cost, latency, confidence and calibration, with charts."),
        "sql": ("tables", "Ask ClickHouse."),
        "export": ("tables", "Tables and views as Parquet files."),
    },
    "Measure": {
        "backtest": ("backtest", "Decide recorded cases again, with a changed prompt."),
        "shadow": ("model", "Try a prompt beside the live one, on live traffic."),
        "outcomes": ("outcomes", "What prices did after signals."),
        "labels": ("labels", "What people found to be true or false."),
        "eval": ("judge", "Judge cases by the rules of evidence alone."),
        "acceptance": ("model", "16 messages of eight kinds: latency, calls, cost."),
        "model-server": ("model", "A scripted model without a key, for trying prompts."),
    },
    "Operate": {
        "doctor": ("operate", "What is configured, reachable and missing."),
        "sources": ("listening", "Sources of news: on, off, your own, how each does."),
        "audit": ("read", "Read the whole log and check its promises."),
        "budget": ("operate", "What is spent and left, and what was denied."),
        "dlq": ("operate", "Dead letters: what failed or could not be read."),
        "config": ("describe", "Every setting, its value and where that comes from."),
        "prompts": ("describe", "Every version of every prompt."),
        "tables": ("tables_check", "Check the tables of who is who."),
        "memory": ("memory", "What past cases are remembered by."),
        "topics": ("operate", "Create and describe the topics."),
        "schemas": ("describe", "The public contracts as JSON Schema."),
        "kafka": ("operate", "How other clients log in to the embedded Kafka."),
        "analyst": ("tables", "How BI tools log in to ClickHouse."),
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
