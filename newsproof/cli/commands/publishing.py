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
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE|-", help="File to publish, or - for standard input, which is read until it closes."
        ),
    ],
    source: Annotated[str, typer.Option(help="Source of plain lines, and of objects without a source.")] = "cli",
    raw: Annotated[bool, typer.Option("--raw", help="Send every line unchanged and unchecked.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the counts as one line of JSON.")] = False,
) -> None:
    """Publish news: one JSON object or one plain text per line.

    \b
    text          what was reported, at most 256 KB; a plain line sets only this field
    source        who reported it. Default: --source
    published_at  publication time, such as 2024-01-10T21:00:00Z. Default: now
    received_at   time you received it. Default: now, if published_at is set
    external_id   id of the item at its source. Default: a hash of the text
    origins       addresses of the pages it was made from, which cannot corroborate it
    url, author, language (zh, en), media, keywords_hit, extra: stored with the item

    \b
    echo '{"source": "me", "text": "Binance lists ZK"}' | newsproof publish -
    echo 'Binance lists ZK' | newsproof publish - --source me
    jq -c '.[]' array.json | newsproof publish -

    A line that intake would refuse is not sent. Its reason goes to standard error, and the exit status is 1.
    """
    from newsproof.cli.log.publishing import publish_lines

    done = run(publish_lines(of(ctx), file, source=source, raw=raw), late_logs=True)
    if as_json:
        json_line({"published": done.published, "refused": done.refused, "dated_now": done.dated_now})
    else:
        undated = f" ({done.dated_now} without published_at: treated as published now)" if done.dated_now else ""
        say_result(f"published {done.published}, refused {done.refused}{undated}")
    raise typer.Exit(exits.FINDING if done.refused else exits.OK)
