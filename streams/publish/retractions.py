"""Retractions that wait for the signal that they withdraw: it may be of a case that still runs.

A retraction is due when its target's partition was read up to where it ended when the retraction was read, and the
target's case is not open there. Then its signal stands on the topic, or there never will be one. Until then the
watermark of the denying case's partition is held where that case begins, so whoever publishes next reads it again; what
was published for it meanwhile is known by its cause.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

import structlog
from aiokafka import TopicPartition

from schemas import envelope as wire
from schemas.events import RetractionFound
from schemas.ids import signal_id
from schemas.topics import partition_of
from streams.journal.fold import JournalFold
from streams.journal.log import Cursor

log = structlog.get_logger(__name__)


class Waiting(NamedTuple):
    """One retraction. ``read_to``: the end of the target's partition by which the target must have been seen."""

    event: RetractionFound
    env: wire.Envelope
    partition: int
    offset: int
    held_at: int
    target: TopicPartition
    read_to: int


class Retractions:
    """Those that wait, in the order in which they were read."""

    def __init__(self, cursor: Cursor, parts: Mapping[TopicPartition, JournalFold]) -> None:
        self._cursor, self._parts = cursor, parts
        self._waiting: list[Waiting] = []

    def __len__(self) -> int:
        return len(self._waiting)

    async def add(self, event: RetractionFound, env: wire.Envelope, tp: TopicPartition, offset: int) -> None:
        """Take one that was accepted; one that names a signal and a case that do not belong together is passed by."""
        if event.signal_id != signal_id(env.run_id, event.of_case):
            log.warning("a retraction of a signal that is not its case's: passed by", case=env.case_id)
            return
        target = TopicPartition(tp.topic, partition_of(event.of_case, len(self._parts)))
        began = self._parts[tp].accepted.open[env.case_id].first_offset
        ends = await self._cursor.ends([target])
        self._waiting.append(Waiting(event, env, tp.partition, offset, began, target, ends[target]))

    async def due(self, publish: Callable[[Waiting], Awaitable[None]]) -> None:
        """Hand over every one whose target has ended, and keep the others."""
        left = []
        for one in self._waiting:
            if await self._cursor.position(one.target) < one.read_to or self._is_open(one):
                left.append(one)
            else:
                await publish(one)
        self._waiting = left

    def held(self, partition: int, watermark: int) -> int:
        """Return the offset to commit for a partition: not beyond the beginning of a case whose retraction waits."""
        return min([watermark, *(w.held_at for w in self._waiting if w.partition == partition)])

    def _is_open(self, one: Waiting) -> bool:
        return one.event.of_case in self._parts[one.target].accepted.open
