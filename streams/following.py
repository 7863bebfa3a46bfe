"""Following a journal from a reader's own watermark: the fold that publish, sink and the case view have in common."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import structlog
from aiokafka import TopicPartition

from infra.kafka import KafkaAddress, committed_by, offsets_of, read_range
from schemas import envelope as wire
from schemas.acceptance import MARKING_NAMES, TOMBSTONE_OFFSETS, AcceptedEvents
from schemas.errors import ContractError

log = structlog.get_logger(__name__)


class FollowedPartition:
    """The acceptance state of one partition, for a reader that holds no cases. ``malformed`` counts unreadable envelopes."""

    def __init__(self, position: int = 0) -> None:
        self.accepted = AcceptedEvents(position)
        self.malformed = 0

    def judge(self, record: Any) -> tuple[wire.Envelope | None, bool]:
        """Return the record's envelope (None when it has no readable one) and whether the record is accepted."""
        try:
            env = wire.read_envelope(record.headers)
        except ContractError as exc:
            if record.offset >= self.accepted.position:
                self.accepted.position = record.offset + 1
                self.malformed += 1
                log.warning("passed by: not a readable envelope", offset=record.offset, why=str(exc))
            return None, False
        return env, self.accepted.offer(record.offset, env.type, env.case_id, env.id, env.causation_id)

    def accept(self, records: Iterable[Any]) -> Iterator[tuple[wire.Envelope, Any]]:
        """Yield (envelope, record) of the accepted ones, in order."""
        for record in records:
            env, accepted = self.judge(record)
            if accepted and env is not None:
                yield env, record


async def load_tombstones(
    address: KafkaAddress, parts: dict[TopicPartition, FollowedPartition], first: dict[TopicPartition, int]
) -> None:
    """Read the opening and terminal headers of the stretch before each position, as the rule of acceptance wants."""
    spans = {
        tp: (max(first[tp], p.accepted.position - TOMBSTONE_OFFSETS), p.accepted.position) for tp, p in parts.items()
    }
    async for tp, records in read_range(address, spans):
        for record in records:
            headers = dict(record.headers)
            if headers.get("ce_type", b"").decode() in MARKING_NAMES and "ce_subject" in headers:
                parts[tp].accepted.remember(record.offset, headers["ce_subject"].decode())


@asynccontextmanager
async def follow_from_watermarks(
    address: KafkaAddress, topic: str, group: str
) -> AsyncIterator[tuple[Any, dict[TopicPartition, FollowedPartition]]]:
    """Yield (consumer, partitions): a consumer assigned by hand to all partitions at the group's committed watermarks."""
    bounds = await offsets_of(address, topic)
    known = await committed_by(address, group)
    parts = {tp: FollowedPartition(known[tp].offset if tp in known else first) for tp, (first, _) in bounds.items()}
    await load_tombstones(address, parts, {tp: first for tp, (first, _) in bounds.items()})
    consumer = address.consumer(fetch_max_wait_ms=25)
    await consumer.start()
    try:
        consumer.assign(list(parts))
        for tp, p in parts.items():
            consumer.seek(tp, p.accepted.position)
        yield consumer, parts
    finally:
        await consumer.stop()
