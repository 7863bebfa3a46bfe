"""The list of sources for people: each row of ``sources.toml`` with its state in the log."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, get_args

import msgspec

from infra.listeners.failures import DO
from infra.listeners.source import KeySetting, Source, chosen, missing, own_file, sources_of
from streams.listening.memory import SourceCursor
from streams.reputation.fold import Reputation

if TYPE_CHECKING:
    from infra.settings import Settings

STATES = ("blocked", "backing_off", "left out", "stale", "never looked at", "ok", "muted", "off")
"""In display order: states that need attention come first."""


class ListedSource(msgspec.Struct, kw_only=True):
    """One source. Counts are since the listener's memory began. ``looked_at``: its last response in the log (UTC).

    ``key``: the setting of its key. ``lag_p50_s``, ``lag_p95_s``: seconds from publication to receipt, over its latest
    100 new items. ``why``: the problem, or the missing setting of a source that is left out. ``do``: what to do about
    it. ``unmarked``: number of refused records that named it without the listener's mark. ``reason``: a key of
    ``infra.listeners.failures.DO``, or no_contact.
    """

    id: str
    kind: str
    url: str
    language: str
    key: str
    official: bool
    on: bool
    state: str
    looked_at: datetime | None
    news_at: datetime | None
    lag_p50_s: float | None
    lag_p95_s: float | None
    new: int
    late: int
    edits: int
    repeats: int
    refused: int
    unmarked: int
    why: str
    reason: str
    do: str
    reputation: tuple[Reputation, ...] = ()


NO_KEY = "the listener's key is missing, so no news counts as a listed source's"
NO_KEY_DO = (
    "start a listener on this data directory (newsproof up --listen), or set LISTENER_KEY to your listener's key, for the "
    "workers, too"
)


def keys_of(settings: Settings) -> dict[str, str]:
    """Return setting → key, for the keys that are set and that a source's row may name."""
    keys = {name: getattr(settings, name.lower()) for name in get_args(KeySetting) if name}
    return {name: key.get_secret_value() for name, key in keys.items() if key is not None}


def listed_sources(
    settings: Settings, cursors: Mapping[str, SourceCursor], now: datetime, unmarked: Mapping[str, int] | None = None
) -> list[ListedSource]:
    """Return every source, those that need attention first. ``unmarked``: from :class:`UnmarkedNews`.

    Raises:
        ConfigError: the operator's file is wrong.
    """
    sources = sources_of(own_file(settings))
    on = {source.id for source in chosen(sources)}
    listed = [
        _listed(item, cursors.get(item.id), settings, now, (unmarked or {}).get(item.id, 0), is_on=item.id in on)
        for item in sources.values()
    ]
    return sorted(listed, key=lambda item: STATES.index(item.state))


def _listed(
    source: Source, cursor: SourceCursor | None, settings: Settings, now: datetime, unmarked: int, *, is_on: bool
) -> ListedSource:
    known = cursor or SourceCursor(source=source.id)
    lacks = missing(source, settings.listener_contact, keys_of(settings)) if is_on else None
    fails = is_on and not lacks
    counts = known.counts
    return ListedSource(
        id=source.id,
        kind=source.kind,
        url=source.url,
        language=source.language or "",
        key=source.key,
        official=source.official,
        on=is_on and lacks is None,
        state=("muted" if source.muted else "off") if not is_on
        else "left out" if lacks else "never looked at" if cursor is None else cursor.state_at(now),
        looked_at=known.looked_at,
        news_at=known.news_at,
        lag_p50_s=known.lag_s(0.5),
        lag_p95_s=known.lag_s(0.95),
        new=counts.get("new", 0),
        late=counts.get("late", 0) + counts.get("backfilled", 0),
        edits=counts.get("edit", 0),
        repeats=counts.get("repeat", 0),
        refused=counts.get("refused", 0),
        unmarked=unmarked,
        why=lacks or (known.why if fails else ""),
        reason=("no_contact" if source.contact else "no_key") if lacks else known.reason if fails else "",
        do=DO.get(known.reason, "") if fails else "",  # type: ignore[call-overload]
    )  # fmt: skip
