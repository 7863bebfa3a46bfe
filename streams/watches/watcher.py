"""The watcher: fires due watches and opens their investigations. Every worker of the research flow has one; none leads.

    watches ─► fold ─► due? ─► WatchFired ─► watches ─► fold ─► accepted? ─► InvestigationAsked ─► research
                                                                       └─► WatchOpened ─► watches

If a watcher is killed at any point, any other continues its work: a firing has one id per head, its investigation has
one id forever, and the journal opens a case once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Protocol

import structlog
from aiokafka import TopicPartition

from infra.clickhouse.record import epoch_ms
from schemas.errors import ContractError
from schemas.topics import NewerRecordError
from schemas.watches import WatchFired, WatchRecord, WatchSet, decode
from streams.journal.clock import append_ms
from streams.journal.log import Log
from streams.journal.retry import is_away, retry_while_unavailable
from streams.watches.rule import Watch, WatchState

log = structlog.get_logger(__name__)

LOOK_EVERY_S = 5.0
"""Maximum delay in noticing the clock or a news item. New records of the topic are read at once."""
HELP_AFTER_MS = 10_000
"""Time after which this worker opens a firing accepted from another one, which has ended or is unavailable."""


class Writer(Protocol):
    """The watcher's output (:class:`streams.watches.writer.WatchWriter`)."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def append(self, record: WatchRecord) -> int:
        """Append to ``watches``; return the offset once the record is durable."""
        ...

    async def open(self, watch: WatchSet, fired: WatchFired, at: datetime) -> None:
        """Append the opening of the firing's investigation to the journal. ``at`` (UTC): the firing's log time."""
        ...


class Matches(Protocol):
    """Matches of news and watches (:class:`streams.watches.matching.NewsMatches`)."""

    async def newest(self, watches: Sequence[Watch], now_ms: int) -> Mapping[str, tuple[int, str]]: ...

    async def close(self) -> None: ...


class Watcher:
    """One worker's watcher. ``state`` is the fold so far; ``clock`` returns the time (UTC).

    ``daily_limit``: maximum firings of one watch per UTC day.
    """

    def __init__(
        self, log: Log, topic: str, writer: Writer, matches: Matches, clock: Callable[[], datetime], daily_limit: int
    ) -> None:
        self.state = WatchState()
        self._log, self._tp = log, TopicPartition(topic, 0)
        self._writer, self._matches, self._clock, self._limit = writer, matches, clock, daily_limit
        self.garbage = self._until = 0
        self._written: set[int] = set()
        self._won: set[str] = set()
        self._told: dict[str, int] = {}
        self._running: asyncio.Task[Any] | None = None
        self._ending = False

    async def run(self) -> None:
        """Watch until :meth:`stop`, also while Kafka is unavailable.

        Raises:
            NewerRecordError: the topic holds a record of a newer version.
        """
        self._running = asyncio.current_task()
        if self._ending:
            return
        await self._writer.start()
        try:
            await retry_while_unavailable(self._follow, "the watches", unavailable=is_away)
        finally:
            await self._matches.close()
            await self._writer.stop()

    def stop(self) -> None:
        """End at once. The next worker completes any unfinished work."""
        self._ending = True
        if self._running is not None:
            self._running.cancel()

    async def _follow(self) -> None:
        self.state, self._written, self._won = WatchState(), set(), set()
        first, self._until = (await self._log.bounds(self._tp.topic))[self._tp]
        async with self._log.follow({self._tp: first}, wait_ms=500) as cursor:
            while True:
                for records in (await cursor.next(LOOK_EVERY_S)).values():
                    for record in records:
                        self._fold(record)
                # Records just written may change what is due, so read them back first.
                if await cursor.position(self._tp) >= self._until:
                    await self.act()

    def _fold(self, record: Any) -> None:
        try:
            change = decode(record.value)
        except NewerRecordError:
            raise
        except ContractError as exc:
            self.garbage += 1
            if self.garbage & (self.garbage - 1) == 0:  # the 1st, 2nd, 4th …: a flood must not fill the log
                log.warning("ignored: not a record of watches", offset=record.offset, why=str(exc), so_far=self.garbage)
            return
        accepted = self.state.fold(int(append_ms(record)), change)
        if accepted and isinstance(change, WatchFired) and record.offset in self._written:
            self._won.add(change.id)

    async def act(self) -> None:
        """Fire due watches, and open accepted firings."""
        now_ms = epoch_ms(self._clock())
        self._written.clear()
        watches = [w for w in self.state.watches.values() if w.state == "active" or w.pending]
        news = await self._matches.newest([w for w in watches if w.set.every_s is None], now_ms)
        for watch in watches:
            if watch.pending is not None:
                await self._open(watch, watch.pending, now_ms)
            elif (fired := watch.due(now_ms, news.get(watch.set.id))) is not None:
                if watch.fired_on(now_ms) < self._limit:
                    await self._append(fired)
                else:
                    self._tell_limit(watch, now_ms)

    async def _open(self, watch: Watch, fired: WatchFired, now_ms: int) -> None:
        if fired.id not in self._won and now_ms < watch.fired_at_ms + HELP_AFTER_MS:
            return
        await self._writer.open(watch.set, fired, datetime.fromtimestamp(watch.fired_at_ms / 1000, UTC))
        self._won.discard(fired.id)
        await self._append(watch.opening())

    async def _append(self, record: WatchRecord) -> None:
        offset = await self._writer.append(record)
        self._written.add(offset)
        self._until = max(self._until, offset + 1)

    def _tell_limit(self, watch: Watch, now_ms: int) -> None:
        day = now_ms // (24 * 3600 * 1000)
        if self._told.get(watch.set.id) != day:
            self._told[watch.set.id] = day
            log.warning(
                "a watch has reached its limit of runs today (UTC); it runs again tomorrow, or raise WATCH_DAILY_LIMIT",
                watch=watch.set.id, subject=watch.set.subject, fired=watch.fired_on(now_ms),
            )  # fmt: skip
