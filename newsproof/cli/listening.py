"""``newsproof listen`` and ``newsproof sources``: what they print, and the operator's own file of sources."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from infra.client_settings import ClientSettings
from infra.listeners.failures import DO, NotReadError
from infra.listeners.fetching import Fetcher, Validators
from infra.listeners.items import Item
from infra.listeners.mark import keys_at_hand
from infra.listeners.markets import Markets
from infra.listeners.source import UNMARKED, Source, chosen, missing, own_file, sources_of
from infra.settings import Settings
from newsproof.app.composition import topics_of
from newsproof.app.dead_letters import UnmarkedNews
from newsproof.app.hints import as_started
from newsproof.app.invocation import Invocation, json_line, say_result, table
from newsproof.app.processes.listening import COSTS, look_once, run_listener
from newsproof.app.servers import say_on_stderr, servers
from newsproof.app.source_list import NO_KEY, NO_KEY_DO, ListedSource, keys_of, listed_sources
from newsproof.cli.reputation import in_full, in_short
from newsproof.sdk.client import running_kafka_of
from schemas.errors import ConfigError
from schemas.printable import counted
from streams.journal.log import KafkaLog
from streams.listening.deciding import PUBLISHED, Look, decide
from streams.listening.memory import Cursors
from streams.reputation.keeping import written

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
            ("source", "state", "items", "why, and what to do"),
            [(r["source"], r["state"], c, _told(r["why"], r["do"])) for r, c in zip(rows, counts, strict=True)],
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
                _when(r.newest),
                _told(r.why, r.do),
            )
            for r, _ in found
        ]
        table(("source", "kind", "state", "items", "newest", "why, and what to do"), rows, right=("items",))
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
    look = Look(
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
        if decide(item, None, look, is_known_text=False) in PUBLISHED
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
        [(name, _when(item.published), item.title or item.text[:120]) for name, item in rows],
    )
    silent = [row.source for row, _ in found if row.state != "ok"]
    say_result(
        f"{len(rows)} of {sum(len(items) for _, items in found)} items would be published by a first look; "
        f"{len(silent)} of {len(found)} sources did not answer{': ' if silent else ''}{', '.join(silent)}."
    )
    say_result(as_started(COSTS))


# sources


async def show_sources(invocation: Invocation, *, as_json: bool) -> None:
    """Print every source and how it does."""
    settings = invocation.settings()
    rows = await _listed(settings)
    if as_json:
        for row in rows:
            json_line(row)
        return
    table(
        (
            "source",
            "kind",
            "state",
            "last look",
            "last news",
            "lag s",
            "new",
            "edits",
            "reputation",
            "why, and what to do",
        ),
        [
            (
                r.id,
                r.kind,
                r.state,
                _when(r.looked_at),
                _when(r.news_at),
                "" if r.lag_p50_s is None else f"{r.lag_p50_s:.0f}",
                r.new,
                r.edits,
                in_short(r.reputation),
                _told(r.why, r.do),
            )
            for r in rows
        ],
        right=("lag s", "new", "edits"),
    )
    _print_below(settings, rows)


def _print_below(settings: Settings, rows: list[ListedSource]) -> None:
    say_result(
        f"{sum(r.on for r in rows)} of {len(rows)} are on. Lag: from publication to receipt, median. All is of the newest record in "
        "the log; /metrics of a listener has it live."
    )
    for r in rows:
        if r.unmarked:
            say_result(
                as_started(
                    f"{counted(r.unmarked, 'record')} named {r.id} without the listener's mark and opened no case: "
                    f"`newsproof dlq list --reason {UNMARKED}` shows who published what."
                )
            )
    if not keys_at_hand(settings):
        say_result(as_started(f"{NO_KEY[0].upper()}{NO_KEY[1:]}: {NO_KEY_DO}."))


async def show_source(invocation: Invocation, name: str, *, as_json: bool) -> None:
    """Print one source.

    Raises:
        ConfigError: there is none of this id.
    """
    settings = invocation.settings()
    (source,) = chosen(sources_of(own_file(settings)), [name])
    (row,) = [one for one in await _listed(settings) if one.id == name]
    document = msgspec.to_builtins(row) | {n: v for n, v in msgspec.to_builtins(source).items() if v or n == "default"}
    if as_json:
        json_line(document)
    else:
        rows = [(n, v) for n, v in document.items() if n != "reputation" and v not in ("", None)]
        table(("what", "value"), [*rows, *(line for one in row.reputation for line in in_full(one))])


def mute_source(settings: Settings, name: str, *, muted: bool) -> None:
    """Write into the operator's file whether a source is on.

    Raises:
        ConfigError: there is none of this id, or the file cannot be written.
    """
    chosen(sources_of(own_file(settings)), [name])
    state = "muted = true" if muted else "muted = false\ndefault = true"
    path = _appended(settings, f'[[source]]\nid = "{name}"\n{state}\n')
    say_result(f"{name} is {'off' if muted else 'on'}: written to {path}.")


def add_source(settings: Settings, url: str, *, name: str | None, language: str | None, private: bool) -> None:
    """Write a new feed into the operator's file.

    Raises:
        ConfigError: the address is none, the id is taken, or the file cannot be written.
    """
    parts = urlsplit(url)
    made = re.sub(r"[^a-z0-9.-]+", "-", f"{(parts.hostname or '').removeprefix('www.')}{parts.path}".lower()).strip(
        "-."
    )[:64]
    name = made if name is None else name
    if name in sources_of(own_file(settings)):
        raise ConfigError(f"there is a source {name} already: `newsproof sources show {name}`, or give another --id")
    kind = "telegram" if parts.netloc == "t.me" else "feed"
    row = {"id": name, "kind": kind, "url": url, "language": language, "private": private or None}
    try:
        msgspec.convert({n: v for n, v in row.items() if v is not None}, Source)
    except msgspec.ValidationError as exc:
        raise ConfigError(f"this is no source: {exc}; give its address, and --id of a-z, 0-9, dot and hyphen") from exc
    if parts.scheme not in ("http", "https") or not parts.netloc or re.search(r"[\"\\\s]", url):
        raise ConfigError(f"{url!r:.100} is no address: write https://host/feed")
    lines = [f"{n} = {'true' if v is True else chr(34) + str(v) + chr(34)}" for n, v in row.items() if v is not None]
    path = _appended(settings, "\n".join(["[[source]]", *lines, ""]))
    say_result(as_started(f"{name} is on: written to {path}. Try it: `newsproof sources check {name}`"))


def _appended(settings: Settings, rows: str) -> Path:
    path = own_file(settings)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        before = path.read_text("utf-8") if path.exists() else ""
        with path.open("a", encoding="utf-8") as file:
            file.write(("" if not before or before.endswith("\n") else "\n") + ("\n" if before else "") + rows)
    except OSError as exc:
        raise ConfigError(
            f"{path} cannot be written ({exc.strerror}): make it possible, or name another one in LISTENER_SOURCES"
        ) from exc
    return path


async def _listed(settings: Settings) -> list[ListedSource]:
    """Return every source with what the log says of it; that is nothing where no Kafka runs, for none is started to be asked."""
    if (address := await running_kafka_of(ClientSettings.of(settings))) is None:
        return listed_sources(settings, {}, datetime.now(UTC))
    topics = topics_of(settings)
    cursors, unmarked = await asyncio.gather(Cursors(address, topics).read(), UnmarkedNews(address, topics).read())
    rows = listed_sources(settings, cursors, datetime.now(UTC), unmarked)
    reputations = (await written(KafkaLog(address), topics)).values()
    return [replace(row, reputation=tuple(r for r in reputations if r.source == row.id)) for row in rows]


def _told(why: str, do: str) -> str:
    return f"{why}: {do}" if do else why


def _when(at: datetime | None) -> str:
    return "" if at is None else f"{at:%Y-%m-%d %H:%M}"
