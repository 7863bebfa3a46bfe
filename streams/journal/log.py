"""The log as readers without a consumer group see it: on Kafka, or in memory in tests (:mod:`tests.streams.memory_log`).

Records come in batches: one awaited call per record cost the audit 92 % of its time. A record has ``topic``,
``partition``, ``offset``, ``timestamp`` (ms), ``key``, ``value`` and ``headers``, like aiokafka's ``ConsumerRecord``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Literal, Protocol

from aiokafka import AIOKafkaConsumer, TopicPartition

from infra.kafka.positions import skip_to
from infra.kafka.topics import KafkaAddress, offsets_of, partitions_of, read_range

Bounds = Mapping[TopicPartition, tuple[int, int]]
"""First offset and end offset of each partition."""
Batches = Mapping[TopicPartition, Sequence[Any]]
Isolation = Literal["read_committed", "read_uncommitted"]
UNCOMMITTED: Isolation = "read_uncommitted"


class Cursor(Protocol):
    """Read positions in a set of partitions."""

    async def next(self, timeout_s: float) -> Batches:
        """Return new records, in offset order per partition; empty if none arrived within ``timeout_s``."""
        ...

    async def position(self, tp: TopicPartition) -> int:
        """Return the offset after the returned records and after any transaction markers that follow them."""
        ...

    async def ends(self, tps: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the present end offsets, from the broker.

        Raises:
            KafkaError: the broker does not respond.
        """
        ...

    def skip_to(self, tp: TopicPartition, offset: int) -> None:
        """Skip the records before this offset: the caller has them."""
        ...


class Log(Protocol):
    """A log of partitions whose offsets may have gaps: transaction markers and aborted records."""

    async def bounds(self, topic: str, *, isolation: Isolation = UNCOMMITTED) -> dict[TopicPartition, tuple[int, int]]:
        """Return the present first and end offset of each partition of a topic; empty if the topic does not exist."""
        ...

    async def offsets_at(self, tps: Iterable[TopicPartition], ms: int) -> dict[TopicPartition, int | None]:
        """Return the first offset appended at or after a time (ms since 1970); None if there is none."""
        ...

    def replay(
        self, spans: Bounds, *, isolation: Isolation = UNCOMMITTED, batch: int = 1000
    ) -> AsyncIterator[tuple[TopicPartition, Sequence[Any]]]:
        """Yield (partition, records) of each half-open range of offsets, in order per partition, then stop."""
        ...

    def follow(
        self,
        starts: Mapping[TopicPartition, int],
        *,
        isolation: Isolation = UNCOMMITTED,
        max_records: int = 1000,
        wait_ms: int = 100,
    ) -> AbstractAsyncContextManager[Cursor]:
        """Return a cursor at these offsets. ``wait_ms``: how long the broker may hold an empty fetch."""
        ...


class KafkaLog:
    """The log on Kafka, read without a consumer group: no commits, no rebalances."""

    def __init__(self, address: KafkaAddress, **client: Any) -> None:
        """``client``: further arguments of the consumers, such as ``client_id``."""
        self._address, self._client = address, client

    async def bounds(self, topic: str, *, isolation: Isolation = UNCOMMITTED) -> dict[TopicPartition, tuple[int, int]]:
        return await offsets_of(self._address, topic, isolation_level=isolation, **self._client)

    async def offsets_at(self, tps: Iterable[TopicPartition], ms: int) -> dict[TopicPartition, int | None]:
        async with self._address.reading(**self._client) as consumer:
            times = dict.fromkeys(tps, ms)
            for topic in {tp.topic for tp in times}:
                # A request for a topic whose leaders the client does not know fails, and is repeated 0.1 s later.
                await partitions_of(consumer, topic)
            offsets = await consumer.offsets_for_times(times)
        return {tp: None if at is None else int(at.offset) for tp, at in offsets.items()}

    def replay(
        self, spans: Bounds, *, isolation: Isolation = UNCOMMITTED, batch: int = 1000
    ) -> AsyncIterator[tuple[TopicPartition, Sequence[Any]]]:
        return read_range(self._address, dict(spans), batch=batch, isolation_level=isolation, **self._client)

    @asynccontextmanager
    async def follow(
        self,
        starts: Mapping[TopicPartition, int],
        *,
        isolation: Isolation = UNCOMMITTED,
        max_records: int = 1000,
        wait_ms: int = 100,
    ) -> AsyncIterator[Cursor]:
        more = {"isolation_level": isolation, "fetch_max_wait_ms": wait_ms, **self._client}
        async with self._address.reading(**more) as consumer:
            consumer.assign(list(starts))
            for tp, offset in starts.items():
                consumer.seek(tp, offset)
            yield _KafkaCursor(consumer, max_records)


class _KafkaCursor:
    def __init__(self, consumer: AIOKafkaConsumer, max_records: int) -> None:
        self._consumer, self._max_records = consumer, max_records

    async def next(self, timeout_s: float) -> Batches:
        got: Batches = await self._consumer.getmany(timeout_ms=round(timeout_s * 1000), max_records=self._max_records)
        return got

    async def position(self, tp: TopicPartition) -> int:
        return int(await self._consumer.position(tp))

    async def ends(self, tps: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return dict(await self._consumer.end_offsets(list(tps)))

    def skip_to(self, tp: TopicPartition, offset: int) -> None:
        skip_to(self._consumer, tp, offset)


async def starts_since(log: Log, topic: str, ms: int) -> dict[TopicPartition, int]:
    """Return each partition's first offset appended at or after a time (ms since 1970); its end if there is none."""
    bounds = await log.bounds(topic)
    offsets = await log.offsets_at(bounds, ms)
    return {tp: end if (at := offsets[tp]) is None else at for tp, (_, end) in bounds.items()}


async def record_ends(log: Log, spans: Bounds) -> dict[TopicPartition, int]:
    """Return the offset after the last record of each range; the range's start if there is none.

    The broker's end offset counts foreign transaction markers, after which no record may follow.
    """
    ends = {tp: first for tp, (first, _) in spans.items()}
    left, back = dict(spans), 1
    while left:
        asked = {tp: (max(first, end - back), end) for tp, (first, end) in left.items()}
        async for tp, records in log.replay(asked):
            ends[tp] = records[-1].offset + 1
        left = {tp: span for tp, span in left.items() if ends[tp] == span[0] and asked[tp][0] > span[0]}
        back *= 16
    return ends
