"""The records of the ``watches`` topic: recurring investigations. One partition, so one order for everyone.

    WatchSet ─► WatchFired(n) ─► WatchOpened(n) ─► WatchFired(n + 1) ─► …      WatchPaused, WatchResumed, WatchEnded at any time

A firing and its opening name the watch's last accepted record as their ``cause`` and have an id made of it, like the events
of a case. Acceptance is in no record: every reader folds them by one rule (``streams.watches.rule``). Times of records are
those of their append at the broker.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from schemas.ids import event_id, investigation_id, normalise_text
from schemas.topics import RecordCodec

VERSION = 1
MIN_EVERY_S = 1800
"""Shortest interval: an investigation may take 15 minutes, and its brief must be published before the next one begins."""
MAX_EVERY_S = 30 * 24 * 3600
MAX_SUBJECT = 500
"""Characters."""
SOURCE_PREFIX = "watch:"
"""Prefix of the source of news published by a watch. No watch fires on such news."""
_NAME_CHARACTERS = 60
_MAX_ID = 100
_RUN = "watches"


class WatchSet(msgspec.Struct, frozen=True, kw_only=True, tag="newsproof.watch_set"):
    """A watch begins. It fires at once, then every ``every_s`` seconds; None: whenever a news item concerns the subject.

    ``id`` is the id of the watch. ``subject`` is the question as written, ``language`` (zh, en or other) its language. ``by``:
    origin of the setting.
    """

    id: str
    subject: str
    every_s: int | None
    language: str
    by: str
    version: int = VERSION

    def __post_init__(self) -> None:
        if not 0 < len(self.id) <= _MAX_ID:
            raise ValueError(f"an id must have 1 to {_MAX_ID} characters")
        # A subject that cannot open an investigation would end every watcher that tries.
        if not (normalise_text(self.subject) and len(self.subject) <= MAX_SUBJECT):
            raise ValueError(f"a subject must have 1 to {MAX_SUBJECT} characters, a word among them")
        if self.every_s is not None and not MIN_EVERY_S <= self.every_s <= MAX_EVERY_S:
            raise ValueError(f"an interval must be within {MIN_EVERY_S} and {MAX_EVERY_S} s")

    @property
    def watch(self) -> str:
        """The id of the watch."""
        return self.id


class WatchFired(msgspec.Struct, frozen=True, kw_only=True, tag="newsproof.watch_fired"):
    """The watch is due for the ``n``-th time, from 1. ``news``: the case that triggered it.

    ``due_at`` (UTC) is the due time, the latest of several missed ones; on news, the time of that case's triage.
    """

    id: str
    watch: str
    cause: str
    n: int
    due_at: datetime
    news: str | None = None
    version: int = VERSION

    @property
    def investigation(self) -> str:
        """The id of the investigation that it opens, the same for every opener."""
        return investigation_id("watch", self.watch, self.news or str(self.n))


class WatchOpened(msgspec.Struct, frozen=True, kw_only=True, tag="newsproof.watch_opened"):
    """The investigation of the ``n``-th firing is on the log, so nobody opens it again."""

    id: str
    watch: str
    cause: str
    n: int
    investigation: str
    version: int = VERSION


class WatchPaused(msgspec.Struct, frozen=True, kw_only=True, tag="newsproof.watch_paused"):
    """The watch does not fire until it is resumed."""

    id: str
    watch: str
    by: str
    version: int = VERSION


class WatchResumed(msgspec.Struct, frozen=True, kw_only=True, tag="newsproof.watch_resumed"):
    """The watch fires again at its next time. Missed firings are not repeated."""

    id: str
    watch: str
    by: str
    version: int = VERSION


class WatchEnded(msgspec.Struct, frozen=True, kw_only=True, tag="newsproof.watch_ended"):
    """The watch never fires again."""

    id: str
    watch: str
    by: str
    version: int = VERSION


WatchCommand = WatchPaused | WatchResumed | WatchEnded
WatchRecord = WatchSet | WatchFired | WatchOpened | WatchCommand

_codec: RecordCodec[WatchRecord] = RecordCodec(WatchRecord, "watches", tags="newsproof.watch_", version=VERSION)
encode, decode, known = _codec.encode, _codec.decode, _codec.known


def successor_id(watch: str, head: str) -> str:
    """Return the id of the only firing or opening that may follow this record of a watch."""
    return event_id(_RUN, watch, head)


def source_of(subject: str) -> str:
    """Return the source of the news that a watch of this subject publishes, such as ``watch:deepseek``."""
    return SOURCE_PREFIX + normalise_text(subject).replace(" ", "-")[:_NAME_CHARACTERS]
