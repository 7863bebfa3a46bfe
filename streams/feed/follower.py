"""Follows one topic without a group, for as long as it runs: through restarts of Kafka, and from wherever it stood."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal

import structlog
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from infra.kafka.topics import KafkaAddress, partitions_of
from schemas.errors import TransientError

log = structlog.get_logger(__name__)

Bounds = Mapping[TopicPartition, tuple[int, int]]
"""First and end offset of each partition."""
Start = Callable[[Bounds], Awaitable[dict[TopicPartition, int]]]
Take = Callable[[TopicPartition, Sequence[Any]], None]
BATCH = 200
"""Records between two turns of the event loop: other streams are served while a long stretch is read."""
AGAIN_S = 1.0
ASK_S = 5.0


class Follower:
    """Reads a topic from where ``start`` says, and hands on what comes. ``ready`` is set when the end of the start is reached.

    ``start`` is asked once, with the offsets of that moment, and again where it fails with a TransientError; after that the follower goes on from its own positions.
    """

    def __init__(
        self,
        address: KafkaAddress,
        topic: str,
        *,
        start: Start,
        take: Take,
        isolation: Literal["read_committed", "read_uncommitted"],
    ) -> None:
        self._address, self._topic, self._isolation = address, topic, isolation
        self._start, self._take = start, take
        self._positions: dict[TopicPartition, int] = {}
        self._until: dict[TopicPartition, int] = {}
        self.ready = asyncio.Event()
        self.away = False
        self.why = ""

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """The next offset of each partition."""
        return self._positions

    async def run(self) -> None:
        """Follow until cancelled."""
        while True:
            try:
                async with self._address.reading(
                    isolation_level=self._isolation, fetch_max_wait_ms=100, client_id="newsproof-web"
                ) as consumer:
                    if await self._assign(consumer):
                        self.away = False
                        await self._follow(consumer)
            except (KafkaError, OSError, TimeoutError, TransientError) as exc:
                if not self.away:
                    log.warning("Kafka is away, trying again", topic=self._topic, error=repr(exc)[:300])
                self.away, self.why = True, repr(exc)[:300]
            await asyncio.sleep(AGAIN_S)

    async def _assign(self, consumer: AIOKafkaConsumer) -> bool:
        tps = [TopicPartition(self._topic, p) for p in await partitions_of(consumer, self._topic)]
        if not tps:
            self.why = f"there is no topic {self._topic} yet"
            return False
        consumer.assign(tps)
        if not self._positions:
            first, end = await consumer.beginning_offsets(tps), await consumer.end_offsets(tps)
            self._until = dict(end)
            self._positions = await self._start({tp: (first[tp], end[tp]) for tp in tps})
        for tp in tps:
            consumer.seek(tp, self._positions[tp])
        await self._look(consumer)
        return True

    async def _follow(self, consumer: AIOKafkaConsumer) -> None:
        loop = asyncio.get_running_loop()
        heard = loop.time()
        while True:
            got = await consumer.getmany(timeout_ms=500, max_records=BATCH)
            for tp, records in got.items():
                self._take(tp, records)
                self._positions[tp] = records[-1].offset + 1
            if got:
                heard = loop.time()
            elif loop.time() - heard > ASK_S:  # a consumer keeps silent about a broker that is gone: ask
                async with asyncio.timeout(ASK_S):
                    await consumer.end_offsets(list(self._positions))
                heard = loop.time()
            if not self.ready.is_set():
                await self._look(consumer)
            await asyncio.sleep(0)

    async def _look(self, consumer: AIOKafkaConsumer) -> None:
        if all([await consumer.position(tp) >= end for tp, end in self._until.items()]):
            self.ready.set()
