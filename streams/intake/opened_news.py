"""Index of opened news: the same news within ``DEDUP_DAYS`` opens no second case."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing
from datetime import timedelta
from typing import Any

from aiokafka import TopicPartition

from infra.kafka.topics import KafkaAddress, committed_by
from schemas import envelope as wire
from schemas.attempts import case_id_of, retries_of
from schemas.errors import ContractError
from schemas.events import OPENING_NAME, EventReceived
from schemas.news import News, decode_news
from schemas.topics import Topics
from streams.journal.clock import append_ms, appended_at, utc_now
from streams.journal.fold import parse_record
from streams.journal.log import KafkaLog


class OpenedNews:
    """Case ids, and the first case of each (source, external id). Entries expire after ``DEDUP_DAYS``."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[float, str]] = {}
        self._first: dict[str, str] = {}

    def add(self, news_key: str, case_id: str, at_ms: float) -> None:
        """Add an opened case."""
        self._seen.setdefault(case_id, (at_ms, news_key))
        self._first.setdefault(news_key, case_id)

    def __len__(self) -> int:
        return len(self._seen)

    def __contains__(self, case_id: str) -> bool:
        return case_id in self._seen

    def first_of(self, news_key: str) -> str | None:
        """Return the first case of this source and external id."""
        return self._first.get(news_key)

    def copy(self) -> OpenedNews:
        """Return an independent copy."""
        other = OpenedNews()
        other._seen, other._first = dict(self._seen), dict(self._first)
        return other

    def forget_before(self, at_ms: float) -> None:
        """Drop entries older than this time."""
        while self._seen:
            case_id, (seen, news_key) = next(iter(self._seen.items()))
            if seen >= at_ms:
                return
            del self._seen[case_id]
            if self._first.get(news_key) == case_id:
                del self._first[news_key]


class _Read:
    """The cases that the log shows for the news of one partition before the offset ``upto``."""

    def __init__(self, opened: OpenedNews, upto: int) -> None:
        self.opened, self.upto = opened, upto


class OpenedNewsIndex:
    """Cases opened before a partition of ``news`` was assigned to this worker, read from the log.

    Each range of news is read once: for a partition that comes back, reading continues where it stopped.
    """

    def __init__(
        self,
        address: KafkaAddress,
        topics: Topics,
        group: str,
        *,
        window: timedelta,
        authenticate: Callable[[News], bool],
    ) -> None:
        self._authenticate = authenticate
        self._address, self._log = address, KafkaLog(address)
        self._topics, self._group, self._window = topics, group, window
        self._read: dict[int, _Read] = {}

    async def of(self, number: int) -> tuple[OpenedNews, int]:
        """Return the index of this partition, and the offset of the first news to take."""
        tp = TopicPartition(self._topics.news, number)
        first, end = (await self._log.bounds(self._topics.news))[tp]
        known = (await committed_by(self._address, self._group)).get(tp)
        committed = max(first, first if known is None else known.offset)
        since_ms = (utc_now() - self._window).timestamp() * 1000
        read = self._read.get(number)
        if read is None or read.upto > committed:
            start = (await self._log.offsets_at([tp], int(since_ms)))[tp]
            read = self._read[number] = _Read(OpenedNews(), max(first, committed if start is None else start))
        read.opened.forget_before(since_ms)
        oldest_open: int | None = None
        reading: Any = self._log.replay({tp: (max(first, read.upto), end)})
        async with aclosing(reading):
            async for _, records in reading:
                for record in records:
                    if record.offset >= committed:  # the first one; offsets before it may be markers of a transaction
                        oldest_open = record.timestamp
                        break
                    self._index(read.opened, record)
                    read.upto = record.offset + 1
                if oldest_open is not None:
                    break
        opened = read.opened.copy()  # the live index may get entries that never reach the log
        if oldest_open is not None:
            await self._scan_journal(opened, oldest_open)
        return opened, committed

    async def _scan_journal(self, opened: OpenedNews, since_ms: int) -> None:
        bounds = await self._log.bounds(self._topics.cases)
        starts = await self._log.offsets_at(bounds, since_ms)
        spans = {tp: (end if (start := starts[tp]) is None else start, end) for tp, (_, end) in bounds.items()}
        found: list[tuple[int, float, EventReceived, str]] = []
        async for _, records in self._log.replay(spans):
            for record in records:
                if dict(record.headers).get("ce_type") != OPENING_NAME.encode():
                    continue
                try:
                    env = parse_record(record, len(bounds))
                    event = wire.decode(env.type, env.version, record.value)
                except ContractError:
                    continue
                if isinstance(event, EventReceived):
                    found.append((event.news_offset, append_ms(record), event, env.case_id))
        # In the order of the news, not of the journal's partitions: edits name the first case of an external id.
        for _, at_ms, event, case in sorted(found, key=lambda row: row[:2]):
            opened.add(event.news.key.decode(), case, at_ms)

    def _index(self, opened: OpenedNews, record: Any) -> None:
        try:
            news = decode_news(record.value, now=appended_at(record))
            self._authenticate(news)  # what was refused has opened nothing, and must not keep the genuine item out
            case = case_id_of(news, retries_of(record.headers))
        except ContractError:
            return
        opened.add(news.key.decode(), case, append_ms(record))
