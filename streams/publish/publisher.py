"""The publisher: writes cases' signals and their revisions to ``signals``, exactly once for read_committed subscribers.

Every worker hosts a publisher; the one that holds the lease (a one-partition group) is active. It starts its producer
with the fixed transactional id, which fences a predecessor, and rebuilds its state from ``signals`` itself.
Then it folds the journal from its own watermark, and writes signals and watermark in one transaction.

Kafka 4.3 may complete a transaction without a marker on its partitions: while a broker starts, it takes a partition
without a leader for a deleted one (``KRaftMetadataCache.getPartitionLeaderEndpoint`` is empty where it was
``Node.noNode`` before;
https://github.com/apache/kafka/blob/4.3.1/metadata/src/main/java/org/apache/kafka/metadata/KRaftMetadataCache.java).
Subscribers then read up to the transaction's first record and no further. The next marker of the same producer makes
its records visible after all: a chaos run saw 48 signals twice. So a publisher aborts transactions that it finds
hanging before it reads the published signals, and starts over if its own signals stay invisible.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import msgspec
import structlog
from aiokafka import TopicPartition
from aiokafka.errors import KafkaError, ProducerFenced
from aiokafka.structs import OffsetAndMetadata
from msgspec.structs import replace

from infra.kafka.topics import KafkaAddress, committed_by, offsets_of
from schemas import envelope as wire
from schemas.envelope import CAUSE, OFFSET, PARTITION, REVISION, SIGNAL_TYPE, TOPIC
from schemas.errors import TransientError
from schemas.events import (
    WIRE_NAMES,
    CaseDropped,
    CaseFailed,
    CaseTriaged,
    RetractionFound,
    SignalSynthesized,
    StoryCorroborated,
)
from schemas.ids import signal_id, uuid5
from schemas.signals import Signal
from schemas.topics import Topics
from streams.failpoints import PUBLISH_BEGUN, PUBLISH_SENT, hit
from streams.journal.appender import Appender
from streams.journal.fold import JournalFold
from streams.journal.fold_store import is_damage
from streams.journal.log import Cursor, KafkaLog
from streams.journal.own_tail import OwnTail
from streams.journal.reader import JournalReader
from streams.journal.retry import AWAY, is_away, retry_while_unavailable
from streams.journal.tombstones import Tombstones
from streams.lease import SESSION_S, Lease
from streams.publish.pending_revisions import PendingRevisions
from streams.publish.published import Place, Published
from streams.publish.revisions import PRELIMINARY, Batch, Item, decoded

log = structlog.get_logger(__name__)

TRANSACTION_TIMEOUT_MS = 10_000
"""Maximum time for which a killed publisher can block read_committed readers."""
RETRY_BACKOFF_MS = 10
"""Delay between attempts to begin a transaction.

The broker refuses one until it has written the markers of the last one. aiokafka's 100 ms was measured as most of the
time from the end of a case to its signal.
"""
COMMIT_IDLE_S = 5.0
"""Interval of watermark commits while there is nothing to publish."""
LOOK_S = 5.0
"""Interval at which a publisher checks that subscribers see its signals."""
ABORTED_WITHIN_S = 5.0
"""Maximum time for the broker to write the markers of an aborted transaction."""
_TRIAGED = WIRE_NAMES[CaseTriaged]
_ENDS_WITHOUT = frozenset({WIRE_NAMES[CaseDropped], WIRE_NAMES[CaseFailed]})
_PUBLISHED = _ENDS_WITHOUT | {
    WIRE_NAMES[t] for t in (CaseTriaged, SignalSynthesized, RetractionFound, StoryCorroborated)
}
"""Events that may make a revision of a signal."""


class Publisher:
    """One candidate for publishing. ``run`` returns after :meth:`stop`; after losing the lease, it waits again."""

    def __init__(
        self,
        address: KafkaAddress,
        topics: Topics,
        directory: Path | None = None,
        tombstones: Tombstones | None = None,
        appender: Appender | None = None,
    ) -> None:
        """``directory``: the worker slot's. It stores the fold of ``signals``, so that the next start reads less.

        ``tombstones`` and ``appender``: those of a worker in the same process, if any, so that its reads are not
        repeated and its appends are not read again.
        """
        self._address, self._topics = address, topics
        self._group = topics.group("publisher")
        self._directory, self._appender = directory, appender
        self._stopped = asyncio.Event()
        self.published = 0
        self.ignored = 0
        self.active = False
        self._unseen: dict[TopicPartition, int] = {}
        """Partition of ``signals`` → the last offset published there that subscribers have not been seen to reach."""
        self._lease = Lease(address, topics.group("publisher-lease"), topics.publisher_lease)
        self._reader = JournalReader(KafkaLog(address), topics.cases, tombstones)

    @property
    def state(self) -> Literal["joining", "standing by", "rebuilding", "active"]:
        """Current state: joining until the lease holder is known; rebuilding from taking the lease until publishing."""
        if self.active:
            return "active"
        if not self._lease.known:
            return "joining"
        return "rebuilding" if self._lease.held else "standing by"

    def stop(self) -> None:
        """Request a clean shutdown."""
        self._stopped.set()

    async def run(self) -> None:
        """Wait for the lease and publish while holding it, until stopped."""
        await self._lease.lead(self._lead, self._stopped)

    async def _lead(self) -> None:
        try:
            await retry_while_unavailable(self._publish, "publishing", unavailable=_mended_by_starting_over)
        except ProducerFenced:
            # A successor leads, so the lease will be lost shortly. If it is not, this publisher leads again.
            log.warning("fenced by another publisher: standing by")
            await asyncio.sleep(SESSION_S)
        except AWAY as exc:
            log.warning("publishing did not end in order", error=repr(exc))

    async def _publish(self) -> None:
        producer = self._address.producer(
            transactional_id=self._topics.transactional_id("publisher"),
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            retry_backoff_ms=RETRY_BACKOFF_MS,
            linger_ms=0,
        )
        await producer.start()
        try:
            await self._abort_hanging(producer)
            self._unseen.clear()
            known = await committed_by(self._address, self._group)
            parts = await self._reader.begin({tp: done.offset for tp, done in known.items()})
            starts = {tp: p.position for tp, p in parts.items()}
            async with self._reader.log.follow(starts, wait_ms=25) as cursor, self._published() as published:
                self.ignored += await published.load(self._reader.log, {tp.partition: at for tp, at in starts.items()})
                self.active = True
                log.info("this process publishes signals", foreign_records_passed_by=self.ignored)
                tail = OwnTail(cursor, starts)
                telling = nullcontext() if self._appender is None else self._appender.telling(self._topics.cases, tail)
                with telling:
                    await self._follow(producer, tail, parts, published)
        finally:
            self.active = False
            await producer.stop()

    @asynccontextmanager
    async def _published(self) -> AsyncIterator[Published]:
        """Open the stored fold of ``signals``.

        Raises:
            TransientError: it is damaged and was deleted, or the disk cannot be written and memory is used from now on.
        """
        published = Published(self._directory, self._topics.signals, self._topics.cases)
        try:
            yield published
        except sqlite3.Error as exc:
            if isinstance(exc, sqlite3.DatabaseError) and is_damage(exc):
                published.reset()
            else:
                self._directory = None
            raise TransientError(
                f"what is kept of {self._topics.signals} cannot be used: {exc}; it is read again"
            ) from exc
        finally:
            published.close()

    async def _abort_hanging(self, producer: Any) -> None:
        """Abort transactions left open on ``signals``, by writing under this producer's id.

        Raises:
            TransientError: another writer's transaction is open, so the published signals cannot be read to the end.
        """
        if not (hanging := await self._open_transactions()):
            return
        log.warning(
            "transactions that the broker left open are aborted", partitions=sorted(tp.partition for tp in hanging)
        )
        await producer.begin_transaction()
        for sent in [await producer.send(tp.topic, b"", partition=tp.partition) for tp in hanging]:
            await sent
        await producer.abort_transaction()
        give_up = asyncio.get_running_loop().time() + ABORTED_WITHIN_S
        while (held := await self._open_transactions()) and asyncio.get_running_loop().time() < give_up:  # noqa: ASYNC110
            await asyncio.sleep(0.2)  # a broker responds before it has written the markers
        if held:
            raise TransientError(
                f"a transaction of somebody else holds up the readers of {self._topics.signals} in partitions "
                f"{sorted(tp.partition for tp in held)}; publishing waits until it ends: allow nobody else to write there"
            )

    async def _open_transactions(self) -> set[TopicPartition]:
        """Return the partitions of ``signals`` that subscribers cannot read to the end."""
        topic = self._topics.signals
        seen = await offsets_of(self._address, topic, isolation_level="read_committed")
        written = await offsets_of(self._address, topic)
        return {tp for tp, (_, end) in written.items() if seen[tp][1] < end}

    async def _look(self, before: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return where subscribers are blocked before published signals. ``before``: the same from the last check.

        Raises:
            TransientError: they are still blocked at the same position.
        """
        if not self._unseen:
            return {}
        ends = await offsets_of(self._address, self._topics.signals, isolation_level="read_committed")
        held = {tp: ends[tp][1] for tp, offset in self._unseen.items() if ends[tp][1] <= offset}
        self._unseen = {tp: self._unseen[tp] for tp in held}
        if stuck := dict(held.items() & before.items()):
            raise TransientError(f"subscribers do not see what was published since {LOOK_S:g} s ago: {stuck}")
        return held

    async def _follow(
        self, producer: Any, cursor: Cursor, parts: dict[TopicPartition, JournalFold], published: Published
    ) -> None:
        loop = asyncio.get_running_loop()
        committed_at = looked_at = loop.time()
        held: dict[TopicPartition, int] = {}
        committed: dict[int, int] = {}
        waiting = PendingRevisions(cursor, parts)
        while True:
            got = await cursor.next(1.0)
            batch = Batch(self._address, self._topics.signals, published)
            for tp, records in got.items():
                for env, record in parts[tp].accept(records):
                    if env.type in _PUBLISHED and env.id not in published.causes:
                        await self._take(batch, waiting, env, tp, record)
            await waiting.due(batch.revise)
            if batch.items or loop.time() - committed_at > COMMIT_IDLE_S:
                committed = await self._commit(producer, batch.items, parts, published, waiting)
                committed_at = loop.time()
            if loop.time() - looked_at > LOOK_S:
                held, looked_at = await self._look(held), loop.time()
                self.ignored += await published.follow(self._reader.log, committed)

    async def _take(
        self, batch: Batch, waiting: PendingRevisions, env: wire.Envelope, tp: TopicPartition, record: Any
    ) -> None:
        if env.type == _TRIAGED and PRELIMINARY not in (record.value or b""):
            return
        if env.type in _ENDS_WITHOUT and not batch.stands(signal_id(env.run_id, env.case_id)):
            return
        event = decoded(env, record)
        if isinstance(event, RetractionFound | StoryCorroborated):
            await waiting.add(event, env, tp, record.offset)
        elif event is not None:
            await batch.take(event, env, tp.partition, record.offset)

    async def _commit(
        self,
        producer: Any,
        items: list[Item],
        parts: dict[TopicPartition, JournalFold],
        published: Published,
        waiting: PendingRevisions,
    ) -> dict[int, int]:
        """Publish the items; return the watermarks committed with them, by partition."""
        await producer.begin_transaction()
        sent = []
        try:
            hit(PUBLISH_BEGUN)
            for signal, env, partition, offset in items:
                last = published.revision(signal.signal_id)
                revised = replace(signal, revision=last + 1, supersedes=last or None)
                future = await producer.send(
                    self._topics.signals, **_record(revised, env, self._topics.cases, partition, offset)
                )
                published.publish(signal.signal_id, Place(last + 1, -1, -1))  # the broker returns the offset, see below
                published.read_through(partition, offset)
                future.add_done_callback(_retrieve_error)
                sent.append((signal.signal_id, last + 1, future))
            offsets = {
                tp: OffsetAndMetadata(
                    waiting.held(tp.partition, p.accepted.watermark),
                    f"published_through={published.through.get(tp.partition, -1)}",
                )
                for tp, p in parts.items()
            }
            await producer.send_offsets_to_transaction(offsets, self._group)
            hit(PUBLISH_SENT)
        except BaseException:
            await _abort(producer)
            raise
        await producer.commit_transaction()
        for of, revision, future in sent:
            meta = await future
            published.publish(of, Place(revision, meta.partition, meta.offset))
            self._unseen[TopicPartition(meta.topic, meta.partition)] = meta.offset
        self.published += len(items)
        return {tp.partition: meta.offset for tp, meta in offsets.items()}


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


def _mended_by_starting_over(exc: Exception) -> bool:
    return is_away(exc) and not isinstance(exc, ProducerFenced)


async def _abort(producer: Any) -> None:
    try:
        await producer.abort_transaction()
    except (KafkaError, OSError, AssertionError) as exc:  # aiokafka asserts that a fenced producer is not used
        log.warning("the transaction ends by its timeout", error=repr(exc))


def _retrieve_error(future: Any) -> None:
    # A fenced producer fails every record of its batch; the transaction's own error reports it once.
    if not future.cancelled():
        future.exception()
