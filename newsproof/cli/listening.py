"""``newsproof listen`` and ``newsproof sources check``: what they look at, and what they print."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from infra.listeners.failures import DO, NotReadError
from infra.listeners.fetching import Fetcher
from infra.listeners.items import Item
from infra.listeners.markets import Markets
from infra.listeners.source import Source, Validators, chosen, missing, own_file, sources_of
from infra.settings import Settings
from newsproof.app.invocation import Invocation, json_line, say_result, table
from newsproof.app.processes.listening import COSTS, look_once, run_listener
from newsproof.app.servers import say_on_stderr, servers
from newsproof.app.source_list import keys_of
from newsproof.app.terminal import as_started
from newsproof.cli.sources import moment, with_remedy
from streams.listening.item_outcome import PUBLISHED, Poll, decide_outcome

_AT_ONCE = 16
"""Sources that a check looks at side by side."""


class Peeked(msgspec.Struct, kw_only=True):
    """What one look at a source showed. ``newest``: when its newest item came out; ``items``: None of a socket."""

    source: str
    kind: str
    state: str = "ok"
    items: int | None = None
    newest: datetime | None = None
    why: str = ""
    do: str = ""


# listen


async def listen(invocation: Invocation, only: Iterable[str], *, backfill: timedelta | None) -> None:
    """Listen until a signal, on the servers that are configured or run, else on a Kafka of its own."""
    settings = invocation.settings()
    say_on_stderr(COSTS)
    async with servers(settings, clickhouse=False) as found:
        await run_listener(found.applied_to(settings), only=only, backfill=backfill)


async def looked_once(
    invocation: Invocation, only: Iterable[str], *, backfill: timedelta | None, as_json: bool
) -> bool:
    """Look once and publish; print what came of it. Return whether every source answered."""
    settings = invocation.settings()
    say_on_stderr(COSTS)
    async with servers(settings, clickhouse=False) as found:
        health = await look_once(found.applied_to(settings), only=only, backfill=backfill)
    rows: list[dict[str, Any]] = [
        {
            "source": name,
            "state": one.state,
            "items": one.counts,
            "why": one.why,
            "do": DO[one.reason] if one.reason else "",
        }
        for name, one in health.items()
    ]
    if as_json:
        for row in rows:
            json_line(row)
    else:
        counts = [
            ", ".join(f"{n} {what}" for what, n in one.counts.items()) or "nothing new" for one in health.values()
        ]
        table(
            ("source", "state", "items", "problem, and what to do"),
            [(r["source"], r["state"], c, with_remedy(r["why"], r["do"])) for r, c in zip(rows, counts, strict=True)],
        )
    return all(one.state == "ok" for one in health.values())


async def peeked(
    invocation: Invocation, only: Iterable[str], *, show_items: bool, backfill: timedelta | None, as_json: bool
) -> bool:
    """Look at sources and keep nothing; print how each answers, or the items that a first look would publish."""
    settings = invocation.settings()
    wanted = chosen(sources_of(own_file(settings)), only)
    fetcher, places = (
        Fetcher(contact=settings.listener_contact, keys=keys_of(settings)),
        asyncio.Semaphore(_AT_ONCE),
    )

    async def one(source: Source) -> tuple[Peeked, tuple[Item, ...]]:
        async with places:
            return await peek(source, fetcher, settings)

    try:
        found = await asyncio.gather(*map(one, wanted))
    finally:
        await fetcher.close()
    if show_items:
        _print_items(settings, found, backfill, as_json=as_json)
    elif as_json:
        for row, _ in found:
            json_line(row)
    else:
        rows = [
            (
                r.source,
                r.kind,
                r.state,
                "" if r.items is None else r.items,
                moment(r.newest),
                with_remedy(r.why, r.do),
            )
            for r, _ in found
        ]
        table(("source", "kind", "state", "items", "newest", "problem, and what to do"), rows, right=("items",))
    return all(row.state == "ok" for row, _ in found)


async def peek(source: Source, fetcher: Fetcher, settings: Settings) -> tuple[Peeked, tuple[Item, ...]]:
    """Look at one source; of a socket, whether it can be connected to."""
    row = Peeked(source=source.id, kind=source.kind)
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
        row.state, row.why, row.do = exc.state, str(exc), DO[exc.reason]
        return row, ()
    row.items, row.newest = len(items), max((one.published for one in items if one.published), default=None)
    return row, items


def _print_items(
    settings: Settings, found: list[tuple[Peeked, tuple[Item, ...]]], backfill: timedelta | None, *, as_json: bool
) -> None:
    look = Poll(
        at=datetime.now(UTC),
        previous=None,
        max_age=timedelta(seconds=settings.listener_max_age_seconds),
        kept=timedelta(days=settings.dedup_days),
        backfill=backfill,
    )
    rows = [
        (row.source, item)
        for row, items in found
        for item in items
        if decide_outcome(item, None, look, is_known_text=False) in PUBLISHED
    ]
    if as_json:
        for name, item in rows:
            json_line(
                {
                    "source": name,
                    "external_id": item.external_id,
                    "published_at": item.published,
                    "text": item.text,
                    "url": item.link,
                }
            )
        return
    table(
        ("source", "published", "title"),
        [(name, moment(item.published), item.title or item.text[:120]) for name, item in rows],
    )
    silent = [row.source for row, _ in found if row.state != "ok"]
    say_result(
        f"{len(rows)} of {sum(len(items) for _, items in found)} items would be published by a first poll; "
        f"{len(silent)} of {len(found)} sources did not respond{': ' if silent else ''}{', '.join(silent)}."
    )
    say_result(as_started(COSTS))
