"""Commands of watches: investigations that come again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from newsproof.app.invocation import Invocation, json_line, of, run, say_result, table
from newsproof.cli.listing import ListGroup

if TYPE_CHECKING:
    from newsproof.app.open_log import LogAccess
    from newsproof.app.watches import WatchBook, WatchView

AsJson = Annotated[bool, typer.Option("--json", help="JSON on standard output, one watch a line.")]
Which = Annotated[str, typer.Argument(metavar="ID", help="A watch's id, or how it begins; `watches` lists them.")]

watches = typer.Typer(
    cls=ListGroup, help="Watches: subjects that are looked into again and again. Without a command: `list`."
)


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    app.command()(watch)
    app.add_typer(watches, name="watches")


def watch(
    ctx: typer.Context,
    subject: Annotated[str, typer.Argument(help="What to look into, such as “DeepSeek” or 关注DeepSeek的最新进展.")],
    every: Annotated[str | None, typer.Option(help="By the clock: 45m, 6h, 1d; at least 30m.", metavar="TIME")] = None,
    on_news: Annotated[
        bool, typer.Option("--on-news", help="When news come in that concern the subject, at most every 30 minutes.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Have a subject looked into now, and again and again: by the clock, or when news on it come in.

    What is new and can be tested is published as news of its own (source watch:SUBJECT) and verified as all news are.
    A watch fires at most WATCH_DAILY_LIMIT times a day (UTC). The investigations are worked on while `newsproof up` runs.
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
    """List the watches: how they stand, when they fired last and are due next, and what came of the last time."""
    found = run(_with_book(of(ctx), lambda book: book.views()))
    if as_json:
        for one in found:
            json_line(one)
        return
    if not found:
        say_result('Nothing is watched. `newsproof watch "DeepSeek" --every 6h` sets a watch.')
        return
    columns = ("id", "subject", "state", "comes again", "fired", "last fired", "next due", "last result")
    table(columns, [_row(one) for one in found], right=("fired",))
    for one in found:
        if one.note:
            say_result(f"{one.id[:8]} {one.note}.")


@watches.command()
def pause(ctx: typer.Context, id: Which, as_json: AsJson = False) -> None:
    """Let a watch not fire until it is resumed."""
    _change(ctx, id, "pause", as_json=as_json)


@watches.command()
def resume(ctx: typer.Context, id: Which, as_json: AsJson = False) -> None:
    """Let a paused watch fire again, at its next time. What it missed is not made up for."""
    _change(ctx, id, "resume", as_json=as_json)


@watches.command()
def end(ctx: typer.Context, id: Which, as_json: AsJson = False) -> None:
    """End a watch for good. An investigation that runs goes on to its end."""
    _change(ctx, id, "end", as_json=as_json)


def _change(ctx: typer.Context, id: str, command: str, *, as_json: bool) -> None:
    _say(run(_with_book(of(ctx), lambda book: book.change(id, command, by="cli"))), as_json=as_json)


async def _with_book(invocation: Invocation, work: Any) -> Any:
    from infra.kafka.topics import ensure_topics
    from newsproof.app.open_log import open_log
    from newsproof.app.watches import WatchBook

    log: LogAccess
    async with open_log(invocation) as log:
        at = log.settings
        await ensure_topics(log.address, log.topics, partitions=at.topic_partitions, replication=at.topic_replication)
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
