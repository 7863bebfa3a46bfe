"""``newsproof watch`` and ``watches``: investigations that are repeated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from newsproof.app.invocation import Invocation, json_line, json_lines, of, run, say_result, table
from newsproof.cli.options import ListGroup, commands, json_flag

if TYPE_CHECKING:
    from newsproof.app.data_access import LogAccess
    from newsproof.app.watches import WatchBook, WatchView


app = commands()
AsJson = Annotated[bool, json_flag("Print JSON, one watch per line.")]
Which = Annotated[str, typer.Argument(metavar="ID", help="Watch id or a prefix of it, from `watches list`.")]
watches = typer.Typer(cls=ListGroup, help="List, pause, resume and end watches. Without a command: `list`.")
app.add_typer(watches, name="watches")


@app.command()
def watch(
    ctx: typer.Context,
    subject: Annotated[str, typer.Argument(help="Subject to research, such as “DeepSeek” or 关注DeepSeek的最新进展.")],
    every: Annotated[
        str | None, typer.Option(help="Interval, such as 45m, 6h or 1d. At least 30m.", metavar="TIME")
    ] = None,
    on_news: Annotated[
        bool, typer.Option("--on-news", help="Run when news on the subject arrives, at most every 30 minutes.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Research a subject now and repeatedly: at an interval, or when news on it arrives.

    New, testable results are published as news (source watch:SUBJECT) and verified like all news. A watch runs at most
    WATCH_DAILY_LIMIT times per UTC day, and only while `newsproof up` runs.
    """
    from newsproof.app.watches import watch_of
    from schemas.errors import ConfigError, ContractError

    try:
        asked = watch_of(subject, every, on_news=on_news, by="cli")
    except ContractError as exc:
        raise ConfigError(f"{exc}; `newsproof watch --help` shows how") from exc
    _say(run(_with_book(of(ctx), lambda book: book.set(asked))), as_json=as_json)


@watches.command("list")
def list_watches(ctx: typer.Context, as_json: AsJson = False) -> None:
    """List watches with their state, last run, next run and last result."""
    found = run(_with_book(of(ctx), lambda book: book.views()))
    if as_json:
        json_lines(found)
        return
    if not found:
        say_result('No watches. `newsproof watch "DeepSeek" --every 6h` creates one.')
        return
    columns = ("id", "subject", "state", "comes again", "fired", "last fired", "next due", "last result")
    table(columns, [_row(one) for one in found], right=("fired",))
    for one in found:
        if one.note:
            say_result(f"{one.id[:8]} {one.note}.")


@watches.command()
def pause(ctx: typer.Context, id: Which, as_json: AsJson = False) -> None:
    """Pause a watch until you resume it."""
    _change(ctx, id, "pause", as_json=as_json)


@watches.command()
def resume(ctx: typer.Context, id: Which, as_json: AsJson = False) -> None:
    """Resume a paused watch from its next scheduled time. Missed runs are not repeated."""
    _change(ctx, id, "resume", as_json=as_json)


@watches.command()
def end(ctx: typer.Context, id: Which, as_json: AsJson = False) -> None:
    """End a watch permanently. A running investigation still finishes."""
    _change(ctx, id, "end", as_json=as_json)


def _change(ctx: typer.Context, id: str, command: str, *, as_json: bool) -> None:
    _say(run(_with_book(of(ctx), lambda book: book.change(id, command, by="cli"))), as_json=as_json)


async def _with_book(invocation: Invocation, work: Any) -> Any:
    from infra.kafka.topics import ensure_topics
    from newsproof.app.data_access import open_log
    from newsproof.app.servers import say_on_stderr
    from newsproof.app.watches import WatchBook

    log: LogAccess
    async with open_log(invocation) as log:
        at = log.settings
        await ensure_topics(log.address, log.topics, partitions=at.topic_partitions, replication=at.topic_replication)
        if log.own:
            say_on_stderr("Kafka was not running. Watches run only while `newsproof up` runs.")
        book: WatchBook = WatchBook(log.address, log.topics, daily_limit=at.watch_daily_limit)
        return await work(book)


def _say(one: WatchView, *, as_json: bool) -> None:
    if as_json:
        json_line(one)
        return
    due = f"; next due {_time(one.next_due_at)}" if one.next_due_at else ""
    state = "has ended" if one.state == "ended" else f"is {one.state}"
    say_result(f"{one.id} {state}: “{one.subject}”, {_again(one)}{due}")


def _row(one: WatchView) -> tuple[Any, ...]:
    result = one.last_result
    said = None if result is None else result.state if result.new is None else f"{result.state}, {result.new} new"
    return (
        one.id[:8], one.subject, one.state, _again(one), one.fired, _time(one.last_fired_at), _time(one.next_due_at), said,
    )  # fmt: skip


def _again(one: WatchView) -> str:
    if one.every_s is None:
        return "on news"
    for unit, seconds in (("d", 86_400), ("h", 3600), ("m", 60)):
        if one.every_s % seconds == 0:
            return f"every {one.every_s // seconds}{unit}"
    return f"every {one.every_s} s"


def _time(at: Any) -> str | None:
    return None if at is None else f"{at:%Y-%m-%d %H:%M}Z"
