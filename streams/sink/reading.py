"""Consumers of the sink: it reads the journal like all its readers, signals and deliveries like their subscribers.

There are two, because isolation is a property of a consumer. We never write to a journal in transactions. The runtime
reads records of a foreign aborted transaction there. With read_committed, only the tables would miss them, or wait as
long as a foreign transaction stays open. Signals and deliveries are written in transactions, and count once those are
committed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from aiokafka import TopicPartition

from infra.kafka.topics import KafkaAddress

_WAIT_MS = 300


class SinkReading:
    """Two consumers of one group, with manual assignment, used as one."""

    def __init__(self, address: KafkaAddress, group: str, *, max_records: Callable[[], int]) -> None:
        self._address, self._group, self._max_records = address, group, max_records
        self._consumers: list[Any] = []
        self._under_way: dict[Any, asyncio.Task[dict[TopicPartition, list[Any]]]] = {}
        self._of: dict[TopicPartition, Any] = {}

    @property
    def assigned(self) -> list[TopicPartition]:
        """Every partition that is read."""
        return list(self._of)

    def of(self, tp: TopicPartition) -> Any:
        """Return the consumer of a partition."""
        return self._of[tp]

    async def start(self, by_isolation: dict[str, list[TopicPartition]]) -> None:
        """Connect without reading, so that positions can be set."""
        for isolation, tps in by_isolation.items():
            consumer = self._address.consumer(
                group_id=self._group, isolation_level=isolation, fetch_max_wait_ms=100, client_id="newsproof-sink"
            )
            self._consumers.append(consumer)
            await consumer.start()
            consumer.assign(tps)
            self._of |= dict.fromkeys(tps, consumer)

    async def stop(self) -> None:
        for task in self._under_way.values():
            task.cancel()
        await asyncio.gather(*self._under_way.values(), return_exceptions=True)
        for consumer in self._consumers:
            await consumer.stop()

    async def next(self) -> dict[TopicPartition, list[Any]]:
        """Return new records of either consumer; empty after a timeout."""
        for consumer in self._consumers:
            if consumer not in self._under_way:
                self._under_way[consumer] = asyncio.ensure_future(
                    consumer.getmany(timeout_ms=_WAIT_MS, max_records=self._max_records())
                )
        done, _ = await asyncio.wait(self._under_way.values(), return_when=asyncio.FIRST_COMPLETED)
        got: dict[TopicPartition, list[Any]] = {}
        for consumer in [c for c, task in self._under_way.items() if task in done]:
            got |= self._under_way.pop(consumer).result()
        return got

    async def position(self, tp: TopicPartition) -> int | None:
        """Return the offset up to which records were returned; None while some are being fetched."""
        consumer = self._of[tp]
        position = int(await consumer.position(tp))
        task = self._under_way.get(consumer)
        return None if task is not None and task.done() else position

    async def commit(self, offsets: dict[TopicPartition, tuple[int, str]]) -> None:
        """Commit for both consumers, one after the other.

        While the broker is unavailable this waits without limit: the client retries every temporary error. Until it
        returns, the sink inserts nothing more, so it sends no rows of a range that is not recorded. A stop request
        waits, too. A crash between the two commits is harmless, because each partition has its own range.

        Raises:
            KafkaError: the broker refuses (no permission to commit, metadata too large); a retry would not help.
        """
        for consumer in self._consumers:
            own = {tp: wanted for tp, wanted in offsets.items() if self._of[tp] is consumer}
            if own:
                await consumer.commit(own)
