"""Publish: the ends of cases → ``signals``, exactly once for read_committed subscribers.

Every worker hosts a publisher and one is active: the one that holds the lease (a one-partition group). It starts its
producer with the fixed transactional id, which fences a predecessor, rebuilds what was published from ``signals`` itself,
folds the journal from its own watermark, and writes signals and watermark in one transaction.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec
import structlog
from aiokafka import ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import KafkaError, ProducerFenced
from aiokafka.structs import OffsetAndMetadata
from msgspec.structs import replace

from infra.kafka import KafkaAddress, offsets_of, read_range
from schemas import envelope as wire
from schemas.errors import ContractError
from schemas.events import WIRE_NAMES, SignalSynthesized
from schemas.ids import uuid5
from schemas.published import CAUSE, OFFSET, PARTITION, REVISION, SIGNAL_TYPE, TOPIC, read_publication
from schemas.signals import Signal
from schemas.topics import Topics
from streams.failpoints import PUBLISH_BEGUN, PUBLISH_SENT, hit
from streams.following import FollowedPartition, follow_from_watermarks

log = structlog.get_logger(__name__)

TRANSACTION_TIMEOUT_MS = 10_000
"""A killed publisher must not hold read_committed readers for longer."""
RETRY_BACKOFF_MS = 10
"""The broker refuses the next transaction until it has written the markers of the last one, and the producer asks again
after this; aiokafka's 100 ms was measured as most of the time from the end of a case to its signal."""
COMMIT_IDLE_S = 5.0
"""How often the watermark is committed when there is nothing to publish."""
LEASE_SESSION_S = 6.0
_SYNTHESIZED = WIRE_NAMES[SignalSynthesized]


class _Lease(ConsumerRebalanceListener):  # type: ignore[misc]
    """Whether this process holds the one partition."""

    def __init__(self) -> None:
        self.held = asyncio.Event()
        self.lost = asyncio.Event()
        self.known = False

    async def on_partitions_revoked(self, revoked: Any) -> None:
        if revoked:
            self.held.clear()
            self.lost.set()

    async def on_partitions_assigned(self, assigned: Any) -> None:
        self.known = True
        if assigned:
            self.lost.clear()
            self.held.set()


class _Published:
    """What stands on ``signals`` already. ``causes`` are the journal events behind it that will be read again."""

    def __init__(self) -> None:
        self.causes: set[str] = set()
        self.revisions: dict[str, int] = {}
        self.through: dict[int, int] = {}

    def add(self, signal_id: str, revision: int, partition: int, offset: int) -> None:
        """Note one revision."""
        self.revisions[signal_id] = max(self.revisions.get(signal_id, 0), revision)
        self.through[partition] = max(self.through.get(partition, -1), offset)


class Publisher:
    """One candidate for publishing. ``run`` ends when :meth:`stop` is called; a lost lease makes it stand by again."""

    def __init__(self, address: KafkaAddress, topics: Topics) -> None:
        self._address, self._topics = address, topics
        self._group = topics.group("publisher")
        self._stopped = asyncio.Event()
        self.published = 0
        self.passed_by = 0
        self.active = False
        self._lease = _Lease()

    @property
    def state(self) -> Literal["joining", "standing by", "rebuilding", "active"]:
        """What it does: joining until it is known who holds the lease, rebuilding from holding it to publishing."""
        if self.active:
            return "active"
        if not self._lease.known:
            return "joining"
        return "rebuilding" if self._lease.held.is_set() else "standing by"

    def stop(self) -> None:
        """Ask for a clean end."""
        self._stopped.set()

    async def run(self) -> None:
        """Stand by for the lease, publish while holding it, until stopped."""
        lease = self._lease
        consumer = self._address.consumer(
            group_id=self._topics.group("publisher-lease"),
            session_timeout_ms=int(LEASE_SESSION_S * 1000),
            heartbeat_interval_ms=1500,
        )
        await consumer.start()
        consumer.subscribe([self._topics.publisher_lease], listener=lease)
        polling = asyncio.create_task(_poll(consumer), name="publisher-lease")
        try:
            while not self._stopped.is_set():
                await _first_of(lease.held.wait(), self._stopped.wait())
                if lease.held.is_set() and not self._stopped.is_set():
                    await self._lead(lease)
        finally:
            polling.cancel()
            await consumer.stop()

    async def _lead(self, lease: _Lease) -> None:
        publishing = asyncio.create_task(self._publish(), name="publish")
        await _first_of(lease.lost.wait(), self._stopped.wait(), asyncio.shield(publishing))
        publishing.cancel()
        self.active = False
        try:
            await publishing
        except asyncio.CancelledError:
            pass
        except ProducerFenced:
            # A successor leads. The lease is lost in a moment; should it stay here, this one leads again after all.
            log.warning("fenced by another publisher: standing by")
            await _first_of(asyncio.sleep(LEASE_SESSION_S), lease.lost.wait(), self._stopped.wait())
        except (KafkaError, OSError) as exc:
            # The broker went away: start over from what the log says.
            log.warning("publishing starts over", error=repr(exc))
            await _first_of(asyncio.sleep(1.0), self._stopped.wait())

    async def _publish(self) -> None:
        producer = self._address.producer(
            transactional_id=self._topics.transactional_id("publisher"),
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            retry_backoff_ms=RETRY_BACKOFF_MS,
            linger_ms=0,
        )
        await producer.start()
        try:
            async with follow_from_watermarks(self._address, self._topics.cases, self._group) as (consumer, parts):
                published = await self._published_so_far({tp.partition: p.accepted.position for tp, p in parts.items()})
                self.active = True
                log.info("this process publishes signals", foreign_records_passed_by=self.passed_by)
                await self._follow(producer, consumer, parts, published)
        finally:
            await producer.stop()

    async def _follow(
        self,
        producer: Any,
        consumer: Any,
        parts: dict[TopicPartition, FollowedPartition],
        published: _Published,
    ) -> None:
        loop = asyncio.get_running_loop()
        committed_at = loop.time()
        while True:
            got = await consumer.getmany(timeout_ms=1000, max_records=5000)
            ready: list[tuple[Signal, wire.Envelope, int, int]] = []
            for tp, records in got.items():
                for env, record in parts[tp].accept(records):
                    if env.type == _SYNTHESIZED and env.id not in published.causes:
                        signal = _signal_of(env, record)
                        if signal is not None:
                            ready.append((signal, env, tp.partition, record.offset))
            if ready or loop.time() - committed_at > COMMIT_IDLE_S:
                await self._commit(producer, ready, parts, published)
                committed_at = loop.time()

    async def _commit(
        self,
        producer: Any,
        ready: list[tuple[Signal, wire.Envelope, int, int]],
        parts: dict[TopicPartition, FollowedPartition],
        published: _Published,
    ) -> None:
        await producer.begin_transaction()
        try:
            hit(PUBLISH_BEGUN)
            for signal, env, partition, offset in ready:
                last = published.revisions.get(signal.signal_id, 0)
                revised = replace(signal, revision=last + 1, supersedes=last or None)
                await producer.send(
                    self._topics.signals, **_record(revised, env, self._topics.cases, partition, offset)
                )
                published.add(signal.signal_id, last + 1, partition, offset)
            offsets = {
                tp: OffsetAndMetadata(
                    p.accepted.watermark, f"published_through={published.through.get(tp.partition, -1)}"
                )
                for tp, p in parts.items()
            }
            await producer.send_offsets_to_transaction(offsets, self._group)
            hit(PUBLISH_SENT)
        except BaseException:
            await _abort(producer)
            raise
        await producer.commit_transaction()
        self.published += len(ready)

    async def _published_so_far(self, positions: dict[int, int]) -> _Published:
        # By cause, not by the highest offset that is named: a record that names a false one hides nothing but itself.
        published = _Published()
        committed: dict[str, Any] = {"isolation_level": "read_committed"}
        spans = await offsets_of(self._address, self._topics.signals, **committed)
        async for _, records in read_range(self._address, spans, **committed):
            for record in records:
                try:
                    p = read_publication(record)
                except ContractError as exc:
                    self.passed_by += 1
                    if self.passed_by & (self.passed_by - 1) == 0:  # the 1st, 2nd, 4th …
                        log.warning("passed by on the signals topic", why=str(exc), so_far=self.passed_by)
                    continue
                published.add(p.signal_id, p.revision, p.journal_partition, p.journal_offset)
                if p.journal_topic == self._topics.cases and p.journal_offset >= positions.get(p.journal_partition, 0):
                    published.causes.add(p.cause_id)
        return published


def _signal_of(env: wire.Envelope, record: Any) -> Signal | None:
    try:
        event = wire.decode(env.type, env.version, record.value)
    except wire.NewerSchemaError:
        raise
    except ContractError as exc:
        log.error(
            "a signal that does not decode is not published; its case is quarantined", case=env.case_id, why=str(exc)
        )
        return None
    assert isinstance(event, SignalSynthesized)
    return event.signal


def _record(signal: Signal, env: wire.Envelope, topic: str, partition: int, offset: int) -> dict[str, Any]:
    now = datetime.now(UTC).isoformat(timespec="microseconds")
    headers = {
        "ce_specversion": "1.0",
        "content-type": "application/json",
        "ce_id": uuid5("signal-revision", signal.signal_id, str(signal.revision)),
        "ce_source": "newsproof",
        "ce_type": SIGNAL_TYPE.decode(),
        "ce_time": now,
        "ce_subject": signal.signal_id,
        "ce_schemaversion": str(signal.schema_version),
        "ce_runid": env.run_id,
        CAUSE: env.id,
        TOPIC: topic,
        PARTITION: str(partition),
        OFFSET: str(offset),
        REVISION: str(signal.revision),
    }
    return {
        "value": msgspec.json.encode(signal),
        "key": signal.signal_id.encode(),
        "headers": [(k, v.encode()) for k, v in headers.items()],
    }


async def _abort(producer: Any) -> None:
    try:
        await producer.abort_transaction()
    except (KafkaError, OSError, AssertionError) as exc:  # aiokafka asserts that a fenced producer is not asked
        log.warning("the transaction ends by its timeout", error=repr(exc))


async def _poll(consumer: Any) -> None:
    while True:
        await consumer.getmany(timeout_ms=1000)


async def _first_of(*waits: Any) -> None:
    tasks = [asyncio.ensure_future(w) for w in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            if not task.done():
                task.cancel()
            elif not task.cancelled():
                task.exception()  # looked at: the caller awaits the work itself
