"""Live traffic: the journal followed by a group of its own, which hands out each case when it has ended."""

from __future__ import annotations

from typing import Any

from aiokafka import TopicPartition

from infra.kafka.topics import KafkaAddress, committed_by
from schemas.topics import Topics
from streams.journal.log import KafkaLog
from streams.journal.reader import JournalReader
from streams.replay import Recording, Recordings

MAX_RECORDS = 500


class LiveCases:
    """What is handed out by :meth:`next` counts as done at :meth:`commit`; a restart begins again behind what is done.

    The first start begins at the end of the journal: cases that are opened from then on.
    """

    def __init__(self, address: KafkaAddress, topics: Topics, group: str) -> None:
        self._address, self._topic, self._group = address, topics.cases, group
        self._parts: dict[TopicPartition, Recordings] = {}
        self._consumer: Any = None

    async def start(self) -> None:
        """Find the place, and take it: a restart before anything was read begins there as well."""
        reader = JournalReader(KafkaLog(self._address), self._topic)
        bounds = await reader.log.bounds(self._topic)
        known = await committed_by(self._address, self._group)
        starts = {tp: known[tp].offset if tp in known else end for tp, (_, end) in bounds.items()}
        self._parts = {tp: Recordings(fold) for tp, fold in (await reader.begin(starts)).items()}
        self._consumer = self._address.consumer(group_id=self._group, fetch_max_wait_ms=100)
        await self._consumer.start()
        self._consumer.assign(list(self._parts))
        for tp, part in self._parts.items():
            self._consumer.seek(tp, part.fold.position)
        await self.commit()

    async def next(self) -> list[Recording]:
        """Return the cases that ended in what came; after half a second without anything none."""
        got = await self._consumer.getmany(timeout_ms=500, max_records=MAX_RECORDS)
        return [recording for tp, records in got.items() for recording in self._parts[tp].take(records)]

    async def commit(self) -> None:
        """Note that everything handed out so far is done. The offset is that of the oldest case that is open."""
        await self._consumer.commit({tp: (p.fold.accepted.watermark, "") for tp, p in self._parts.items()})

    async def stop(self) -> None:
        """Let go."""
        if self._consumer is not None:
            await self._consumer.stop()
