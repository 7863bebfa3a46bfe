"""Store of configuration snapshots.

A snapshot is written and read back before a case pins it. The store follows the topic.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import structlog

from infra.kafka.topics import KafkaAddress
from schemas.config import Snapshot, decode_snapshot
from schemas.errors import ContractError
from schemas.topics import Topics
from streams.journal.appender import Appender

log = structlog.get_logger(__name__)


class ConfigStore:
    """Every snapshot on the ``configs`` topic, by hash. ``adopted`` is the hash that new cases pin."""

    def __init__(self, address: KafkaAddress, topics: Topics) -> None:
        self._topic = topics.configs
        self._consumer = address.consumer(fetch_max_wait_ms=500)
        self._known: dict[str, Snapshot] = {}
        self._following: asyncio.Task[None] | None = None
        self._arrived = asyncio.Condition()
        self._heeding: list[Callable[[str], None]] = []
        self.adopted = ""
        self.ignored = 0

    async def start(self) -> None:
        """Read the topic to its end, then follow it."""
        from aiokafka import TopicPartition

        tp = TopicPartition(self._topic, 0)
        await self._consumer.start()
        self._consumer.assign([tp])
        end = (await self._consumer.end_offsets([tp]))[tp]
        self._following = asyncio.create_task(self._follow(), name="configs")
        async with self._arrived:
            while await self._consumer.position(tp) < end and not self._following.done():
                await asyncio.wait_for(self._arrived.wait(), 30)

    @property
    def following(self) -> asyncio.Task[None]:
        """The task that follows the topic, once started. Only an error ends it."""
        assert self._following is not None
        return self._following

    async def stop(self) -> None:
        if self._following is not None:
            self._following.cancel()
        await self._consumer.stop()

    def get(self, config_hash: str) -> Snapshot | None:
        """Return the snapshot; None if it has not arrived."""
        return self._known.get(config_hash)

    def subscribe(self, on_new: Callable[[str], None]) -> None:
        """Call ``on_new`` with the hash of each snapshot that arrives from now on."""
        self._heeding.append(on_new)

    def put_local(self, snapshot: Snapshot) -> None:
        """Add a snapshot that is not in the topic, for readers that supply their own."""
        self._known[snapshot.config_hash] = snapshot

    async def publish(self, snapshot: Snapshot, appender: Appender) -> str:
        """Write the snapshot unless the topic has it, wait until this store has read it back, and return its hash."""
        config_hash = snapshot.config_hash
        if config_hash not in self._known:
            await appender.append(self._topic, msgspec.json.encode(snapshot), key=config_hash.encode(), partition=0)
            async with self._arrived:
                await asyncio.wait_for(self._arrived.wait_for(lambda: config_hash in self._known), 60)
        return config_hash

    async def adopt(self, snapshot: Snapshot, appender: Appender) -> str:
        """Publish the snapshot, make new cases pin it, and return its hash."""
        self.adopted = await self.publish(snapshot, appender)
        return self.adopted

    async def _follow(self) -> None:
        while True:
            got = await self._consumer.getmany(timeout_ms=1000)
            for records in got.values():
                for record in records:
                    self._take(record)
            async with self._arrived:
                self._arrived.notify_all()

    def _take(self, record: Any) -> None:
        if record.value is None:
            return  # a tombstone of the compacted topic: keep the snapshot, because cases have pinned it
        try:
            config_hash, snapshot = decode_snapshot(record.key, record.value)
        except ContractError as exc:
            self.ignored += 1
            log.error("ignored: no configuration snapshot", offset=record.offset, why=str(exc))
            return
        if config_hash not in self._known:
            self._known[config_hash] = snapshot
            for on_new in self._heeding:
                on_new(config_hash)
