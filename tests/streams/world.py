"""A small installation under test: separate topics, ways to write to them, workers in this process, their results."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import orjson
from aiokafka import TopicPartition
from aiokafka.partitioner import murmur2

from agents.core.registry import Registry
from infra.kafka.topics import KafkaAddress, ensure_topics, offsets_of, partitions_of, read_range, topic_specs
from infra.ports import Ports
from schemas import envelope as wire
from schemas.config import Snapshot
from schemas.envelope import read_signal
from schemas.errors import ContractError
from schemas.events import OPENING_NAMES, CaseEvent, EventReceived
from schemas.news import News, marked
from schemas.signals import Signal
from schemas.topics import Topics
from streams.audit.audit import AuditReport, audit
from streams.budget.budget import BudgetLedger
from streams.composition import worker_of
from streams.effects.spending import UnlimitedBudget
from streams.ending import Ending
from streams.journal.clock import utc_now
from streams.journal.fold import JournalFold
from streams.journal.log import UNCOMMITTED, Isolation, KafkaLog
from streams.journal.reader import JournalReader
from streams.publish.publisher import Publisher
from streams.runtime.options import WorkerOptions
from streams.wake import Wake
from streams.worker import Worker
from tests.plain_graph import simulated_ports

KEY = b"the key of the listener"
QUICK = Snapshot(provider_mode="simulated", retry_base_seconds=0.05)
"""Retries at once, so that tests of failures do not wait."""


class Found(msgspec.Struct):
    """One journal record, as judged by a reader from the start."""

    record: Any
    envelope: wire.Envelope | None
    accepted: bool

    @property
    def event(self) -> CaseEvent:
        assert self.envelope is not None
        return wire.decode(self.envelope.type, self.envelope.version, self.record.value)


class World:
    """Topics under a separate prefix. ``until`` fails at once if a worker that runs here has failed."""

    def __init__(self, address: KafkaAddress, topics: Topics, slots: Path, partitions: int, producer: Any) -> None:
        self.address, self.topics, self.slots, self.partitions = address, topics, slots, partitions
        self.producer = producer
        self._running: list[asyncio.Task[None]] = []

    @classmethod
    @asynccontextmanager
    async def made(cls, address: KafkaAddress, prefix: str, slots: Path, *, partitions: int) -> AsyncIterator[World]:
        topics = Topics(prefix)
        await ensure_topics(address, topics, partitions=partitions, replication=1)
        async with address.producer(linger_ms=0) as producer:
            yield cls(address, topics, slots, partitions, producer)
        async with address.admin() as admin:  # a broker needs more time and memory for each topic that it has
            await admin.delete_topics(list(topic_specs(topics, partitions=partitions)))

    # Writing

    async def publish(self, *items: Any, partition: int | None = None) -> None:
        """Write news: a text or number for a plain item, a dict of fields to change, or raw bytes."""
        sent = []
        for item in items:
            key, value = news_record(item)
            where = (murmur2(key) & 0x7FFFFFFF) % self.partitions if partition is None else partition
            sent.append(await self.producer.send(self.topics.news, value, key=key, partition=where))
        for future in sent:
            await future

    # Working

    @asynccontextmanager
    async def working(
        self,
        registry: Registry,
        *,
        ports: Ports | None = None,
        snapshot: Snapshot = QUICK,
        slot: str = "0",
        spending: BudgetLedger | None = None,
        authenticate: Callable[[News], bool] = lambda _news: False,
        **options: Any,
    ) -> AsyncIterator[Worker]:
        """Run a worker in this process until the block ends; then shut it down cleanly."""
        chosen = WorkerOptions(
            slot=slot, slot_dir=self.slots, partitions=self.partitions, session_timeout_s=6.0, **options
        )
        ending, wake = (Ending(), Wake()) if spending is None else (spending.ending, spending.wake)
        worker = worker_of(
            self.address, self.topics, registry, ports or simulated_ports(), snapshot, chosen,
            ending=ending, wake=wake, budget=spending or UnlimitedBudget(), authenticate=authenticate,
        )  # fmt: skip
        async with self._while_running(worker.run()):
            try:
                yield worker
            finally:
                worker.stop()

    @asynccontextmanager
    async def publishing(self) -> AsyncIterator[Publisher]:
        """Run a publisher in this process until the block ends."""
        publisher = Publisher(self.address, self.topics)
        async with self._while_running(publisher.run()):
            try:
                yield publisher
            finally:
                publisher.stop()

    @asynccontextmanager
    async def _while_running(self, work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
        task = asyncio.create_task(work)
        self._running.append(task)
        try:
            yield
        finally:
            self._running.remove(task)
            await task

    async def until(self, ready: Callable[[], Any], within_s: float = 60.0, *, every_s: float = 0.05) -> None:
        """Wait until ``ready()`` (which may be async) is true."""
        give_up = time.monotonic() + within_s
        while True:
            got = ready()
            if await got if asyncio.iscoroutine(got) else got:
                return
            for task in self._running:
                if task.done():
                    task.result()
                    raise AssertionError("what should run here has ended")
            assert time.monotonic() < give_up, f"still waiting after {within_s} s for {ready}"
            await asyncio.sleep(every_s)

    async def until_closed(self, cases: int, within_s: float = 60.0) -> AuditReport:
        """Wait until the log holds this many cases and none is open; return the audit at that moment."""
        log, opened, report = KafkaLog(self.address), 0, None
        folds = await JournalReader(log, self.topics.cases).begin()
        async with log.follow({tp: fold.position for tp, fold in folds.items()}) as cursor:

            async def closed() -> bool:
                nonlocal opened, report
                for tp, records in (await cursor.next(0.05)).items():
                    opened += sum(env.type in OPENING_NAMES for env, _ in folds[tp].accept(records))
                if opened < cases or any(fold.accepted.open for fold in folds.values()):
                    return False  # an audit costs a hundred times as much
                async with self.address.reading() as client:
                    report = await audit(OneClientLog(self.address, client), self.topics)
                return report.cases >= cases and report.open == 0

            await self.until(closed, within_s, every_s=0)
        assert report is not None
        return report

    # Reading

    async def records(self, topic: str, **more: Any) -> list[Any]:
        """Every record of a topic."""
        found: list[Any] = []
        async for _, records in read_range(self.address, await offsets_of(self.address, topic, **more), **more):
            found.extend(records)
        return found

    async def ends(self, topic: str) -> dict[int, int]:
        """The end offset of each partition."""
        return {tp.partition: end for tp, (_, end) in (await offsets_of(self.address, topic)).items()}

    async def journal(self, topic: str | None = None) -> list[Found]:
        """Every record of a journal (default: the news cases'), as judged by a reader from the start."""
        parts: dict[TopicPartition, JournalFold] = {}
        found = []
        for record in await self.records(topic or self.topics.cases):
            part = parts.setdefault(TopicPartition(record.topic, record.partition), JournalFold())
            found.append(Found(record, *part.judge(record)))
        return found

    async def story(self, *, of_text: str | None = None, of_case: str | None = None) -> list[CaseEvent]:
        """The accepted events that decode, in order: of one case, or of the case whose news has this text."""
        events: list[tuple[str, CaseEvent]] = []
        for found in await self.journal():
            if found.accepted and found.envelope is not None:
                with suppress(ContractError):
                    events.append((found.envelope.case_id, found.event))
        wanted = {c for c, e in events if isinstance(e, EventReceived) and of_text in (None, e.news.text)}
        return [e for c, e in events if c == of_case or (of_case is None and c in wanted)]

    async def counted(self) -> Counter[str]:
        """Number of accepted events, by the event's class name."""
        return Counter(type(e).__name__ for e in await self.story())

    async def signals(self) -> list[Signal]:
        """The signals that a read_committed subscriber sees."""
        committed: dict[str, Any] = {"isolation_level": "read_committed"}
        return [read_signal(record)[0] for record in await self.records(self.topics.signals, **committed)]

    async def letters(self) -> list[dict[str, str]]:
        """The headers of every dead letter."""
        return [{k: v.decode() for k, v in record.headers} for record in await self.records(self.topics.dead_letters)]

    async def committed(self, topic: str) -> dict[int, int]:
        """The worker group's committed offset of each partition."""
        async with self.address.admin() as admin:
            offsets = await admin.list_consumer_group_offsets(self.topics.group("worker"))
        return {tp.partition: m.offset for tp, m in offsets.items() if tp.topic == topic and m.offset >= 0}


class OneClientLog(KafkaLog):
    """The log, asked for its bounds by one client: for an audit of an empty log, connecting is most of the work."""

    def __init__(self, address: KafkaAddress, client: Any) -> None:
        super().__init__(address)
        self._asks = client

    async def bounds(self, topic: str, *, isolation: Isolation = UNCOMMITTED) -> dict[TopicPartition, tuple[int, int]]:
        if isolation != UNCOMMITTED:
            return await super().bounds(topic, isolation=isolation)
        tps = [TopicPartition(topic, number) for number in await partitions_of(self._asks, topic)]
        first, end = await self._asks.beginning_offsets(tps), await self._asks.end_offsets(tps)
        return {tp: (first[tp], end[tp]) for tp in tps}


def leave_at_once(worker: Worker) -> None:
    """Let the worker cancel running calls at once when it ends or is revoked, without its grace, because they hang."""
    drain = worker.dispatcher.drain

    async def without_grace(timeout_s: float) -> int:
        return await drain(0.0 * timeout_s)

    worker.dispatcher.drain = without_grace  # type: ignore[method-assign]


def news(number: int | str = 0, **changes: Any) -> dict[str, Any]:
    """The fields of a plain item."""
    plain = {
        "source": "wire",
        "external_id": f"item-{number}",
        "text": f"news number {number}",
        "published_at": "2026-01-01T00:00:00Z",
    }
    return {k: v for k, v in {**plain, **changes}.items() if v is not None}


def by_the_listener(item: dict[str, Any], key: bytes = KEY) -> dict[str, Any]:
    """The same fields with the listener's mark."""
    fields: dict[str, Any] = orjson.loads(marked(msgspec.json.encode(item), key, now=utc_now())[1])
    return fields


def news_record(item: Any) -> tuple[bytes, bytes]:
    """Key and value of an item, given as :meth:`World.publish` takes it."""
    if isinstance(item, bytes):
        return b"raw", item
    fields = item if isinstance(item, dict) else news(item)
    return f"{fields['source']}:{fields['external_id']}".encode(), msgspec.json.encode(fields)
