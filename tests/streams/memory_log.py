"""A log in memory that behaves like Kafka's: offset gaps, two isolation levels, an end that may exceed the last record.

For tests, and for runs of `lab` in compressed time. Not modelled: retention, compaction, several brokers.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from aiokafka import TopicPartition
from aiokafka.errors import KafkaConnectionError

from streams.journal.log import UNCOMMITTED, Batches, Bounds, Cursor, Isolation


class MemoryRecord(msgspec.Struct, frozen=True):
    """One record, with the attributes of aiokafka's ``ConsumerRecord`` that readers use.

    ``timestamp`` in ms since 1970.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes]]


class MemoryLog:
    """Topics with a fixed number of partitions each. Append and read on one event loop."""

    def __init__(self, topics: Mapping[str, int]) -> None:
        self._counts = dict(topics)
        self._of = {TopicPartition(t, n): _Partition() for t, count in topics.items() for n in range(count)}
        self._left: int | None = None
        self._moved = asyncio.Event()

    def append(
        self,
        topic: str,
        partition: int,
        *,
        value: bytes | None,
        key: bytes | None = None,
        headers: Sequence[tuple[str, bytes]] = (),
        timestamp: int = 0,
        aborted: bool = False,
    ) -> int:
        """Append a record and return its offset. ``aborted``: in an aborted transaction, hidden from read_committed."""
        part = self._of[TopicPartition(topic, partition)]
        record = MemoryRecord(topic, partition, part.end, timestamp, key, value, tuple(headers))
        part.add(record, aborted=aborted)
        self._wake()
        return record.offset

    def skip(self, topic: str, partition: int, offsets: int = 1) -> None:
        """Leave a gap, as the marker at the end of a transaction does."""
        self._of[TopicPartition(topic, partition)].end += offsets
        self._wake()

    def break_after(self, records: int | None) -> None:
        """After this many more records, raise KafkaConnectionError at every read; None repairs it."""
        self._left = records
        self._wake()

    async def bounds(self, topic: str, *, isolation: Isolation = UNCOMMITTED) -> dict[TopicPartition, tuple[int, int]]:
        self._refuse_if_broken()
        tps = (TopicPartition(topic, n) for n in range(self._counts.get(topic, 0)))
        return {tp: (0, self._of[tp].end) for tp in tps}

    async def offsets_at(self, tps: Iterable[TopicPartition], ms: int) -> dict[TopicPartition, int | None]:
        self._refuse_if_broken()
        return {tp: next((r.offset for r in self._of[tp].records if r.timestamp >= ms), None) for tp in tps}

    async def replay(
        self, spans: Bounds, *, isolation: Isolation = UNCOMMITTED, batch: int = 5000
    ) -> AsyncIterator[tuple[TopicPartition, Sequence[Any]]]:
        self._refuse_if_broken()
        for tp, (first, end) in spans.items():
            at = first
            while at < end and (records := self._read(tp, at, min(end, self._of[tp].end), isolation, batch)):
                yield tp, records
                at = records[-1].offset + 1

    @asynccontextmanager
    async def follow(
        self,
        starts: Mapping[TopicPartition, int],
        *,
        isolation: Isolation = UNCOMMITTED,
        max_records: int = 5000,
        wait_ms: int = 100,
    ) -> AsyncIterator[Cursor]:
        self._refuse_if_broken()
        yield _MemoryCursor(self, dict(starts), isolation, max_records)

    def _read(
        self, tp: TopicPartition, first: int, end: int, isolation: Isolation, most: int
    ) -> Sequence[MemoryRecord]:
        records = self._of[tp].between(first, end, committed=isolation == "read_committed")[:most]
        if self._left is not None and records:
            self._refuse_if_broken()
            records = records[: self._left]
            self._left -= len(records)
        return records

    def _refuse_if_broken(self) -> None:
        if self._left is not None and self._left <= 0:
            raise KafkaConnectionError("the log in memory was cut off here")

    def _wake(self) -> None:
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()


class _Partition:
    def __init__(self) -> None:
        self.records: list[MemoryRecord] = []
        self.aborted: set[int] = set()
        self.end = 0

    def add(self, record: MemoryRecord, *, aborted: bool) -> None:
        self.records.append(record)
        self.end = record.offset + 1
        if aborted:
            self.aborted.add(record.offset)

    def between(self, first: int, end: int, *, committed: bool) -> Sequence[MemoryRecord]:
        inside = self.records[self._index(first) : self._index(end)]
        return [r for r in inside if r.offset not in self.aborted] if committed and self.aborted else inside

    def _index(self, offset: int) -> int:
        return bisect_left(self.records, offset, key=lambda record: record.offset)


class _MemoryCursor:
    def __init__(
        self, log: MemoryLog, positions: dict[TopicPartition, int], isolation: Isolation, max_records: int
    ) -> None:
        self._log, self._positions = log, positions
        self._isolation, self._max_records = isolation, max_records

    async def next(self, timeout_s: float) -> Batches:
        if not (got := self._take()):
            moved = self._log._moved
            try:
                await asyncio.wait_for(moved.wait(), timeout_s)
            except TimeoutError:
                return {}
            got = self._take()
        return got

    def _take(self) -> dict[TopicPartition, Sequence[MemoryRecord]]:
        self._log._refuse_if_broken()
        got: dict[TopicPartition, Sequence[MemoryRecord]] = {}
        left = self._max_records
        for tp, at in self._positions.items():
            end = self._log._of[tp].end
            records = self._log._read(tp, at, end, self._isolation, left) if left else ()
            left -= len(records)
            whole = not records or records[-1] is self._log._of[tp].records[-1]
            # Only markers follow the last record; like a consumer, the cursor skips them.
            self._positions[tp] = end if left and whole else records[-1].offset + 1 if records else at
            if records:
                got[tp] = records
        return got

    async def position(self, tp: TopicPartition) -> int:
        return self._positions[tp]

    async def ends(self, tps: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        self._log._refuse_if_broken()
        return {tp: self._log._of[tp].end for tp in tps}

    def skip_to(self, tp: TopicPartition, offset: int) -> None:
        self._positions[tp] = max(self._positions[tp], offset)
