"""``newsproof sources``: the listed sources with their state and reputation, and the operator's own file of sources."""

from __future__ import annotations

import asyncio
import re
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import msgspec
import typer
from msgspec.structs import replace

from infra.client_settings import ClientSettings
from newsproof.app import exits
from newsproof.app.data_access import log_to_read
from newsproof.app.dead_letters import UnmarkedNews
from newsproof.app.invocation import Invocation, of, run
from newsproof.app.sheet import (
    MINUTE,
    PIPE_COLUMNS,
    UNWRAPPED,
    Columns,
    Sheet,
    Unit,
    advise,
    json_line,
    json_lines,
    say_result,
    table,
    with_remedy,
)
from newsproof.cli.options import JsonLines, ListGroup, Wide, argument, command, commands, option
from newsproof.sdk.client import running_kafka_of
from schemas.errors import ConfigError
from schemas.printable import counted
from schemas.topics import Topics
from streams.journal.clock import utc_now
from streams.journal.log import KafkaLog

if TYPE_CHECKING:
    from infra.settings import Settings
    from newsproof.app.source_list import ListedSource
    from streams.reputation.fold import Reputation, Share


app = commands()
Which = Annotated[str, argument("Source id from `sources list`.", metavar="ID")]
UNRATED = "unrated"
LAG = Unit(lambda seconds: "" if seconds is None else f"{seconds:.0f}")
RESOLVED_WITHIN_S = 3.0
"""Time for looking up the address of a source that is added."""
STATE_LABELS = {"backing_off": "backing off", "left out": "not set up", "never looked at": "not polled"}
"""State → its label in tables, where it differs; the page has the same labels."""
sources = typer.Typer(cls=ListGroup, help="List, check, add, remove and mute news sources. Without a command: `list`.")
app.add_typer(sources, name="sources")


@command(sources, "list", late_logs=True)
async def list_sources(invocation: Invocation, wide: Wide = False, as_json: JsonLines = False) -> None:
    """List all sources: on or off, and their last known state.

    The state is the one that a listener last reported.
    """
    settings = invocation.settings()
    rows = await _listed(settings)
    columns: Columns = {
        "source": "id",
        "kind": "kind",
        "state": lambda row: STATE_LABELS.get(row.state, row.state),
        "last news": ("news_at", MINUTE),
        "reputation": lambda row: reputation_cell(row.reputation),
        "problem, and what to do": lambda row: with_remedy(row.why, row.do),
    }
    more: Columns = {"last poll": ("looked_at", MINUTE), "lag s": ("lag_p50_s", LAG), "new": "new", "edits": "edits"}
    sheet = Sheet.of(rows, {**columns, **more} if wide else columns)
    sheet.show(as_json=as_json, piped=UNWRAPPED if wide else PIPE_COLUMNS)
    if not as_json:
        _print_below(settings, rows, wide=wide)


def _print_below(settings: Settings, rows: list[ListedSource], *, wide: bool) -> None:
    from infra.listeners.mark import keys_at_hand
    from infra.listeners.source import UNMARKED
    from newsproof.app.source_list import NO_KEY, NO_KEY_DO

    lag = " Lag: median time from publication to receipt." if wide else ""
    say_result(
        f"{sum(r.on for r in rows)} of {len(rows)} are on.{lag} All values are from the latest record in the log."
    )
    for r in rows:
        if r.unmarked:
            advise(
                f"{counted(r.unmarked, 'record')} named {r.id} without the listener's signature and opened no case: "
                f"`newsproof dlq list --reason {UNMARKED}` shows them."
            )
    if not keys_at_hand(settings):
        advise(f"{NO_KEY[0].upper()}{NO_KEY[1:]}: {NO_KEY_DO}.")


@sources.command()
def check(
    ctx: typer.Context,
    id: Annotated[
        list[str] | None, argument("Check only these sources, even if they are off.", metavar="[ID]…")
    ] = None,
    as_json: JsonLines = False,
) -> None:
    """Poll each source that is on once. Show whether it responds, how many items it has and how new they are."""
    from newsproof.cli.run.listen import print_polls

    all_respond = run(print_polls(of(ctx), tuple(id or ()), show_items=False, backfill=None, as_json=as_json))
    raise typer.Exit(exits.OK if all_respond else exits.FINDING)


@command(sources, late_logs=True)
async def show(invocation: Invocation, id: Which, as_json: JsonLines = False) -> None:
    """Show one source: its definition and its state.

    Raises:
        ConfigError: no source has this id.
    """
    from infra.listeners.source import chosen, own_file, sources_of

    settings = invocation.settings()
    (source,) = chosen(sources_of(own_file(settings)), [id])
    (row,) = [source for source in await _listed(settings) if source.id == id]
    document = msgspec.to_builtins(row) | {n: v for n, v in msgspec.to_builtins(source).items() if v or n == "default"}
    if as_json:
        json_line(document)
    else:
        rows = [(n, v) for n, v in document.items() if n != "reputation" and v not in ("", None)]
        table(
            ("what", "value"),
            [*rows, *(line for source_reputation in row.reputation for line in reputation_lines(source_reputation))],
        )


@command(sources, late_logs=True)
async def reputation(invocation: Invocation, as_json: JsonLines = False) -> None:
    """Show each source's record of the last 90 days.

    How often it reported first, copied others, and was confirmed, refuted or retracted.

    Computed from the stories in the log. `list` and `show` print what a listener computed within the last day.
    """
    from streams.reputation.fold import RATED_FROM, WINDOW
    from streams.reputation.reputation_topic import compute_reputations

    async with log_to_read(invocation) as log:
        reputations = await compute_reputations(KafkaLog(log.address), log.topics, utc_now())
    if as_json:
        return json_lines(reputations)
    columns = ("source", "language", "stories", "first", "ahead by", *_FIGURES[1:], "edited", "lag")
    table(
        columns,
        [(row.source, row.language, row.stories, *_cells(row)) for row in reputations],
        right=("stories", "edited"),
    )
    say_result(
        f"Stories of the last {WINDOW.days} days, with 95 % intervals in brackets. Below {RATED_FROM} stories, "
        f"a source is {UNRATED}. docs/sources.md defines each metric; --json prints them for all sources."
    )


@sources.command()
def mute(
    ctx: typer.Context,
    id: Which,
    off: Annotated[bool, option("Unmute the source, or turn on one that is off by default.", "--off")] = False,
) -> None:
    """Turn a source off. A running listener applies it within seconds."""
    from infra.listeners.source import chosen, own_file, sources_of

    settings = of(ctx).settings()
    chosen(sources_of(own_file(settings)), [id])
    state = "muted = false\ndefault = true" if off else "muted = true"
    path = _appended(settings, f'[[source]]\nid = "{id}"\n{state}\n')
    say_result(f"{id} is now {'on' if off else 'off'}, as written to {path}.")


@command(sources, late_logs=True)
async def add(
    invocation: Invocation,
    url: Annotated[str, argument("Address of an RSS or Atom feed, or of t.me/s/CHANNEL.", metavar="URL")],
    id: Annotated[str | None, option("Source id of its news. Default: derived from the address.")] = None,
    language: Annotated[str | None, option("zh or en. Default: detected from the script of each text.")] = None,
    private: Annotated[bool, option("Allow an address in your own network.", "--private")] = False,
) -> None:
    """Add a feed to your own sources file.

    If a source of yours already has that --id, its address is changed.

    Raises:
        ConfigError: the address is invalid or blocked, the id is a built-in source's, or the file cannot be written.
    """
    from infra.listeners.source import Source, own_file, sources_of

    settings, parts = invocation.settings(), urlsplit(url)
    host = (parts.hostname or "").removeprefix("www.")
    made = re.sub(r"[^a-z0-9.-]+", "-", f"{host}{parts.path}".lower()).strip("-.")[:64]
    name = made if id is None else id
    if name in sources_of(None):
        raise ConfigError(
            f"a built-in source is called {name}: see `newsproof sources show {name}`, or choose another --id"
        )
    is_known = name in sources_of(own_file(settings))
    kind = "telegram" if parts.netloc == "t.me" else "feed"
    row: dict[str, Any] = {"id": name, "kind": kind, "url": url, "language": language}
    row["private"] = private or (False if is_known else None)
    given = {n: v for n, v in row.items() if v is not None}
    try:
        msgspec.convert(given, Source)
    except msgspec.ValidationError as exc:
        raise ConfigError(
            f"this is not a valid source: {exc}. Give its address, and an --id of a-z, 0-9, dot and hyphen"
        ) from exc
    if parts.scheme not in ("http", "https") or not parts.netloc or re.search(r"[\"\\\s]", url):
        raise ConfigError(f"{url!r:.100} is not an address: write https://host/feed")
    unresolved = "" if private else await _refuse_blocked(url)
    lines = [f"{n} = {str(v).lower() if isinstance(v, bool) else chr(34) + v + chr(34)}" for n, v in given.items()]
    path = _appended(settings, "\n".join(["[[source]]", *lines, ""]))
    what = "was changed" if is_known else "was added and is on"
    say_result(f"{name} {what}, as written to {path}. {unresolved or 'It was not tested.'}")
    advise(f"To test it: `newsproof sources check {name}`")


async def _refuse_blocked(url: str) -> str:
    """Refuse an address that the listener would never open. Return a warning if its name cannot be resolved now.

    Raises:
        ConfigError: it is no public address.
    """
    from infra.pages.guard import Guard
    from schemas.errors import PermanentError, TransientError

    guard = Guard()
    try:
        at = guard.target(url).url
        async with asyncio.timeout(RESOLVED_WITHIN_S):
            await guard.numbers(at.host, at.port or 443)
    except (TransientError, TimeoutError) as exc:
        why = str(exc) or f"resolving its name took longer than {RESOLVED_WITHIN_S:.0f} s"
        return f"But {why}: check the address and your network."
    except PermanentError as exc:
        raise ConfigError(
            f"blocked: {exc}. Correct the address, or add --private if it is in your own network"
        ) from exc
    return ""


@sources.command()
def remove(ctx: typer.Context, id: Which) -> None:
    """Remove a source of your own.

    For a built-in source, it removes your changes to it.

    Other rows and comments of the file stay.
    """
    from infra.listeners.source import chosen, own_file, sources_of

    path = own_file(of(ctx).settings())
    chosen(sources_of(path), [id])
    text = path.read_text("utf-8") if path.exists() else ""
    rows = re.split(r"^(?=[ \t]*\[\[[ \t]*source[ \t]*\]\])", text, flags=re.MULTILINE)
    kept = [row for row in rows if not _is_of(row, id)]
    if len(kept) == len(rows):
        raise ConfigError(f"{id} is built in and unchanged by {path}: `newsproof sources mute {id}` turns it off")
    _written(path, "".join(kept))
    outcome = "is as built in again" if id in sources_of(None) else "was removed"
    say_result(f"{id} {outcome}, as written to {path}.")


def _is_of(row: str, name: str) -> bool:
    """Return whether one row of a sources file is of this source."""
    return [source.get("id") for source in tomllib.loads(row).get("source", [])] == [name]


def _appended(settings: Settings, rows: str) -> Path:
    from infra.listeners.source import own_file

    path = own_file(settings)
    before = path.read_text("utf-8") if path.exists() else ""
    _written(path, before + ("" if not before or before.endswith("\n") else "\n") + ("\n" if before else "") + rows)
    return path


def _written(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    except OSError as exc:
        raise ConfigError(
            f"{path} cannot be written ({exc.strerror}): correct that, or choose another file in LISTENER_SOURCES"
        ) from exc


async def _listed(settings: Settings) -> list[ListedSource]:
    """Return every source with its state from the log. Without a running Kafka, there is none: none is started for this."""
    from newsproof.app.source_list import listed_sources
    from streams.listening.memory import Cursors
    from streams.reputation.reputation_topic import read_reputations

    if (address := await running_kafka_of(ClientSettings.of(settings))) is None:
        return listed_sources(settings, {}, datetime.now(UTC))
    topics = Topics(settings.topic_prefix)
    cursors, unmarked = await asyncio.gather(Cursors(address, topics).read(), UnmarkedNews(address, topics).read())
    rows = listed_sources(settings, cursors, datetime.now(UTC), unmarked)
    reputations = (await read_reputations(KafkaLog(address), topics)).values()
    return [replace(row, reputation=tuple(r for r in reputations if r.source == row.id)) for row in rows]


_FIGURES = ("first", "copies", "confirmed", "refuted", "retracted")


def reputation_cell(known: tuple[Reputation, ...]) -> str:
    """Return a reputation as one cell: that of the language with most stories. Empty if there is none."""
    if not known:
        return ""
    most = max(known, key=lambda row: row.stories)
    return f"{_percent(most.first.share)} first, {_percent(most.retracted.share)} retracted" if most.rated else UNRATED


def reputation_lines(row: Reputation) -> list[tuple[str, str]]:
    """Return a reputation in one language as lines of (name, value)."""
    from streams.reputation.fold import RATED_FROM

    shares = {name: getattr(row, name) for name in _FIGURES}
    rows = {
        "stories": f"{row.stories}{'' if row.rated else f', {UNRATED} below {RATED_FROM}'}",
        "as of": f"{row.as_of:%Y-%m-%d %H:%M}",
        **{name: f"{share.count} of {share.of}  {_share(share)}".rstrip() for name, share in shares.items()},
        "tied": f"{row.tied} of {row.first.of}",
        "ahead by": _lead(row),
        "edited": str(row.edited),
        "lag": _seconds(row.lag_s),
    }
    rows["retracted"] += ", after the prior Beta(1, 19)"
    return [(f"{name}, {row.language}", value) for name, value in rows.items() if value]


def _cells(row: Reputation) -> tuple[str | int, ...]:
    if not row.rated:
        return (UNRATED, *[""] * (len(_FIGURES) + 2))
    shares = [_share(getattr(row, name)) for name in _FIGURES]
    return (shares[0], _lead(row), *shares[1:], row.edited, _seconds(row.lag_s))


def _share(of: Share) -> str:
    return "" if of.share is None else f"{_percent(of.share)} ({100 * of.low:.0f} to {100 * of.high:.0f})"


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.0f} %"


def _lead(row: Reputation) -> str:
    if (lead := row.lead_s) is None:
        return ""
    return _seconds(lead.median) + (
        "" if lead.low is None or lead.high is None else f" ({lead.low:.0f} to {lead.high:.0f})"
    )


def _seconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.0f} s"
