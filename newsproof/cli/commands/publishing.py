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
    """Publish news: a JSON object a line, or lines of plain text.

    \b
    text          what was reported, at most 256 KB; a plain line is this alone
    source        who reported it; left out: --source
    published_at  when, as 2024-01-10T21:00:00Z; left out: now
    received_at   when you had it; left out beside published_at: now
    external_id   the item's id at its source; left out: a hash of the text
    origins       addresses of the pages it was made of: they do not bear it out
    url, author, language (zh, en), media, keywords_hit, extra: kept with it

    \b
    echo '{"source": "me", "text": "Binance lists ZK"}' | newsproof publish -
    echo 'Binance lists ZK' | newsproof publish - --source me
    jq -c '.[]' array.json | newsproof publish -

    A line that intake would refuse is not sent: the reason goes to standard error, and the exit status is 1.
    """
    from newsproof.cli.log.publishing import publish_lines

    done = run(publish_lines(of(ctx), file, source=source, raw=raw), late_logs=True)
    if as_json:
        json_line({"published": done.published, "refused": done.refused, "dated_now": done.dated_now})
    else:
        undated = f" ({done.dated_now} without published_at: taken as published now)" if done.dated_now else ""
        say_result(f"published {done.published}, refused {done.refused}{undated}")
    raise typer.Exit(exits.FINDING if done.refused else exits.OK)
