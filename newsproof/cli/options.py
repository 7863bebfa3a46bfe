"""Options and groups that several commands share."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer
from typer.core import TyperGroup


def json_flag(text: str) -> Any:
    """Return the option ``--json`` with this help text."""
    return typer.Option("--json", help=text)


JsonLines = Annotated[bool, json_flag("Print JSON, one object per line.")]
JsonObject = Annotated[bool, json_flag("Print one JSON object.")]
JsonLastLine = Annotated[bool, json_flag("Print one JSON object on the last line of standard output.")]
JsonReport = Annotated[bool, json_flag("Print the report as one line of JSON.")]
Wide = Annotated[bool, typer.Option("--wide", help="Show all columns, in a table of any width.")]
Seed = Annotated[int, typer.Option(min=0, help="Random seed.")]
Lang = Annotated[
    Literal["zh", "en"] | None,
    typer.Option(help="Display language, also of summaries that exist in it. Default: from LC_ALL or LANG."),
]
PagePort = Annotated[
    int | None,
    typer.Option(min=0, max=65535, help="Port of the page. 0: a free port. Default: WEB_PORT.", show_default=False),
]


def commands() -> typer.Typer:
    """Return an empty list of commands, to be filled by one module."""
    return typer.Typer(add_completion=False, rich_markup_mode=None)


class ListGroup(TyperGroup):
    """A group that lists by default: `dlq --json` is short for `dlq list --json`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put ``list`` before options, or alone."""
        if not args or (args[0].startswith("-") and args[0] not in ("-h", "--help")):
            args = ["list", *args]
        return super().parse_args(ctx, args)


class ShowGroup(TyperGroup):
    """A group that shows by default: ``case ID`` is short for ``case show ID``. No case has a command's name."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put ``show`` before anything that is not a command."""
        if args and args[0] not in self.commands and args[0] not in ("-h", "--help"):
            args = ["show", *args]
        return super().parse_args(ctx, args)
