"""Live traffic: follows the journal with its own consumer group and yields each case when it has ended."""

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
    """Cases returned by :meth:`next` count as done at :meth:`commit`; a restart continues after what is done.

    The first start begins at the end of the journal, with cases opened from then on.
    """

    def __init__(self, address: KafkaAddress, topics: Topics, group: str) -> None:
        self._address, self._topic, self._group = address, topics.cases, group
        self._parts: dict[TopicPartition, Recordings] = {}
        self._consumer: Any = None

    async def start(self) -> None:
        """Find the start offsets and commit them, so that a restart before the first read begins there too."""
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
        """Return the cases that ended in the next batch; empty after half a second without records."""
        got = await self._consumer.getmany(timeout_ms=500, max_records=MAX_RECORDS)
        return [recording for tp, records in got.items() for recording in self._parts[tp].take(records)]

    async def commit(self) -> None:
        """Mark everything returned so far as done. The offset is that of the oldest open case."""
        await self._consumer.commit({tp: (p.fold.accepted.watermark, "") for tp, p in self._parts.items()})

    async def stop(self) -> None:
        if self._consumer is not None:
            await self._consumer.stop()
