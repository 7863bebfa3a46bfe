"""The watcher: fires what is due and opens its investigations. Every worker of the research flow has one, and none leads.

    watches ─► fold ─► due? ─► WatchFired ─► watches ─► fold ─► accepted? ─► InvestigationAsked ─► research
                                                                       └─► WatchOpened ─► watches

Whoever is killed at any point is followed by any other: a firing has one id for one head, its investigation one id for ever,
and the journal opens a case once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Protocol

import structlog
from aiokafka import TopicPartition

from schemas.errors import ContractError
from schemas.record_codec import NewerRecordError
from schemas.watches import WatchFired, WatchRecord, WatchSet, decode
from streams.journal.clock import append_ms, appended_at
from streams.journal.log import Cursor, Log
from streams.watches.rule import Watch, WatchState, ms_of

log = structlog.get_logger(__name__)

LOOK_EVERY_S = 1.0
HELP_AFTER_MS = 10_000
"""A firing that another worker got accepted is opened by this one after so long: the other one was killed, or is away."""


class Openings(Protocol):
    """Where the watcher writes to. Both calls return once the record is durable."""

    async def append(self, record: WatchRecord) -> int:
        """Append to ``watches``; return the offset."""
        ...

    async def open(self, watch: WatchSet, fired: WatchFired, at: datetime) -> None:
        """Append the opening of the firing's investigation to the journal. ``at`` (UTC): when it fired, by the log."""
        ...


class Matches(Protocol):
    """Which news matches which watch."""

    async def newest(self, watches: list[Watch]) -> dict[str, tuple[int, str]]:
        """Return watch → triage time (ms) and case of the newest match, for watches on news that have one."""
        ...


class Watcher:
    """One worker's part in the watches. ``state`` is the fold so far. ``clock`` gives the time (UTC)."""

    def __init__(
        self,
        log: Log,
        topic: str,
        openings: Openings,
        matches: Matches,
        *,
        clock: Callable[[], datetime],
        daily_limit: int,
        wait: Callable[[Cursor], Awaitable[object]] | None = None,
    ) -> None:
        self.state = WatchState()
        self._log, self._tp = log, TopicPartition(topic, 0)
        self._openings, self._matches, self._clock, self._limit = openings, matches, clock, daily_limit
        self._mine: dict[str, int] = {}
        self._seen_at = 0
        self._told: set[tuple[str, int]] = set()
