"""The command that puts news in."""

from __future__ import annotations

from typing import Annotated

import typer

from newsproof.app import exits
from newsproof.app.invocation import json_line, of, run, say_result


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command()(publish)


def publish(
    ctx: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE|-", help="A file, or - for standard input, read for ever.")],
    source: Annotated[str, typer.Option(help="Source of plain lines, and of objects that name none.")] = "cli",
    raw: Annotated[bool, typer.Option("--raw", help="Send every line as it is, unchecked.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the counts as one line of JSON.")] = False,
) -> None:
    """Publish news: one JSON object a line, or plain lines of text (published now).

    A line that intake would refuse is not sent: the reason goes to standard error, and the exit status is 1.
    """
    from newsproof.cli.log.publishing import publish_lines

    published, refused = run(publish_lines(of(ctx), file, source=source, raw=raw), plain_logs=True)
    if as_json:
        json_line({"published": published, "refused": refused})
    else:
        say_result(f"published {published}, refused {refused}")
    raise typer.Exit(exits.FINDING if refused else exits.OK)
