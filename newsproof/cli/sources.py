"""``newsproof sources``: what is listed, and the operator's own file of sources."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from infra.client_settings import ClientSettings
from infra.listeners.mark import keys_at_hand
from infra.listeners.source import UNMARKED, Source, chosen, own_file, sources_of
from newsproof.app.dead_letters import UnmarkedNews
from newsproof.app.invocation import Invocation, json_line, say_result, table
from newsproof.app.source_list import NO_KEY, NO_KEY_DO, ListedSource, listed_sources
from newsproof.app.terminal import as_started
from newsproof.cli.reputation import in_full, in_short
from newsproof.sdk.client import running_kafka_of
from schemas.errors import ConfigError
from schemas.printable import counted
from schemas.topics import Topics
from streams.journal.log import KafkaLog
from streams.listening.memory import Cursors
from streams.reputation.reputation_topic import read_reputations

if TYPE_CHECKING:
    from infra.settings import Settings


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
            "last poll",
            "last news",
            "lag s",
            "new",
            "edits",
            "reputation",
            "problem, and what to do",
        ),
        [
            (
                r.id,
                r.kind,
                r.state,
                moment(r.looked_at),
                moment(r.news_at),
                "" if r.lag_p50_s is None else f"{r.lag_p50_s:.0f}",
                r.new,
                r.edits,
                in_short(r.reputation),
                with_remedy(r.why, r.do),
            )
            for r in rows
        ],
        right=("lag s", "new", "edits"),
    )
    _print_below(settings, rows)


def _print_below(settings: Settings, rows: list[ListedSource]) -> None:
    say_result(
        f"{sum(r.on for r in rows)} of {len(rows)} are on. Lag: median time from publication to receipt. All values are from the latest record in "
        "the log; /metrics of a listener has live values."
    )
    for r in rows:
        if r.unmarked:
            say_result(
                as_started(
                    f"{counted(r.unmarked, 'record')} named {r.id} without the listener's signature and opened no case: "
                    f"`newsproof dlq list --reason {UNMARKED}` shows them."
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
    say_result(f"{name} is now {'off' if muted else 'on'}, as written to {path}.")


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
        raise ConfigError(
            f"a source {name} already exists: see `newsproof sources show {name}`, or choose another --id"
        )
    kind = "telegram" if parts.netloc == "t.me" else "feed"
    row = {"id": name, "kind": kind, "url": url, "language": language, "private": private or None}
    try:
        msgspec.convert({n: v for n, v in row.items() if v is not None}, Source)
    except msgspec.ValidationError as exc:
        raise ConfigError(
            f"this is not a valid source: {exc}. Give its address, and an --id of a-z, 0-9, dot and hyphen"
        ) from exc
    if parts.scheme not in ("http", "https") or not parts.netloc or re.search(r"[\"\\\s]", url):
        raise ConfigError(f"{url!r:.100} is not an address: write https://host/feed")
    lines = [f"{n} = {'true' if v is True else chr(34) + str(v) + chr(34)}" for n, v in row.items() if v is not None]
    path = _appended(settings, "\n".join(["[[source]]", *lines, ""]))
    say_result(as_started(f"{name} is now on, as written to {path}. To test it: `newsproof sources check {name}`"))


def _appended(settings: Settings, rows: str) -> Path:
    path = own_file(settings)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        before = path.read_text("utf-8") if path.exists() else ""
        with path.open("a", encoding="utf-8") as file:
            file.write(("" if not before or before.endswith("\n") else "\n") + ("\n" if before else "") + rows)
    except OSError as exc:
        raise ConfigError(
            f"{path} cannot be written ({exc.strerror}): correct that, or choose another file in LISTENER_SOURCES"
        ) from exc
    return path


async def _listed(settings: Settings) -> list[ListedSource]:
    """Return every source with what the log says of it; that is nothing where no Kafka runs, for none is started to be asked."""
    if (address := await running_kafka_of(ClientSettings.of(settings))) is None:
        return listed_sources(settings, {}, datetime.now(UTC))
    topics = Topics(settings.topic_prefix)
    cursors, unmarked = await asyncio.gather(Cursors(address, topics).read(), UnmarkedNews(address, topics).read())
    rows = listed_sources(settings, cursors, datetime.now(UTC), unmarked)
    reputations = (await read_reputations(KafkaLog(address), topics)).values()
    return [replace(row, reputation=tuple(r for r in reputations if r.source == row.id)) for row in rows]


def with_remedy(why: str, do: str) -> str:
    return f"{why}: {do}" if do else why


def moment(at: datetime | None) -> str:
    return "" if at is None else f"{at:%Y-%m-%d %H:%M}"
