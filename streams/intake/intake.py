"""Intake: news → ``EventReceived``. Admission applies back-pressure here alone, never to the journal.

A news offset is committed only when its case is in the journal, so a crash in between repeats the news. The index of
opened news, rebuilt from this worker's own ``news`` partitions and from the tail of the journal, recognises the
repetition.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol

import structlog
from aiokafka import TopicPartition
from aiokafka.partitioner import murmur2

from infra.kafka.topics import KafkaAddress, read_range
from schemas import envelope as wire
from schemas.attempts import case_id_of, retries_of
from schemas.errors import ContractError
from schemas.events import EventReceived
from schemas.ids import LIVE_RUN, uuid5
from schemas.news import News, decode_news, language_of
from schemas.topics import Topics, partition_of
from streams.ending import Ending
from streams.intake.admission import Admission
from streams.intake.opened_news import OpenedNews, OpenedNewsIndex
from streams.journal.appender import Appender
from streams.journal.clock import append_ms, appended_at, utc_now
from streams.journal.configs import ConfigStore
from streams.journal.retry import retry_while_unavailable

log = structlog.get_logger(__name__)

MAX_UNCOMMITTED = 500
"""Appends under way per partition: enough to fill the producer's batches, few enough to repeat after a crash."""
HIGH_WATER, LOW_WATER = 2000, 500
"""Records held in memory per partition at which fetching is paused, and at which it resumes."""


class Fetching(Protocol):
    """Pauses and resumes fetching of a ``news`` partition."""

    def hold(self, partition: int) -> None: ...

    def release(self, partition: int) -> None: ...


class NewsPartition:
    """One assigned partition of ``news``. Every record before the offset ``safe`` has been processed."""

    def __init__(self) -> None:
        self.waiting: deque[Any] = deque()
        self.arrived = asyncio.Event()
        self.opened: OpenedNews
        self.safe: int | None = None
        self.next_offset = 0
        self.under_way: deque[list[Any]] = deque()
        self.pump: asyncio.Task[None] | None = None


class Intake:
    """Opens cases. ``admission`` limits them; ``configs`` holds the snapshot that new cases pin."""

    def __init__(
        self,
        address: KafkaAddress,
        topics: Topics,
        group: str,
        appender: Appender,
        admission: Admission,
        configs: ConfigStore,
        fetching: Fetching,
        ending: Ending,
        *,
        partitions: int,
        dedup_days: int,
        authenticate: Callable[[News], bool] = lambda _news: False,
        directory: Path | None = None,
    ) -> None:
        """``directory``: that of the worker slot. ``authenticate`` returns whether the listener published an item; it raises ContractError where the item claims so."""
        self._authenticate = authenticate
        self._address, self._topics, self._appender = address, topics, appender
        self._admission, self._configs, self._fetching, self._ending = admission, configs, fetching, ending
        self._partitions = partitions
        self._window = timedelta(days=dedup_days)
        self._before = OpenedNewsIndex(
            address, topics, group, window=self._window, authenticate=authenticate, directory=directory
        )
        self._news: dict[int, NewsPartition] = {}
        self.opened = self.repeated = self.poison = self.forwarded = 0
        self.newest_ms: float = utc_now().timestamp() * 1000
        """Append time of the newest news that was taken; until then the start of this process."""

    @property
    def loading(self) -> bool:
        """Whether the index of opened news is still loading for some partition."""
        return any(p.safe is None for p in self._news.values())

    def safe_offsets(self) -> dict[int, int | None]:
        """Return :meth:`safe_offset` of every own partition. Thread-safe."""
        return {n: self.safe_offset(n) for n in list(self._news)}

    def safe_offset(self, partition: int) -> int | None:
        """Return the offset before which every news record is a case, a repetition or a dead letter."""
        p = self._news.get(partition)
        return None if p is None else p.safe

    def on_record(self, record: Any) -> None:
        """Take the next record of the stream; never waits."""
        p = self._news.get(record.partition)
        if p is None:
            return
        self.newest_ms = max(self.newest_ms, record.timestamp)
        p.waiting.append(record)
        p.arrived.set()
        if len(p.waiting) >= HIGH_WATER:
            self._fetching.hold(record.partition)

    def assign(self, numbers: set[int]) -> None:
        """Take these partitions. Each starts from its committed offset with a new index."""
        self.revoke()
        for number in numbers:
            p = self._news[number] = NewsPartition()
            p.pump = asyncio.create_task(self._pump(number, p), name=f"intake-{number}")

    def halt(self) -> None:
        """Take no more news. Appends under way still complete and move the safe offset, for the last commit."""
        for p in self._news.values():
            if p.pump is not None:
                p.pump.cancel()

    def revoke(self) -> None:
        """Release all partitions; appends under way complete or are repeated."""
        self.halt()
        self._news.clear()

    async def close(self) -> None:
        """Close the index of opened news."""
        self._before.close()

    async def _pump(self, number: int, p: NewsPartition) -> None:
        try:
            p.opened, p.next_offset = await retry_while_unavailable(
                lambda: self._before.of(number), f"news of partition {number}"
            )
            p.safe = p.next_offset
            while True:
                while not p.waiting:
                    p.arrived.clear()
                    await p.arrived.wait()
                record = p.waiting.popleft()
                if len(p.waiting) == LOW_WATER:
                    self._fetching.release(number)
                if record.offset < p.next_offset:
                    continue
                if record.offset > p.next_offset:
                    await self._read_gap(number, p, record.offset)
                await self._take(p, record)
                p.opened.take(record)
        except asyncio.CancelledError:
            raise
        except Exception as exc:
            self._before.reset_if_damaged(exc)
            self._ending.fail(exc)

    async def _read_gap(self, number: int, p: NewsPartition, until: int) -> None:
        # A gap may be markers of a foreign transactional writer, or records that the stream dropped: check which.
        span = {TopicPartition(self._topics.news, number): (p.next_offset, until)}
        async for _, records in read_range(self._address, span):
            for missed in records:
                await self._take(p, missed)
        p.next_offset = until

    async def _take(self, p: NewsPartition, record: Any) -> None:
        p.next_offset = record.offset + 1
        while len(p.under_way) >= MAX_UNCOMMITTED:
            await p.under_way[0][1]
            self._advance(p)  # called here, because awaiting a finished future does not give its callback a turn
        try:
            news, retries = decode_news(record.value, now=appended_at(record)), retries_of(record.headers)
            authenticated, case = self._authenticate(news), case_id_of(news, retries)
        except ContractError as exc:
            self.poison += 1
            self._finish_with(p, record, self._write_dead_letter(record, exc))
            return
        right = (murmur2(news.key) & 0x7FFFFFFF) % self._partitions
        if right != record.partition:
            self.forwarded += 1
            self._finish_with(p, record, self._append_news(record, news, right))
            return
        key = news.key.decode()
        if case in p.opened:
            self.repeated += 1
            p.opened.add(key, case, append_ms(record), record.offset)  # of a case that only the journal showed
            self._finish_with(p, record, None)
            return
        await self._admission.enter(record.partition, case)
        first = p.opened.first_of(key) if retries is None else None
        p.opened.forget_before(append_ms(record) - self._window.total_seconds() * 1000)
        p.opened.add(key, case, append_ms(record), record.offset)
        self._finish_with(p, record, self._open(case, news, record, first, retries, authenticated))

    def _finish_with(self, p: NewsPartition, record: Any, work: Any) -> None:
        done: asyncio.Future[Any] = (
            asyncio.ensure_future(work) if work is not None else asyncio.get_running_loop().create_future()
        )
        p.under_way.append([record.offset, done])
        if work is None:
            done.set_result(None)
            self._advance(p)
        else:
            done.add_done_callback(lambda task: self._done(p, task))

    def _done(self, p: NewsPartition, task: asyncio.Future[Any]) -> None:
        if not task.cancelled() and (exc := task.exception()) is not None:
            self._ending.fail(exc)
            return
        self._advance(p)

    def _advance(self, p: NewsPartition) -> None:
        while p.under_way and p.under_way[0][1].done() and not p.under_way[0][1].cancelled():
            p.safe = p.under_way.popleft()[0] + 1

    async def _open(
        self, case: str, news: News, record: Any, first: str | None, retries: str | None, authenticated: bool
    ) -> None:
        event = EventReceived(
            news=news,
            config_hash=self._configs.adopted,
            text_hash=news.text_hash,
            language=language_of(news),
            edits=first,
            news_partition=record.partition,
            news_offset=record.offset,
            retries=retries,
            authenticated=authenticated,
        )
        key, value, headers = wire.encode(
            event,
            id=uuid5("opening", LIVE_RUN, case),
            case_id=case,
            causation_id=None,
            run_id=LIVE_RUN,
            time=utc_now(),
        )
        partition = partition_of(case, self._partitions)
        try:
            _, offset = await self._appender.append(
                self._topics.cases, value, key=key, partition=partition, headers=headers
            )
        except ContractError as exc:  # its opening exceeds Kafka's limit, although the news did not
            self._admission.give_up(case)
            self.poison += 1
            await self._write_dead_letter(record, exc)
            return
        self.opened += 1
        self._admission.appended(case, offset)

    async def _append_news(self, record: Any, news: News, right: int) -> None:
        headers = [(name, value) for name, value in record.headers or () if value is not None]
        await self._appender.append(self._topics.news, record.value, key=news.key, partition=right, headers=headers)

    async def _write_dead_letter(self, record: Any, exc: ContractError) -> None:
        log.warning("news refused", partition=record.partition, offset=record.offset, reason=exc.reason)
        await self._appender.dead_letter(
            self._topics.dead_letters, record, reason=exc.reason, why=str(exc), consumer="intake"
        )
