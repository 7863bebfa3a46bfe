"""Observers of a chaos run: the journal's progress, a subscriber, committed offsets, and stalled readers.

They are ordinary readers of the log in the harness's own process, which gets no faults.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import Any

import msgspec
from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from infra.kafka.topics import KafkaAddress, committed_by, offsets_of, partitions_of
from schemas.envelope import REVISION
from schemas.errors import TransientError
from schemas.events import OPENING_NAMES, TERMINAL_NAMES
from schemas.topics import Topics

SAMPLE_EVERY_S = 3.0
HOLD_EVERY_S = 0.5
_AWAY = (KafkaError, OSError, TransientError, TimeoutError)
READERS = {
    "worker": ("cases", "news"),
    "publisher": ("cases",),
    "research": ("research",),
    "sink": ("cases", "research"),
}
"""Group → topics (without prefix) in which its committed offset is a watermark. Those of journals are checked."""


class Sample(msgspec.Struct, frozen=True):
    """A group's committed offset of one partition (0 before its first), and the partition's end just after it was read."""

    group: str
    topic: str
    partition: int
    committed: int
    end: int


class Watch:
    """Readers that run for the whole run. Call :meth:`start` first and :meth:`stop` last."""

    def __init__(self, address: KafkaAddress, topics: Topics) -> None:
        self._address, self._topics = address, topics
        self.opened: set[bytes] = set()
        self.ended: set[bytes] = set()
        self.asked: set[bytes] = set()
        self.answered: set[bytes] = set()
        """Questions and investigations that were opened, and those that have ended."""
        self.seen: Counter[tuple[bytes, bytes]] = Counter()
        """(signal, revision) → how often the whole-run subscriber saw it."""
        self.samples: list[Sample] = []
        self.longest_hold_s = 0.0
        self._broker_left_at = 0.0
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Start the readers; the topics must exist."""
        works = {
            "journal": self._follow(self._topics.cases, self.opened, self.ended),
            "research": self._follow(self._topics.research, self.asked, self.answered),
            "signals": self._subscribe(),
            "hold": self._hold(),
            "samples": self._sample(),
        }
        self._tasks = [asyncio.create_task(work, name=f"chaos-{name}") for name, work in works.items()]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def check(self) -> None:
        """Raise the exception of a reader that failed."""
        for task in self._tasks:
            if task.done() and not task.cancelled():
                task.result()

    def broker_was_away(self) -> None:
        """Record a broker outage: readers stalled by it are not held by a publisher."""
        self._broker_left_at = time.monotonic()

    async def sample_once(self) -> None:
        """Read the committed offsets of every group, then the end offsets."""
        committed = {group: await committed_by(self._address, self._topics.group(group)) for group in READERS}
        topics = {self._topics.journal(name) for names in READERS.values() for name in names}
        ends = {topic: await offsets_of(self._address, topic) for topic in topics}
        self.samples += [
            Sample(group, tp.topic, tp.partition, committed[group][tp].offset if tp in committed[group] else 0, end)
            for group, names in READERS.items()
            for name in names
            for tp, (_, end) in ends[self._topics.journal(name)].items()
        ]

    # The readers

    async def _follow(self, journal: str, opened: set[bytes], ended: set[bytes]) -> None:
        opening, terminal = ({name.encode() for name in names} for names in (OPENING_NAMES, TERMINAL_NAMES))
        async for record in self._records(journal):
            headers = dict(record.headers)
            if headers["ce_type"] in opening:
                opened.add(headers["ce_subject"])
            elif headers["ce_type"] in terminal:
                ended.add(headers["ce_subject"])

    async def _subscribe(self) -> None:
        async for record in self._records(self._topics.signals, isolation_level="read_committed"):
            self.seen[record.key, dict(record.headers)[REVISION]] += 1

    async def _records(self, topic: str, **more: Any) -> Any:
        consumer = self._address.consumer(fetch_max_wait_ms=250, **more)
        await consumer.start()
        try:
            consumer.assign([TopicPartition(topic, p) for p in await partitions_of(consumer, topic)])
            await consumer.seek_to_beginning()
            while True:
                for records in (await consumer.getmany(timeout_ms=1000, max_records=2000)).values():
                    for record in records:
                        yield record
                await asyncio.sleep(0.1)  # larger and fewer batches: this process shares two cores with its subject
        finally:
            await consumer.stop()

    async def _sample(self) -> None:
        while True:
            try:
                async with asyncio.timeout(30):
                    await self.sample_once()
            except _AWAY:
                pass  # the broker is down, so nobody can commit either
            await asyncio.sleep(SAMPLE_EVERY_S)

    async def _hold(self) -> None:
        """Measure how long a read_committed reader stalls although there are more records."""
        plain, committed = self._address.consumer(), self._address.consumer(isolation_level="read_committed")
        await plain.start()
        await committed.start()
        since: dict[TopicPartition, tuple[int, float]] = {}
        try:
            tps = [TopicPartition(self._topics.signals, p) for p in await partitions_of(plain, self._topics.signals)]
            while True:
                await asyncio.sleep(HOLD_EVERY_S)
                try:
                    async with asyncio.timeout(5):
                        stable, high = await committed.end_offsets(tps), await plain.end_offsets(tps)
                except _AWAY:
                    since.clear()
                    continue
                self._note_holds(since, stable, high)
        finally:
            await plain.stop()
            await committed.stop()

    def _note_holds(self, since: dict[TopicPartition, tuple[int, float]], stable: Any, high: Any) -> None:
        now = time.monotonic()
        for tp, offset in stable.items():
            known = since.get(tp)
            if offset >= high[tp]:
                since.pop(tp, None)
            elif known is None or known[0] != offset or known[1] < self._broker_left_at:
                since[tp] = (offset, now)
            else:
                self.longest_hold_s = max(self.longest_hold_s, now - known[1])
