"""Intake: news → ``EventReceived``. Admission applies back-pressure here alone, never to the journal.

News is taken in the order of its partition, but for fresh news behind a backlog: it overtakes old news that waits for a
slot, never an earlier item of its own source and external id.

A news offset is committed only when its case is in the journal, so a crash in between repeats the news. The index of
opened news, rebuilt from this worker's own ``news`` partitions and from the tail of the journal, recognises the
repetition.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Coroutine
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol

import structlog
from aiokafka import TopicPartition
from aiokafka.partitioner import murmur2

from infra.kafka.topics import KafkaAddress, read_range
from schemas import envelope as wire
from schemas.errors import ContractError
from schemas.events import EventReceived
from schemas.ids import LIVE_RUN, uuid5
from schemas.news import News, case_id_of, decode_news, fresh_key, is_backlog, language_of, retries_of
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
HIGH_WATER, LOW_WATER = 10_000, 2_500
"""Records held in memory per partition at which fetching is paused, and at which it resumes. How far fresh news is seen."""
HIGH_WATER_BYTES = 16 * 1024 * 1024
"""Bytes of such records at which fetching is paused, too."""


class Fetching(Protocol):
    """Pauses and resumes fetching of a ``news`` partition."""

    def hold(self, partition: int) -> None: ...

    def release(self, partition: int) -> None: ...


class Waiting:
    """The records of a partition that wait for their turn, and the fresh ones among them that may overtake the others."""

    def __init__(self) -> None:
        self.records: deque[tuple[Any, int, bool]] = deque()
        self.fresh: deque[Any] = deque()
        self.arrived, self.fresh_arrived = asyncio.Event(), asyncio.Event()
        self.bytes = self._backlog = 0
        self._keys: Counter[int] = Counter()

    def __len__(self) -> int:
        return len(self.records)

    @property
    def is_high(self) -> bool:
        """Whether fetching should pause."""
        return len(self.records) >= HIGH_WATER or self.bytes >= HIGH_WATER_BYTES

    @property
    def is_low(self) -> bool:
        """Whether fetching should resume."""
        return len(self.records) <= LOW_WATER and self.bytes <= HIGH_WATER_BYTES // 4

    def put(self, record: Any) -> None:
        key, is_fresh = fresh_key(record.value, appended_at(record))
        if is_fresh and self._backlog and key not in self._keys:
            self.fresh.append(record)
            self.fresh_arrived.set()
        self._keys[key] += 1
        self._backlog += not is_fresh
        self.bytes += len(record.value or b"")
        self.records.append((record, key, is_fresh))
        self.arrived.set()

    async def first(self) -> Any:
        """Return the first record, which stays here until :meth:`pop`."""
        while not self.records:
            self.arrived.clear()
            await self.arrived.wait()
        return self.records[0][0]

    def pop(self) -> None:
        record, key, is_fresh = self.records.popleft()
        self.bytes -= len(record.value or b"")
        self._backlog -= not is_fresh
        if self._keys[key] == 1:
            del self._keys[key]
        else:
            self._keys[key] -= 1

    async def next_fresh(self) -> Any:
        """Return the next record that may overtake."""
        while not self.fresh:
            self.fresh_arrived.clear()
            await self.fresh_arrived.wait()
        return self.fresh.popleft()


class NewsPartition:
    """One assigned partition of ``news``. Every record before the offset ``safe`` has been processed.

    ``early``: what overtook, by offset, until its turn comes.
    """

    def __init__(self) -> None:
        self.waiting = Waiting()
        self.early: dict[int, asyncio.Future[Any]] = {}
        self.held = False
        self.opened: OpenedNews
        self.safe: int | None = None
        self.next_offset = 0
        self.under_way: deque[list[Any]] = deque()
        self.pumps: list[asyncio.Task[None]] = []


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
        self.opened = self.repeated = self.poison = self.forwarded = self.overtook = 0
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
        p.waiting.put(record)
        if p.waiting.is_high:
            p.held = True
            self._fetching.hold(record.partition)

    def assign(self, numbers: set[int]) -> None:
        """Take these partitions. Each starts from its committed offset with a new index."""
        self.revoke()
        for number in numbers:
            p = self._news[number] = NewsPartition()
            p.pumps = [asyncio.create_task(self._or_end(self._pump(number, p)), name=f"intake-{number}")]

    def halt(self) -> None:
        """Take no more news. Appends under way still complete and move the safe offset, for the last commit."""
        for p in self._news.values():
            for pump in p.pumps:
                pump.cancel()

    def revoke(self) -> None:
        """Release all partitions; appends under way complete or are repeated."""
        self.halt()
        self._news.clear()

    async def close(self) -> None:
        """Close the index of opened news."""
        await self._before.close()

    async def _or_end(self, pump: Coroutine[Any, Any, None]) -> None:
        """Run a pump. An error of it ends the worker."""
        try:
            await pump
        except Exception as exc:
            self._before.reset_if_damaged(exc)
            self._ending.fail(exc)

    async def _pump(self, number: int, p: NewsPartition) -> None:
        p.opened, p.next_offset = await retry_while_unavailable(
            lambda: self._before.of(number), f"news of partition {number}"
        )
        p.safe = p.next_offset
        p.pumps.append(asyncio.create_task(self._or_end(self._pump_fresh(p)), name=f"intake-fresh-{number}"))
        while True:
            record = await p.waiting.first()
            if record.offset > p.next_offset:
                await self._read_gap(number, p, record.offset)
            if record.offset == p.next_offset:
                await self._take(p, record)
                p.opened.take(record)
            p.waiting.pop()
            if p.held and p.waiting.is_low:
                p.held = False
                self._fetching.release(number)

    async def _pump_fresh(self, p: NewsPartition) -> None:
        while True:
            record = await p.waiting.next_fresh()
            if record.offset >= p.next_offset:
                await self._overtake(p, record)

    def _read(self, record: Any) -> tuple[News, str, str | None, bool]:
        """Return the news of a record, its case, the attempt's id if it was sent again, and whether it is authenticated.

        Raises:
            ContractError: it is no news, or claims a listed source without its mark.
        """
        news, retries = decode_news(record.value, now=appended_at(record)), retries_of(record.headers)
        authenticated = self._authenticate(news)
        return news, case_id_of(news, retries), retries, authenticated

    async def _overtake(self, p: NewsPartition, record: Any) -> None:
        try:
            news, case, retries, authenticated = self._read(record)
        except ContractError:
            return  # in its turn it becomes a dead letter
        if case in p.opened or self._right_partition(news) != record.partition:
            return
        done = p.early[record.offset] = asyncio.get_running_loop().create_future()
        await self._admission.enter(record.partition, case, overtakes=True)
        first = self._add(p, news, case, record, retries)
        opening = asyncio.create_task(self._open(case, news, record, first, retries, authenticated))
        opening.add_done_callback(lambda task: self._early_done(p, done, task))

    def _early_done(self, p: NewsPartition, done: asyncio.Future[Any], task: asyncio.Future[Any]) -> None:
        if task.cancelled() or task.exception() is None:
            self.overtook += 1
            done.set_result(None)
        self._done(p, task)

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
        if (early := p.early.pop(record.offset, None)) is not None:
            p.under_way.append([record.offset, early])
            self._advance(p)
            return
        try:
            news, case, retries, authenticated = self._read(record)
        except ContractError as exc:
            self.poison += 1
            self._finish_with(p, record, self._write_dead_letter(record, exc))
            return
        if (right := self._right_partition(news)) != record.partition:
            self.forwarded += 1
            self._finish_with(p, record, self._append_news(record, news, right))
            return
        if case in p.opened:
            self.repeated += 1
            p.opened.add(
                news.key.decode(), case, append_ms(record), record.offset
            )  # of a case that only the journal showed
            self._finish_with(p, record, None)
            return
        old = is_backlog(news.published_at, appended_at(record))
        await self._admission.enter(record.partition, case, is_backlog=old)
        first = self._add(p, news, case, record, retries)
        self._finish_with(p, record, self._open(case, news, record, first, retries, authenticated))

    def _add(self, p: NewsPartition, news: News, case: str, record: Any, retries: str | None) -> str | None:
        """Remember the case that is opened now; return the first one of its source and external id."""
        key = news.key.decode()
        first = p.opened.first_of(key) if retries is None else None
        p.opened.forget_before(append_ms(record) - self._window.total_seconds() * 1000)
        p.opened.add(key, case, append_ms(record), record.offset)
        return first

    def _right_partition(self, news: News) -> int:
        return int((murmur2(news.key) & 0x7FFFFFFF) % self._partitions)

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
            event, id=uuid5("opening", LIVE_RUN, case), case_id=case, causation_id=None, run_id=LIVE_RUN, time=utc_now()
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
