"""Sends hostile records as a foreign client would: no idempotence, any compression, arbitrary bytes as header names."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from random import Random
from typing import Any, NamedTuple

from aiokafka.partitioner import murmur2
from aiokafka.record.default_records import DefaultRecordBatch, _DefaultRecordBatchBuilderPy

from infra.kafka.topics import KafkaAddress
from lab.hostile.record import Fate, HostileRecord
from schemas.topics import Topics

_LARGEST = 64 * 1024 * 1024
_TOO_LARGE_PLAIN = 2 * 1024 * 1024


class Sent(NamedTuple):
    """The position of a record and its expected fate."""

    kind: str
    fate: Fate
    topic: str
    partition: int
    offset: int


class _RawName(str):
    """A header name that encodes to arbitrary bytes."""

    raw: bytes

    def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
        return self.raw


class Sender:
    """Three producers: plain, compressed, and a transactional one that aborts every second transaction."""

    def __init__(self, topics: Topics, partitions: int, plain: Any, compressed: Any, transactional: Any) -> None:
        self._topics, self._partitions = topics, partitions
        self._plain, self._compressed, self._transactional = plain, compressed, transactional
        self._transactions = 0

    @classmethod
    @asynccontextmanager
    async def connected(cls, address: KafkaAddress, topics: Topics, partitions: int) -> AsyncIterator[Sender]:
        """Yield a sender; close its producers on exit."""
        loose: dict[str, Any] = {"enable_idempotence": False, "acks": 1, "max_request_size": _LARGEST, "linger_ms": 5}
        async with AsyncExitStack() as stack:
            producers = [
                await stack.enter_async_context(producer)
                for producer in (
                    address.producer(**loose, compression_type=None),
                    address.producer(**loose, compression_type="gzip"),
                    address.producer(
                        transactional_id=topics.transactional_id("hostile"), max_request_size=_LARGEST, linger_ms=5
                    ),
                )
            ]
            yield cls(topics, partitions, *producers)

    async def send(self, records: Iterable[HostileRecord], rng: Random) -> list[Sent]:
        """Write the records and return their positions."""
        sent: list[tuple[HostileRecord, Any]] = []
        in_transaction: list[HostileRecord] = []
        for record in records:
            named_by_text = all(isinstance(name, str) for name, _ in record.headers)
            whole = record.key is not None or record.value is not None
            if (
                named_by_text
                and whole
                and record.topic in ("news", "cases")
                and record.fate != "case"
                and rng.random() < 0.02
            ):
                in_transaction.append(record)
            else:
                sent.append((record, await self._send_one(record, rng)))
        if in_transaction:
            sent += await self._send_in_a_transaction(in_transaction)
        metas = await asyncio.gather(*(future for _, future in sent))
        return [Sent(r.kind, r.fate, r.topic, m.partition, m.offset) for (r, _), m in zip(sent, metas, strict=True)]

    async def _send_one(self, record: HostileRecord, rng: Random) -> Any:
        if any(isinstance(name, bytes) for name, _ in record.headers) or (record.key is None and record.value is None):
            return await self._send_raw(record)  # aiokafka's own producer refuses both
        large = len(record.value or b"") > _TOO_LARGE_PLAIN
        return await self._send_by(self._compressed if large or rng.random() < 0.3 else self._plain, record)

    async def _send_by(self, producer: Any, record: HostileRecord) -> Any:
        topic = self._topics.prefix + record.topic
        return await producer.send(
            topic, record.value, key=record.key, partition=record.partition, headers=list(record.headers) or None
        )

    async def _send_raw(self, record: HostileRecord) -> Any:
        topic = self._topics.prefix + record.topic
        partition = record.partition
        if partition is None:
            partition = (murmur2(record.key or b"") & 0x7FFFFFFF) % self._partitions
        batch = self._plain.create_batch()
        batch._builder = _DefaultRecordBatchBuilderPy(
            magic=2, compression_type=DefaultRecordBatch.CODEC_NONE, is_transactional=False, producer_id=-1,
            producer_epoch=-1, base_sequence=-1, batch_size=_LARGEST,
        )  # fmt: skip
        headers = [(_name(name), value) for name, value in record.headers]
        batch.append(key=record.key, value=record.value, timestamp=None, headers=headers)
        return await self._plain.send_batch(batch, topic, partition=partition)

    async def _send_in_a_transaction(self, records: list[HostileRecord]) -> list[tuple[HostileRecord, Any]]:
        self._transactions += 1
        await self._transactional.begin_transaction()
        sent = [(record, await self._send_by(self._transactional, record)) for record in records]
        await asyncio.gather(*(future for _, future in sent))
        if self._transactions % 2:
            await self._transactional.commit_transaction()
        else:
            await self._transactional.abort_transaction()
        return sent


def _name(name: str | bytes) -> str:
    raw = _RawName(name if isinstance(name, str) else name.decode("latin-1"))
    raw.raw = name.encode() if isinstance(name, str) else name
    return raw
