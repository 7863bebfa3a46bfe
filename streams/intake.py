"""Intake: news → ``EventReceived``. Admission lives here alone; the journal is never held back.

A news offset is committed only when its case is in the journal, so a crash in between repeats the news; the index of what
was opened, rebuilt from this worker's own ``news`` partitions and from the tail of the journal, recognises it then.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import structlog
from aiokafka import TopicPartition
from aiokafka.partitioner import murmur2

from infra.kafka import KafkaAddress, committed_by, offsets_of, read_range
from schemas import envelope as wire
from schemas.errors import ContractError
from schemas.events import OPENING_NAME, EventReceived
from schemas.ids import LIVE_RUN, text_hash, uuid5
from schemas.news import News, decode_news, language_of
from schemas.topics import Topics, partition_of
from streams.append import Appender
from streams.opened import Opened
from streams.projector import utc_now

log = structlog.get_logger(__name__)

MAX_UNCOMMITTED = 500
"""Appends under way per partition: enough to fill the producer's batches, few enough to repeat after a crash."""
HIGH_WATER, LOW_WATER = 2000, 500
"""Records held in memory per partition before its fetching stops, and when it goes on."""


class NewsPartition:
    """One assigned partition of ``news``. ``safe`` is the offset up to which every record has been dealt with."""

    def __init__(self) -> None:
        self.waiting: deque[Any] = deque()
        self.arrived = asyncio.Event()
        self.opened = Opened()
        self.safe: int | None = None
        self.next_offset = 0
        self.under_way: deque[list[Any]] = deque()
        self.pump: asyncio.Task[None] | None = None


class Intake:
    """Opens cases. ``open_cases`` tells how many this worker has open, ``config_hash`` what new cases pin."""

    def __init__(
        self,
        address: KafkaAddress,
        topics: Topics,
        group: str,
        appender: Appender,
        *,
        partitions: int,
        max_open_cases: int,
        dedup_days: int,
        open_cases: Callable[[], int],
        owns_journal: Callable[[int], bool],
        config_hash: Callable[[], str],
    ) -> None:
        self._address, self._topics, self._group, self._appender = address, topics, group, appender
        self._partitions = partitions
        self._max_open = max_open_cases
        self._window = timedelta(days=dedup_days)
        self._open_cases = open_cases
        self._owns_journal = owns_journal
        self._config_hash = config_hash
        self._news: dict[int, NewsPartition] = {}
        self._opening: set[str] = set()
        self._room = asyncio.Event()
        self._room.set()
        self.hold: Callable[[int], None] = lambda _partition: None
        self.release: Callable[[int], None] = lambda _partition: None
        self.on_fatal: Callable[[BaseException], None] = lambda exc: None
        self.opened = self.repeated = self.poison = self.forwarded = 0

    def safe_offset(self, partition: int) -> int | None:
        """The offset up to which every news record is a case, a repeat or a dead letter."""
        p = self._news.get(partition)
        return None if p is None else p.safe

    def on_record(self, record: Any) -> None:
        """Take the next record of the stream; never waits."""
        p = self._news.get(record.partition)
        if p is None:
            return
        p.waiting.append(record)
        p.arrived.set()
        if len(p.waiting) >= HIGH_WATER:
            self.hold(record.partition)

    def on_case_seen(self, case_id: str) -> None:
        """The journal showed a case that was being opened, or one closed: look again whether there is room."""
        self._opening.discard(case_id)
        if len(self._opening) + self._open_cases() < self._max_open:
            self._room.set()

    def assign(self, numbers: set[int]) -> None:
        """Take these partitions. Each starts from its committed offset with a new index."""
        self.revoke()
        self._opening.clear()
        self._room.set()
        for number in numbers:
            p = self._news[number] = NewsPartition()
            p.pump = asyncio.create_task(self._pump(number, p), name=f"intake-{number}")

    def revoke(self) -> None:
        """Let go of all partitions; what is under way ends in the log or is repeated."""
        for p in self._news.values():
            if p.pump is not None:
                p.pump.cancel()
        self._news.clear()

    async def _pump(self, number: int, p: NewsPartition) -> None:
        try:
            await self._load(number, p)
            while True:
                while not p.waiting:
                    p.arrived.clear()
                    await p.arrived.wait()
                record = p.waiting.popleft()
                if len(p.waiting) == LOW_WATER:
                    self.release(number)
                if record.offset < p.next_offset:
                    continue
                if record.offset > p.next_offset:
                    await self._read_gap(number, p, record.offset)
                await self._take(p, record)
        except asyncio.CancelledError:
            raise
        except Exception as exc:
            self.on_fatal(exc)

    async def _read_gap(self, number: int, p: NewsPartition, until: int) -> None:
        # Markers of a foreign transactional writer look like a gap, and so do records that the stream dropped: look.
        span = {TopicPartition(self._topics.news, number): (p.next_offset, until)}
        async for _, records in read_range(self._address, span):
            for missed in records:
                await self._take(p, missed)
        p.next_offset = until

    async def _take(self, p: NewsPartition, record: Any) -> None:
        p.next_offset = record.offset + 1
        while len(p.under_way) >= MAX_UNCOMMITTED:
            await p.under_way[0][1]
            self._advance(p)  # by ourselves: awaiting what is done already gives its callback no turn
        try:
            news = decode_news(record.value, now=_appended_at(record))
        except ContractError as exc:
            self.poison += 1
            self._finish_with(p, record, self._letter(record, exc))
            return
        right = (murmur2(news.key) & 0x7FFFFFFF) % self._partitions
        if right != record.partition:
            self.forwarded += 1
            self._finish_with(p, record, self._append_news(record, news, right))
            return
        if news.case_id in p.opened:
            self.repeated += 1
            self._finish_with(p, record, None)
            return
        while len(self._opening) + self._open_cases() >= self._max_open:
            self._room.clear()
            await self._room.wait()
        key = news.key.decode()
        first = p.opened.first_of(key)
        p.opened.forget_before(_append_ms(record) - self._window.total_seconds() * 1000)
        p.opened.add(key, news.case_id, _append_ms(record))
        self._opening.add(news.case_id)
        self._finish_with(p, record, self._open(news, record, first))

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
            self.on_fatal(exc)
            return
        self._advance(p)

    def _advance(self, p: NewsPartition) -> None:
        while p.under_way and p.under_way[0][1].done() and not p.under_way[0][1].cancelled():
            p.safe = p.under_way.popleft()[0] + 1

    async def _open(self, news: News, record: Any, first: str | None) -> None:
        case = news.case_id
        event = EventReceived(
            news=news,
            config_hash=self._config_hash(),
            text_hash=text_hash(news.text),
            language=language_of(news),
            edits=first,
            news_partition=record.partition,
            news_offset=record.offset,
        )
        key, value, headers = wire.encode(
            event,
            id=uuid5("opening", LIVE_RUN, case),
            case_id=case,
            causation_id=None,
            run_id=LIVE_RUN,
            time=utc_now(),
        )
        await self._appender.append(
            self._topics.cases, value, key=key, partition=partition_of(case, self._partitions), headers=headers
        )
        self.opened += 1
        if not self._owns_journal(partition_of(case, self._partitions)):
            self._opening.discard(case)  # another worker's case: its fold counts there

    async def _append_news(self, record: Any, news: News, right: int) -> None:
        await self._appender.append(self._topics.news, record.value, key=news.key, partition=right)

    async def _letter(self, record: Any, exc: ContractError) -> None:
        log.warning("news refused", partition=record.partition, offset=record.offset, reason=exc.reason)
        await self._appender.dead_letter(
            self._topics.dead_letters, record, reason=exc.reason, why=str(exc), consumer="intake"
        )

    # Loading the index

    async def _load(self, number: int, p: NewsPartition) -> None:
        tp = TopicPartition(self._topics.news, number)
        first, end = (await offsets_of(self._address, self._topics.news))[tp]
        known = (await committed_by(self._address, self._group)).get(tp)
        committed = first if known is None else known.offset
        since = int((utc_now() - self._window).timestamp() * 1000)
        start = await self._offset_at(tp, since, default=committed)
        oldest_open: int | None = None
        async for _, records in read_range(self._address, {tp: (max(first, start), min(committed + 1, end))}):
            for record in records:
                if record.offset >= committed:
                    oldest_open = record.timestamp
                    break
                self._index(p, record)
        if oldest_open is not None:
            await self._scan_journal(p, oldest_open)
        p.safe = p.next_offset = max(committed, first)

    def _index(self, p: NewsPartition, record: Any) -> None:
        try:
            news = decode_news(record.value, now=_appended_at(record))
        except ContractError:
            return
        p.opened.add(news.key.decode(), news.case_id, _append_ms(record))

    async def _scan_journal(self, p: NewsPartition, since_ms: int) -> None:
        bounds = await offsets_of(self._address, self._topics.cases)
        spans = {tp: (await self._offset_at(tp, since_ms, default=end), end) for tp, (_, end) in bounds.items()}
        found: list[tuple[int, float, EventReceived, str]] = []
        async for _, records in read_range(self._address, spans):
            for record in records:
                if dict(record.headers).get("ce_type") != OPENING_NAME.encode():
                    continue
                try:
                    env = wire.read_envelope(record.headers)
                    event = wire.decode(env.type, env.version, record.value)
                except ContractError:
                    continue
                if isinstance(event, EventReceived):
                    found.append((event.news_offset, _append_ms(record), event, env.case_id))
        # In the order of the news, not of the journal's partitions: the first case of an external id is named by its edits.
        for _, at_ms, event, case in sorted(found, key=lambda row: row[:2]):
            p.opened.add(event.news.key.decode(), case, at_ms)

    async def _offset_at(self, tp: TopicPartition, at_ms: int, *, default: int) -> int:
        consumer = self._address.consumer()
        await consumer.start()
        try:
            found = (await consumer.offsets_for_times({tp: at_ms}))[tp]
        finally:
            await consumer.stop()
        return default if found is None else found.offset


def _append_ms(record: Any) -> float:
    timestamp = float(record.timestamp or 0.0)
    return timestamp * 1000 if timestamp < 1e11 else timestamp  # Faust counts in seconds, aiokafka in milliseconds


def _appended_at(record: Any) -> datetime:
    # "In the future" is judged by the append time: whoever reads the record, and whenever, judges it alike.
    at_ms = _append_ms(record)
    return datetime.fromtimestamp(at_ms / 1000, UTC) if at_ms > 0 else utc_now()
