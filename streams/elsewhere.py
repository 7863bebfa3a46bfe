"""Elsewhere: how many cases are open in the journal partitions of other workers, followed by headers alone.

A case lies where its id says, so intake opens cases for other workers too, and holds back where they have their part of
open cases already. Each worker judges by what it has read: several that open into one partition at the same moment may
together go over its part by what they have under way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog
from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from infra.kafka import KafkaAddress, committed_by, members_of, offsets_of
from schemas.errors import TransientError
from streams.following import FollowedPartition, load_tombstones

log = structlog.get_logger(__name__)

_RETRY_S = 1.0


class Elsewhere:
    """The open cases of the partitions that others own. ``on_moved`` is called when more was read."""

    def __init__(self, address: KafkaAddress, topic: str, group: str, *, limit: int, partitions: int) -> None:
        self._address, self._topic, self._group = address, topic, group
        self._limit, self._partitions = limit, partitions
        self._share = 0
        self._parts: dict[int, FollowedPartition] = {}
        self._task: asyncio.Task[None] | None = None
        self.on_moved: Callable[[], None] = lambda: None

    def room_in(self, partition: int) -> int:
        """How many cases more this partition may have open; 0 while that is not known."""
        part = self._parts.get(partition)
        return 0 if part is None else max(0, self._share - len(part.accepted.open))

    def position_of(self, partition: int) -> int:
        """The offset after the last record read; 0 while nothing is."""
        part = self._parts.get(partition)
        return 0 if part is None else part.accepted.position

    def follow(self, numbers: set[int]) -> None:
        """Follow these partitions instead of those before."""
        self._parts = {}
        if self._task is not None:
            self._task.cancel()
        self._task = asyncio.create_task(self._keep_following(numbers), name="elsewhere") if numbers else None

    async def stop(self) -> None:
        """Stop reading."""
        self.follow(set())

    async def _keep_following(self, numbers: set[int]) -> None:
        while True:
            try:
                await self._follow(numbers)
            except (KafkaError, TransientError, OSError) as exc:
                log.warning("following other workers' partitions starts over", error=repr(exc))
                await asyncio.sleep(_RETRY_S)

    async def _follow(self, numbers: set[int]) -> None:
        # Partitions are spread evenly, so nobody has more of them than this, and none of them more than this part.
        members = max(1, len(await members_of(self._address, self._group)))
        self._share = max(1, self._limit // -(-self._partitions // members))
        bounds = await offsets_of(self._address, self._topic)
        known = await committed_by(self._address, self._group)
        tps = [TopicPartition(self._topic, n) for n in sorted(numbers)]
        count = self._partitions
        starts = {tp: known[tp].offset if tp in known else bounds[tp][0] for tp in tps}
        parts = {tp: FollowedPartition(start, partitions=count) for tp, start in starts.items()}
        before = {tp: p.accepted for tp, p in parts.items()}
        await load_tombstones(self._address, before, {tp: bounds[tp][0] for tp in tps}, partitions=count)
        consumer = self._address.consumer(fetch_max_wait_ms=50)
        await consumer.start()
        try:
            consumer.assign(tps)
            for tp, part in parts.items():
                consumer.seek(tp, part.accepted.position)
            while True:
                got = await consumer.getmany(timeout_ms=1000, max_records=5000)
                for tp, records in got.items():
                    for record in records:
                        parts[tp].judge(record)
                for tp in tps:
                    if tp.partition not in self._parts and parts[tp].accepted.position >= bounds[tp][1]:
                        self._parts[tp.partition] = parts[tp]
                self.on_moved()
        finally:
            await consumer.stop()
