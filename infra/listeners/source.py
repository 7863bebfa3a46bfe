"""The list of sources: the rows of ``sources.toml`` in this folder, and those of the operator's own file."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterable, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal
from zoneinfo import ZoneInfo

import msgspec

from schemas.errors import ConfigError, ContractError

if TYPE_CHECKING:
    from infra.client_settings import ClientSettings
    from infra.settings import Settings

Kind = Literal["feed", "json", "telegram", "socket", "markets"]
KeySetting = Literal["", "CRYPTOPANIC_API_KEY", "PHOENIX_API_KEY", "TREEOFALPHA_API_KEY"]
Text = Annotated[str, msgspec.Meta(max_length=2048)]
SHIPPED = Path(__file__).with_name("sources.toml")
MAX_PAUSE_S = 86_400.0
UNMARKED = "unmarked_source"
"""Reason for a refusal: the news names a listed source and lacks the listener's mark."""


class Source(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A source. ``id`` is the ``source`` of its news.

    ``kind``: feed (RSS, Atom), json, telegram (the public preview of a channel), socket (a WebSocket with JSON
    messages), markets (an exchange's list of markets; ``url`` is its id in ccxt). ``every_s``: seconds between two
    polls. ``timezone``: for dates without one. ``group``: the owner. ``official``: the source speaks for the party that
    it reports on. ``default``: on unless muted. ``terms_note`` and ``evidence`` are for people.
    """

    id: Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")]
    kind: Kind
    url: Text
    language: str | None = None
    timezone: str = "UTC"
    every_s: Annotated[float, msgspec.Meta(ge=1, le=MAX_PAUSE_S)] = 60.0
    group: str = ""
    official: bool = False
    default: bool = False
    muted: bool = False
    terms_note: str = ""
    evidence: str = ""
    robots: bool = True
    """False: the address is published for programs, so robots.txt, which is meant for crawlers, is not read."""
    private: bool = False
    """True: the address need not be public, such as an RSSHub on this machine."""
    contact: bool = False
    """True: the publisher refuses requests without a contact (``LISTENER_CONTACT``)."""
    key: KeySetting = ""
    """The setting whose value replaces ``{key}`` in ``url``, ``headers`` and ``subscribe``. The source requires it."""
    headers: dict[str, str] = {}
    strip: tuple[str, ...] = ()
    """Regular expressions for text to remove, such as the medium's name before every flash."""
    keep: tuple[str, ...] = ()
    """Regular expressions. The title must match one of them; empty: every item is kept."""
    # For JSON: paths such as ``data[].details[]``, or templates such as ``https://host/{code}``. ``^`` is the outer
    # object.
    items: str = ""
    item_id: str = ""
    title: str = ""
    text: str = ""
    link: str = ""
    published: str = ""
    needs_items: bool = False
    """True: a response without items counts as a failure, because the source then refuses without saying so."""
    subscribe: str = ""
    """For a socket: the first message to send."""
    ping: str = ""
    pong: str = ""
    """For a socket: the reply to a text message ``ping``."""
    refill: str = ""
    """For a socket: a JSON address with the same items, at ``refill_items``; polled once after each connection."""
    refill_items: str = ""


class _File(msgspec.Struct, forbid_unknown_fields=True):
    source: list[dict[str, Any]] = []


def own_file(settings: Settings | ClientSettings) -> Path:
    """Return the file of the operator's own sources, which may not exist yet.

    Raises:
        ConfigError: LISTENER_SOURCES names a file that does not exist.
    """
    named = None if settings.listener_sources is None else Path(settings.listener_sources)
    if named is not None and not named.is_file():
        raise ConfigError(f"LISTENER_SOURCES names {named}, but this file does not exist: correct it, or unset it")
    return named or Path(settings.newsproof_data_dir) / "sources.toml"


def sources_of(own_file: Path | None) -> dict[str, Source]:
    """Return id → source, in the order of the files. ``own_file``: the operator's, or None.

    A row of the own file with a known id changes the fields that it names. Other rows are additional sources, on by
    default.

    Raises:
        ConfigError: a file cannot be read, or a row is wrong; the text names the row.
    """
    try:
        status = None if own_file is None else own_file.stat()
    except OSError:
        status = None
    if own_file is None or status is None:
        return dict(_shipped())
    return dict(_with(own_file, (status.st_mtime_ns, status.st_size)))


def chosen(sources: Mapping[str, Source], only: Iterable[str] = ()) -> list[Source]:
    """Return the sources that are on, or those named in ``only``, whether on or not.

    Raises:
        ConfigError: ``only`` names an unknown source.
    """
    wanted = list(only)
    if unknown := [name for name in wanted if name not in sources]:
        raise ConfigError(f"there is no source {', '.join(unknown)}: `newsproof sources` lists them all")
    if wanted:
        return [sources[name] for name in wanted]
    return [source for source in sources.values() if source.default and not source.muted]


def refuse_listed(source: str, listed: Collection[str]) -> None:
    """Refuse news that names a listed source and does not come from the listener.

    Raises:
        ContractError: unmarked_source; the text says what to change.
    """
    if source in listed:
        raise ContractError(
            f"{source!r} is a listed source, whose news the listener alone publishes: choose another source id, or send it "
            "to a webhook of that id (docs/sources.md)",
            reason=UNMARKED,
        )


def missing(source: Source, contact: str, keys: Collection[str]) -> str | None:
    """Return an instruction to set what this source still needs, or None. ``keys``: the settings that have a key."""
    if source.key and source.key not in keys:
        return f"set {source.key}: this publisher requires a key"
    if source.contact and not contact:
        return "set LISTENER_CONTACT to an e-mail address: this publisher requires one"
    return None


@lru_cache(maxsize=8)  # called for each incoming item
def _with(own_file: Path, _stamp: tuple[int, int]) -> dict[str, Source]:
    return _shipped() | _merged(_shipped(), _rows(own_file), own_file)


@cache
def _shipped() -> dict[str, Source]:
    return _merged({}, _rows(SHIPPED), SHIPPED)


def _rows(path: Path) -> list[dict[str, Any]]:
    try:
        return msgspec.convert(tomllib.loads(path.read_text("utf-8")), _File).source
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigError(f"LISTENER_SOURCES: {path} cannot be read ({exc}): give a TOML file, or remove it") from exc
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as exc:
        raise ConfigError(
            f"LISTENER_SOURCES: {path} is not a list of sources ({exc}): write [[source]] with id, kind and url"
        ) from exc


def _merged(known: Mapping[str, Source], rows: list[dict[str, Any]], path: Path) -> dict[str, Source]:
    merged: dict[str, Source] = {}
    for number, row in enumerate(rows, 1):
        name = str(row.get("id"))
        before = merged.get(name) or known.get(name)
        given = msgspec.structs.asdict(before) if before else {"default": path != SHIPPED}
        try:
            merged[name] = _checked(msgspec.convert(given | row, Source))
        except (msgspec.ValidationError, ValueError, re.error) as exc:
            raise ConfigError(
                f"LISTENER_SOURCES: source {number} of {path} ({name!r:.70}) is wrong: {exc}; correct that row"
            ) from exc
    return merged


def _checked(source: Source) -> Source:
    schemes = {"socket": ("wss://", "ws://"), "markets": ("",)}.get(source.kind, ("https://", "http://"))
    if not source.url.startswith(schemes):
        raise ValueError(f"url of kind {source.kind} must begin with {' or '.join(schemes)}")
    if source.kind in ("json", "socket") and not (source.title or source.text):
        raise ValueError("title or text must say where the item's text is")
    if ("{key}" in f"{source.url}{source.subscribe}{source.headers}") != bool(source.key):
        raise ValueError("key names a setting, and {key} in url, headers or subscribe is its value: write both")
    try:
        ZoneInfo(source.timezone)
    except (OSError, ValueError, KeyError) as exc:
        raise ValueError(f"timezone {source.timezone!r} is unknown; write one such as Asia/Shanghai") from exc
    for pattern in (*source.strip, *source.keep):
        re.compile(pattern)
    return source


class Validators(msgspec.Struct, frozen=True, omit_defaults=True):
    """The last response's ETag and Last-Modified, and the hash of its body."""

    etag: str = ""
    last_modified: str = ""
    body_hash: str = ""
