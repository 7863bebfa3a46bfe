"""``newsproof listen`` and ``newsproof sources check``: poll sources, and print what they have."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from newsproof.app import exits
from newsproof.app.invocation import Invocation, of, run, span_of
from newsproof.app.servers import say_on_stderr, servers
from newsproof.app.sheet import (
    MINUTE,
    Columns,
    Sheet,
    Unit,
    advise,
    json_line,
    json_lines,
    moment,
    say_result,
    table,
    with_remedy,
)
from newsproof.cli.options import JsonLines, commands, option
from schemas.printable import counted

if TYPE_CHECKING:
    from infra.listeners.fetching import Fetcher
    from infra.listeners.items import Item
    from infra.listeners.source import Source
    from infra.settings import Settings

app = commands()
_AT_ONCE = 16
"""Number of sources that a check polls at the same time."""


@app.command()
def listen(
    ctx: typer.Context,
    once: Annotated[bool, option("Poll each source once, then exit.", "--once")] = False,
    dry_run: Annotated[
        bool, option("Poll once, print what a first poll would publish, and keep nothing.", "--dry-run")
    ] = False,
    check: Annotated[bool, option("Poll once and report whether each source responds.", "--check")] = False,
    backfill: Annotated[
        str | None,
        option(
            "Also publish items from the last 90m, 24h or 3d. Judge each item as of its publication time. "
            "Never sent to bots.",
            metavar="SPAN",
            show_default=False,
        ),
    ] = None,
    source: Annotated[
        list[str] | None, option("Only this source, even if it is off. Repeatable.", "--source", metavar="ID")
    ] = None,
    as_json: JsonLines = False,
) -> None:
    """Poll the sources that are on and publish new items, until Ctrl-C.

    One process polls at a time; a second one is on standby. The log remembers items, so each becomes news only once, however often
    the listener restarts. Every report of a story pays for its own triage: run `newsproof sources` and mute what you do not need.

    Exit status 1 if a source did not respond (--once, --dry-run, --check).
    """
    invocation, only = of(ctx), tuple(source or ())
    back = None if backfill is None else timedelta(seconds=span_of("--backfill", backfill, "90m, 24h or 3d"))
    if check or dry_run:
        all_respond = run(print_polls(invocation, only, show_items=dry_run, backfill=back, as_json=as_json))
        raise typer.Exit(exits.OK if all_respond else exits.FINDING)
    if once:
        all_respond = run(poll_once(invocation, only, backfill=back, as_json=as_json))
        raise typer.Exit(exits.OK if all_respond else exits.FINDING)
    run(run_listening(invocation, only, backfill=back), service=invocation.settings())


class PolledSource(msgspec.Struct, kw_only=True):
    """Result of one poll of a source. ``newest``: publication time of its newest item. ``items``: None for a socket."""

    source: str
    kind: str
    state: str = "ok"
    items: int | None = None
    newest: datetime | None = None
    why: str = ""
    do: str = ""


async def run_listening(invocation: Invocation, only: Iterable[str], *, backfill: timedelta | None) -> None:
    """Poll until a signal, on the servers that are configured or running, else on an embedded Kafka."""
    from newsproof.app.processes.listening import COSTS, run_listener

    settings = invocation.settings()
    say_on_stderr(COSTS)
    async with servers(settings, clickhouse=False) as running:
        await run_listener(running.applied_to(settings), only=only, backfill=backfill)


async def poll_once(invocation: Invocation, only: Iterable[str], *, backfill: timedelta | None, as_json: bool) -> bool:
    """Poll once and publish; print the result. Return whether every source responded."""
    from infra.listeners.failures import DO
    from newsproof.app.processes.listening import COSTS, look_once

    settings = invocation.settings()
    say_on_stderr(COSTS)
    async with servers(settings, clickhouse=False) as running:
        health = await look_once(running.applied_to(settings), only=only, backfill=backfill)
    rows = [
        {"source": name, "state": source_health.state, "items": source_health.counts, "why": source_health.why}
        | {"do": DO[source_health.reason] if source_health.reason else ""}
        for name, source_health in health.items()
    ]
    columns: Columns = {
        "source": "source",
        "state": "state",
        "items": lambda row: ", ".join(f"{n} {what}" for what, n in row["items"].items()) or "nothing new",
        "problem, and what to do": lambda row: with_remedy(row["why"], row["do"]),
    }
    Sheet.of(rows, columns).show(as_json=as_json)
    return all(source_health.state == "ok" for source_health in health.values())


async def print_polls(
    invocation: Invocation, only: Iterable[str], *, show_items: bool, backfill: timedelta | None, as_json: bool
) -> bool:
    """Poll sources and keep nothing. Print whether each responds, or the items that a first poll would publish.

    Return whether every source responded.
    """
    from infra.listeners.fetching import Fetcher
    from infra.listeners.source import chosen, own_file, sources_of
    from newsproof.app.source_list import keys_of

    settings = invocation.settings()
    wanted = chosen(sources_of(own_file(settings)), only)
    fetcher = Fetcher(contact=settings.listener_contact, keys=keys_of(settings))
    places = asyncio.Semaphore(_AT_ONCE)

    async def poll_source(source: Source) -> tuple[PolledSource, tuple[Item, ...]]:
        async with places:
            return await poll(source, fetcher, settings)

    try:
        polls = await asyncio.gather(*map(poll_source, wanted))
    finally:
        await fetcher.close()
    if show_items:
        _print_items(settings, polls, backfill, as_json=as_json)
    elif as_json:
        json_lines(row for row, _ in polls)
    else:
        _print_states([row for row, _ in polls])
    return all(row.state == "ok" for row, _ in polls)


def _print_states(polled: Sequence[PolledSource]) -> None:
    unresolved = _without_repeats(polled)
    columns: Columns = {
        "source": "source",
        "kind": "kind",
        "state": lambda row: row.state.replace("_", " "),
        "items": ("items", Unit(lambda items: "" if items is None else str(items))),
        "newest": ("newest", MINUTE),
        "problem, and what to do": lambda row: with_remedy(row.why, row.do),
    }
    Sheet.of(polled, columns).print()
    if unresolved:
        say_result(f"{unresolved}. Check this machine's network and its name service (DNS).")


def _without_repeats(rows: Iterable[PolledSource]) -> str:
    """Shorten the problem of rows whose name cannot be resolved, if there are several; return the first one in full."""
    from infra.pages.guard import UNRESOLVED

    unresolved = [row for row in rows if UNRESOLVED in row.why]
    if len(unresolved) < 2:
        return ""
    first = unresolved[0].why
    for row in unresolved:
        row.why, row.do = f"its name {UNRESOLVED}", ""
    return f"{len(unresolved)} names cannot be resolved; the first: {first}"


async def poll(source: Source, fetcher: Fetcher, settings: Settings) -> tuple[PolledSource, tuple[Item, ...]]:
    """Poll one source; only connect to a socket."""
    from infra.listeners.failures import NotReadError, without_listener
    from infra.listeners.markets import Markets
    from infra.listeners.source import Validators, missing
    from newsproof.app.source_list import keys_of

    row = PolledSource(source=source.id, kind=source.kind)
    if (do := missing(source, settings.listener_contact, keys_of(settings))) is not None:
        row.state, row.why = "left out", do
        return row, ()
    try:
        if source.kind == "socket":
            async with fetcher.connected(source):
                return row, ()
        if source.kind == "markets":
            row.items = len(await Markets(source).look())
            return row, ()
        items = (await fetcher.look(source, Validators())).items or ()
    except NotReadError as exc:
        row.state, row.why, row.do = exc.state, str(exc), without_listener(exc.reason)
        return row, ()
    row.items, row.newest = len(items), max((item.published for item in items if item.published), default=None)
    return row, items


def _print_items(
    settings: Settings, polls: list[tuple[PolledSource, tuple[Item, ...]]], backfill: timedelta | None, *, as_json: bool
) -> None:
    from newsproof.app.processes.listening import COSTS
    from streams.listening.item_outcome import PUBLISHED, Poll, decide_outcome

    look = Poll(
        at=datetime.now(UTC),
        previous=None,
        max_age=timedelta(seconds=settings.listener_max_age_seconds),
        kept=timedelta(days=settings.dedup_days),
        backfill=backfill,
    )
    rows = [
        (row.source, item)
        for row, items in polls
        for item in items
        if decide_outcome(item, None, look, is_known_text=False) in PUBLISHED
    ]
    if as_json:
        for name, item in rows:
            at, url = item.published, item.link
            json_line(
                {"source": name, "external_id": item.external_id, "published_at": at, "text": item.text, "url": url}
            )
        return
    lines = [(name, moment(item.published), item.title or item.text[:120]) for name, item in rows]
    table(("source", "published", "title"), lines)
    of_all = f"{len(rows)} of {counted(sum(len(items) for _, items in polls), 'item')}"
    say_result(f"A first poll would publish {of_all} that the sources list now.")
    if silent := [row.source for row, _ in polls if row.state != "ok"]:
        advise(f"No response from {', '.join(silent)}: `newsproof listen --check` says why.")
    advise(COSTS)
