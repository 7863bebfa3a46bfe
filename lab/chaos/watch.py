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
from schemas.errors import TransientError
from schemas.events import OPENING_NAME, TERMINAL_NAMES
from schemas.published import REVISION
from schemas.topics import Topics

SAMPLE_EVERY_S = 3.0
HOLD_EVERY_S = 0.5
_AWAY = (KafkaError, OSError, TransientError, TimeoutError)
READERS = ("worker", "publisher", "sink")
"""Groups whose committed offset of a journal partition is a watermark."""


class Sample(msgspec.Struct, frozen=True):
    """A group's committed offset of one journal partition, and the partition's end just after it was read."""

    group: str
    partition: int
    committed: int
    end: int


class Watch:
    """Readers that run for the whole run. Call :meth:`start` first and :meth:`stop` last."""

    def __init__(self, address: KafkaAddress, topics: Topics) -> None:
        self._address, self._topics = address, topics
        self.opened: set[bytes] = set()
        self.ended: set[bytes] = set()
        self.seen: Counter[tuple[bytes, bytes]] = Counter()
        """(signal, revision) → how often the whole-run subscriber saw it."""
        self.samples: list[Sample] = []
        self.longest_hold_s = 0.0
        self._broker_left_at = 0.0
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Start the readers; the topics must exist."""
        works = {
            "journal": self._follow(),
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
        found = {group: await committed_by(self._address, self._topics.group(group)) for group in READERS}
        ends = await offsets_of(self._address, self._topics.cases)
        self.samples += [
            Sample(group, tp.partition, found[group][tp].offset, end)
            for group in READERS
            for tp, (_, end) in ends.items()
            if tp in found[group]
        ]

    # The readers

    async def _follow(self) -> None:
        opening, terminal = OPENING_NAME.encode(), {name.encode() for name in TERMINAL_NAMES}
        async for record in self._records(self._topics.cases):
            headers = dict(record.headers)
            if headers["ce_type"] == opening:
                self.opened.add(headers["ce_subject"])
            elif headers["ce_type"] in terminal:
                self.ended.add(headers["ce_subject"])

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
