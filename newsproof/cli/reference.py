"""Generator of docs/cli.md and docs/lab.md from the typer commands; tests compare the files with its output."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer
import typer.main

from newsproof.app import exits
from newsproof.app.invocation import markdown_table

WIDTH = 100
CLI = """\
# The command line

Written by `newsproof reference`; a test compares. In a checkout, `./run COMMAND` is the same as
`newsproof COMMAND`. Results go to standard output, everything else to standard error.

Commands that read use the configured servers, else those that `up` (or `demo --keep`) runs on the data
directory, else they start the embedded ones on it for their own duration. Where the data directory holds no
log and none is named, they read the one that `demo` left."""


def cli_page(app: typer.Typer) -> str:
    """Return the text of docs/cli.md."""
    return reference_page(app, "newsproof", CLI)


def reference_page(app: typer.Typer, name: str, opening: str) -> str:
    """Return the page of the command line ``name``: the opening, the exit statuses and the help of each command."""
    lines = [
        opening,
        "",
        "## Exit status",
        "",
        markdown_table(("status", "meaning"), exits.MEANINGS.items()),
    ]
    for path, text in _commands(typer.main.get_command(app), name):
        lines += ["", f"## `{path}`", "", "```text", text, "```"]
    return "\n".join(lines) + "\n"


def _commands(command: Any, path: str, parent: Any = None) -> Iterator[tuple[str, str]]:
    # By hand: the page must not depend on the width of the terminal that it is written from.
    settings = {**command.context_settings, "terminal_width": WIDTH, "max_content_width": WIDTH}
    name = path if parent is None else path.rsplit(" ", 1)[-1]
    context = command.context_class(command, info_name=name, parent=parent, **settings)
    yield path, "\n".join(line.rstrip() for line in command.get_help(context).splitlines()).strip()
    for name, child in getattr(command, "commands", {}).items():
        if not child.hidden:
            yield from _commands(child, f"{path} {name}", context)
