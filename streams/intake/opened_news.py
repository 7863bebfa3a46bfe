"""Index of opened news: the same news within ``DEDUP_DAYS`` opens no second case.

It lies on the worker's disk (:mod:`streams.journal.fold_store`). What intake adds is in doubt until its offset is committed:
it may never have reached the journal. So a partition begins with the rows of what is committed alone.
"""

from __future__ import annotations

import asyncio
import hashlib
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import aclosing
from datetime import timedelta
from itertools import takewhile
from pathlib import Path
from typing import Any

from aiokafka import TopicPartition

from infra.kafka.topics import KafkaAddress, committed_by
from infra.late_log import log_of
from schemas import envelope as wire
from schemas import ids
from schemas import news as of_news
from schemas.errors import ContractError
from schemas.events import OPENING_NAME, EventReceived
from schemas.news import News, case_id_of, decode_news, retries_of
from schemas.topics import Topics
from streams.journal.clock import append_ms, appended_at, utc_now
from streams.journal.fold import parse_record
from streams.journal.fold_store import FoldStore, FollowingFold, is_damage, version_of
from streams.journal.log import Bounds, KafkaLog

FILE = "opened.sqlite"
_TABLES = """
CREATE TABLE opened (
    partition INTEGER, at INTEGER, case_id TEXT NOT NULL, news BLOB NOT NULL, at_ms REAL NOT NULL, PRIMARY KEY (partition, at)
) WITHOUT ROWID;
CREATE INDEX opened_of_case ON opened (case_id, partition);
CREATE INDEX opened_of_news ON opened (news, partition, at);
CREATE TABLE opened_upto (partition INTEGER PRIMARY KEY, upto INTEGER NOT NULL)
"""
"""``at``: the offset of the news. ``news``: a digest of source and external id. ``upto``: all news before it is in the rows."""
_RULE = (of_news.__file__, ids.__file__, __file__)
_AT_ONCE = 200
"""Records indexed before others of the loop get their turn: about 10 ms."""
_MOST_FORGOTTEN = 1000


class OpenedNews:
    """Case ids, and the first case of each (source, external id), of one partition of ``news``. Entries expire after ``DEDUP_DAYS``."""

    def __init__(self, fold: FollowingFold, partition: int) -> None:
        self._fold, self._partition = fold, partition
        # Of the journal: news that is not committed, but has opened a case.
        self._found: dict[str, str] = {}
        self._first: dict[str, str] = {}

    def find(self, news_key: str, case_id: str) -> None:
        """Add a case that only the journal shows, until its news is taken."""
        self._found.setdefault(case_id, news_key)
        self._first.setdefault(news_key, case_id)

    def add(self, news_key: str, case_id: str, at_ms: float, at: int) -> None:
        """Add a case that the news at the offset ``at`` has opened. The first one counts."""
        if not self._holds(case_id):
            values = (self._partition, at, case_id, _digest(news_key), at_ms)
            self._fold.write("INSERT OR IGNORE INTO opened VALUES (?, ?, ?, ?, ?)", *values)
        self._found.pop(case_id, None)
        if self._first.get(news_key) == case_id:
            del self._first[news_key]

    def __len__(self) -> int:
        (held,) = self._fold.row("SELECT count(*) FROM opened WHERE partition = ?", self._partition)
        return int(held) + len(self._found)

    def __contains__(self, case_id: str) -> bool:
        return case_id in self._found or self._holds(case_id)

    def first_of(self, news_key: str) -> str | None:
        """Return the first case of this source and external id."""
        asked = (
            "SELECT case_id FROM opened INDEXED BY opened_of_news WHERE news = ? AND partition = ? ORDER BY at LIMIT 1"
        )
        held = self._fold.row(asked, _digest(news_key), self._partition)
        return self._first.get(news_key) if held is None else str(held[0])

    def forget_before(self, at_ms: float) -> bool:
        """Drop entries older than this time, the oldest ones first; return whether there may be more of them."""
        asked = "SELECT at, at_ms FROM opened WHERE partition = ? ORDER BY at LIMIT ?"
        oldest = self._fold.row(asked, self._partition, 1)
        if oldest is None or oldest[1] >= at_ms:
            return False
        rows = self._fold.rows.execute(asked, (self._partition, _MOST_FORGOTTEN)).fetchall()
        gone = [at for at, _ in takewhile(lambda row: row[1] < at_ms, rows)]
        self._fold.write("DELETE FROM opened WHERE partition = ? AND at <= ?", self._partition, gone[-1])
        return len(gone) == _MOST_FORGOTTEN

    def upto(self) -> int | None:
        """Return the offset before which all news is in the rows; None if none was read."""
        row = self._fold.row("SELECT upto FROM opened_upto WHERE partition = ?", self._partition)
        return None if row is None else int(row[0])

    def take(self, record: Any) -> None:
        """Record that the news up to this record is in the rows."""
        self._fold.write("INSERT OR REPLACE INTO opened_upto VALUES (?, ?)", self._partition, record.offset + 1)
        self._fold.take(TopicPartition(record.topic, self._partition), record)
        self._fold.commit_if_due()

    def cut(self, upto: int) -> None:
        """Drop what is in doubt: the entries of news at this offset and behind it."""
        self._fold.write("DELETE FROM opened WHERE partition = ? AND at >= ?", self._partition, upto)
        self._fold.write("UPDATE opened_upto SET upto = ? WHERE partition = ?", upto, self._partition)

    def _holds(self, case_id: str) -> bool:
        asked = "SELECT 1 FROM opened WHERE case_id = ? AND partition = ?"
        return self._fold.row(asked, case_id, self._partition) is not None


class OpenedNewsIndex:
    """Cases opened before a partition of ``news`` was assigned to this worker, read from its disk and from the log.

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
        directory: Path | None = None,
    ) -> None:
        """``directory``: that of the worker slot; None keeps the index in memory.

        Raises:
            ConfigError: as for :class:`FoldStore`.
        """
        self._authenticate = authenticate
        self._address, self._log = address, KafkaLog(address)
        self._topics, self._group, self._window = topics, group, window
        version = version_of(*_RULE)
        self._fold = FoldStore(directory, FILE).following("opened-news", version=version, tables=_TABLES)
        self._begun = False
        self._beginning = asyncio.Lock()

    async def of(self, number: int) -> tuple[OpenedNews, int]:
        """Return the index of this partition, and the offset of the first news to take.

        Raises:
            KafkaError: the broker does not respond.
            sqlite3.Error: the index cannot be read or written.
        """
        tp = TopicPartition(self._topics.news, number)
        bounds = await self._log.bounds(self._topics.news)
        first, end = bounds[tp]
        known = (await committed_by(self._address, self._group)).get(tp)
        committed = max(first, first if known is None else known.offset)
        async with self._beginning:
            if not self._begun:
                await self._fold.begin(self._log, self._topics.news, bounds)
                self._begun = True
        since_ms = (utc_now() - self._window).timestamp() * 1000
        opened = OpenedNews(self._fold, number)
        upto = opened.upto()
        opened.cut(start := committed if upto is None else min(upto, committed))
        if upto is None:
            oldest = (await self._log.offsets_at([tp], int(since_ms)))[tp]
            start = min(committed, committed if oldest is None else oldest)
        more = True
        while more:
            more = opened.forget_before(since_ms)
            await asyncio.sleep(0)
        oldest_open = await self._read(opened, {tp: (max(first, start), end)}, committed)
        if oldest_open is not None:
            await self._scan_journal(opened, number, oldest_open)
        return opened, committed

    async def _read(self, opened: OpenedNews, span: Bounds, committed: int) -> int | None:
        """Index the news before the offset ``committed``; return the append time of the first one behind it."""
        reading: Any = self._log.replay(span, batch=_AT_ONCE)
        async with aclosing(reading):
            async for _, records in reading:
                settled = [record for record in records if record.offset < committed]
                self._index(opened, settled)
                if settled:
                    opened.take(settled[-1])
                if len(settled) < len(records):  # the first one; offsets before it may be markers of a transaction
                    return int(records[len(settled)].timestamp)
                await asyncio.sleep(0)
        return None

    def reset_if_damaged(self, exc: BaseException) -> None:
        """Throw the rows away where an error says that they are damaged. Ask for every partition anew: in another process."""
        if isinstance(exc, sqlite3.DatabaseError) and is_damage(exc):
            log_of(__name__).warning("the index of opened news is damaged and is deleted", why=str(exc))
            self._fold.reset()

    async def close(self) -> None:
        """Commit what was taken, and close the file, once no thread deletes rows from it."""
        async with self._beginning:
            self._fold.close()

    async def _scan_journal(self, opened: OpenedNews, number: int, since_ms: int) -> None:
        bounds = await self._log.bounds(self._topics.cases)
        starts = await self._log.offsets_at(bounds, since_ms)
        spans = {tp: (end if (start := starts[tp]) is None else start, end) for tp, (_, end) in bounds.items()}
        openings: list[tuple[int, EventReceived, str]] = []
        async for _, records in self._log.replay(spans):
            for record in records:
                if dict(record.headers).get("ce_type") != OPENING_NAME.encode():
                    continue
                try:
                    env = parse_record(record, len(bounds))
                    event = wire.decode(env.type, env.version, record.value)
                except ContractError:
                    continue
                if isinstance(event, EventReceived) and event.news_partition == number:
                    openings.append((event.news_offset, event, env.case_id))
        # In the order of the news, not of the journal's partitions: edits name the first case of an external id.
        for _, event, case in sorted(openings, key=lambda row: row[0]):
            opened.find(event.news.key.decode(), case)

    def _index(self, opened: OpenedNews, records: Sequence[Any]) -> None:
        for record in records:
            try:
                news = decode_news(record.value, now=appended_at(record))
                self._authenticate(news)  # what was refused has opened nothing, and must not keep the genuine item out
                case = case_id_of(news, retries_of(record.headers))
            except ContractError:
                continue
            opened.add(news.key.decode(), case, append_ms(record), record.offset)


def _digest(news_key: str) -> bytes:
    return hashlib.blake2b(news_key.encode(), digest_size=16).digest()
