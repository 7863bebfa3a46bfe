"""Revisions of another case's signal (a retraction or a corroboration) that wait until that case has ended.

A revision is due once its target's partition has been read up to the end that it had when the event was read, and the
target's case is not open there. One that supersedes a signal of the same event also waits until its own case has ended.
From then on, its signal is on the topic or never will be. Until then, the watermark of the partition of the event's
case is held at that case's first record, so that the next publisher reads it again. A revision already published for it
is recognised by its cause.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

from aiokafka import TopicPartition

from infra.late_log import log_of
from schemas import envelope as wire
from schemas.events import RetractionFound, StoryCorroborated
from schemas.ids import signal_id
from schemas.topics import partition_of
from streams.journal.fold import JournalFold
from streams.journal.log import Cursor


class PendingRevision(NamedTuple):
    """One such event. ``read_to``: the end of the target's partition up to which it must have been read."""

    event: RetractionFound | StoryCorroborated
    env: wire.Envelope
    partition: int
    offset: int
    held_at: int
    target: TopicPartition
    read_to: int


class PendingRevisions:
    """The pending revisions of other cases' signals, in the order in which they were read."""

    def __init__(self, cursor: Cursor, parts: Mapping[TopicPartition, JournalFold]) -> None:
        self._cursor, self._parts = cursor, parts
        self._waiting: list[PendingRevision] = []

    def __len__(self) -> int:
        return len(self._waiting)

    async def add(
        self, event: RetractionFound | StoryCorroborated, env: wire.Envelope, tp: TopicPartition, offset: int
    ) -> None:
        """Add an accepted event. Ignore one whose signal does not belong to the case that it names."""
        if event.signal_id != signal_id(env.run_id, event.of_case):
            log_of(__name__).warning("ignored a revision of another case's signal", case=env.case_id)
            return
        target = TopicPartition(tp.topic, partition_of(event.of_case, len(self._parts)))
        began = self._parts[tp].accepted.open[env.case_id].first_offset
        ends = await self._cursor.ends([target])
        self._waiting.append(PendingRevision(event, env, tp.partition, offset, began, target, ends[target]))

    async def due(self, publish: Callable[[PendingRevision], Awaitable[None]]) -> None:
        """Publish every revision whose target has ended; keep the others."""
        left = []
        for pending in self._waiting:
            if await self._cursor.position(pending.target) < pending.read_to or self._is_open(pending):
                left.append(pending)
            else:
                await publish(pending)
        self._waiting = left

    def held(self, partition: int, watermark: int) -> int:
        """Return the offset to commit for a partition: at most the first offset of a case with a pending event."""
        return min([watermark, *(w.held_at for w in self._waiting if w.partition == partition)])

    def _is_open(self, pending: PendingRevision) -> bool:
        event = pending.event
        if event.of_case in self._parts[pending.target].accepted.open:
            return True
        # Of two signals of one event, the better founded one remains, so both must exist.
        rivals = isinstance(event, RetractionFound) and event.rival is not None
        own = TopicPartition(pending.target.topic, pending.partition)
        return rivals and pending.env.case_id in self._parts[own].accepted.open
