"""The fold store: a worker's folds of the log, stored on its disk, so that a start reads only newer records.

It is a cache, and no guarantee depends on it: in any doubt its rows are deleted, and the log is read from its start.
Rows and read positions are written in one SQLite transaction, so a crash at any moment leaves rows and positions that
match. One process opens a file at a time, and one thread uses it at a time.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from aiokafka import TopicPartition

from infra.late_log import log_of
from schemas.errors import ConfigError
from streams.journal.log import Log

T = TypeVar("T")
F = TypeVar("F", bound="StoredFold")

FILE = "folds.sqlite"
_DAMAGE = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR}
"""Primary result codes for a damaged database or a missing table. Not for a full disk or a failing one."""
_PRAGMAS = """
PRAGMA locking_mode = EXCLUSIVE;
PRAGMA journal_mode = WAL;
PRAGMA synchronous = NORMAL;
PRAGMA cache_size = -16384;
PRAGMA temp_store = MEMORY;
"""
_OWN = """
CREATE TABLE IF NOT EXISTS folds (name TEXT PRIMARY KEY, version INTEGER NOT NULL, tables TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS positions (
    fold TEXT, topic TEXT, partition INTEGER, position INTEGER NOT NULL, last_offset INTEGER NOT NULL, mark BLOB NOT NULL,
    PRIMARY KEY (fold, topic, partition)
) WITHOUT ROWID;
"""
_TABLE = re.compile(r"CREATE TABLE (\w+)")
COMMIT_S = 1.0
"""Interval at which a fold that follows its topic commits. After a kill, a start reads at most this much again."""


class FoldStore:
    """One SQLite file, in which each fold has its own tables."""

    def __init__(self, directory: Path | None, file: str = FILE) -> None:
        """``directory``: the worker slot's; None keeps everything in memory. Each thread needs its own ``file``.

        Raises:
            ConfigError: another process has the file open, or it cannot be written.
        """
        self._path = None if directory is None else directory / file
        if directory is not None:
            directory.mkdir(parents=True, exist_ok=True)
        try:
            self.rows = self._opened()
        except sqlite3.OperationalError as exc:
            raise ConfigError(
                f"{self._path} cannot be opened ({exc}): end the other process of this worker slot, or give this one a slot "
                "(WORKER_SLOT) or a data directory of its own, which it may write"
            ) from exc
        except sqlite3.DatabaseError as exc:
            log_of(__name__).warning(
                "the fold store is damaged; it is deleted and read again from the log", why=str(exc)
            )
            self._delete()
            self.rows = self._opened()

    def reset(self) -> None:
        """Delete the whole file, damaged or not, and start an empty one. Request every fold again afterwards."""
        self.rows.close()
        self._delete()
        self.rows = self._opened()

    def _opened(self) -> sqlite3.Connection:
        where = ":memory:" if self._path is None else self._path
        rows = sqlite3.connect(where, isolation_level=None, timeout=1.0, check_same_thread=False)
        try:
            rows.executescript(_PRAGMAS)
            rows.executescript(_OWN)
        except sqlite3.DatabaseError:
            rows.close()
            raise
        return rows

    def _delete(self) -> None:
        if self._path is not None:
            for end in ("", "-wal", "-shm", "-journal"):
                self._path.with_name(self._path.name + end).unlink(missing_ok=True)

    def fold(self, name: str, *, version: int, tables: str) -> StoredFold:
        """Return the rows of one fold.

        ``tables``: its ``CREATE TABLE`` and ``CREATE INDEX`` statements. Rows written by another ``version`` of the
        fold's rule, or with other statements, are deleted.
        """
        return self._checked(StoredFold(self, name, version, tables))

    def following(self, name: str, *, version: int, tables: str) -> FollowingFold:
        """Return the rows of a fold as :meth:`fold` does, if it follows its topic. It must be alone in its file."""
        try:
            return self._checked(FollowingFold(self, name, version, tables))
        except sqlite3.DatabaseError as exc:
            if not is_damage(exc):
                raise
            log_of(__name__).warning("the stored fold is damaged and is deleted", fold=name, why=str(exc))
            self.reset()
            return self._checked(FollowingFold(self, name, version, tables))

    def _checked(self, fold: F) -> F:
        stored = self.rows.execute("SELECT version, tables FROM folds WHERE name = ?", (fold.name,)).fetchone()
        if stored != (fold.version, fold.tables):
            if stored is not None:
                log_of(__name__).info("the stored fold was made by another rule and is deleted", fold=fold.name)
            fold.replace(fold.tables if stored is None else stored[1])
        return fold

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Write rows and positions in one transaction: all or nothing. Await nothing inside."""
        self.rows.execute("BEGIN")
        try:
            yield self.rows
        except BaseException:
            if self.rows.in_transaction:  # SQLite ends it by itself if the disk is full
                self.rows.execute("ROLLBACK")
            raise
        self.rows.execute("COMMIT")

    def close(self) -> None:
        """Close the file."""
        self.rows.close()


class StoredFold:
    """The rows of one fold, and the position up to which each partition is folded."""

    def __init__(self, store: FoldStore, name: str, version: int, tables: str) -> None:
        self.store = store
        self.name, self.version, self.tables = name, version, tables

    @property
    def rows(self) -> sqlite3.Connection:
        """The connection to the store that holds the rows."""
        return self.store.rows

    async def begin(
        self, of: Log, topic: str, spans: Mapping[TopicPartition, tuple[int, int]]
    ) -> dict[TopicPartition, int]:
        """Return the position up to which each partition is folded. In doubt, delete the rows and return an empty dict.

        ``spans``: the topic's present first and end offsets. The log must still hold the last folded record of each
        partition: a log that was deleted and recreated has another one there.
        """
        stored = {TopicPartition(topic, p): (position, last, mark) for p, position, last, mark in self._places(topic)}
        why = ""
        for tp, (position, last, _) in stored.items():
            first, end = spans.get(tp, (0, 0))
            if not first <= last < end or position > end:
                why = f"{tp.topic}-{tp.partition} holds offsets {first} to {end}, and was read to {position}"
        if stored and not why:
            why = await self._changed(of, stored)
        if why:
            log_of(__name__).warning(
                "the stored fold does not match the log; it is deleted and read again", fold=self.name, why=why
            )
            await beside_the_loop(self.clear)  # for a large table this takes a second
            return {}
        return {tp: position for tp, (position, _, _) in stored.items()}

    async def _changed(self, of: Log, stored: Mapping[TopicPartition, tuple[int, int, bytes]]) -> str:
        unseen = dict(stored)
        async for tp, records in of.replay({tp: (last, last + 1) for tp, (_, last, _) in stored.items()}):
            if mark_of(records[0]) == stored[tp][2]:
                unseen.pop(tp, None)
        return f"another record where the last one was: {sorted(tp.partition for tp in unseen)}" if unseen else ""

    def reach(self, tp: TopicPartition, position: int, last: Any) -> None:
        """Record that a partition is folded up to ``position``. ``last``: its last record. Call inside ``writing``."""
        place = (self.name, tp.topic, tp.partition, position, last.offset, mark_of(last))
        self.rows.execute("INSERT OR REPLACE INTO positions VALUES (?, ?, ?, ?, ?, ?)", place)

    def clear(self) -> None:
        """Delete the rows and positions."""
        self.replace(self.tables)

    def replace(self, former: str) -> None:
        """Replace the tables of the ``former`` statements by new, empty ones."""
        with self.store.writing():
            for table in _TABLE.findall(former):
                self.rows.execute(f"DROP TABLE IF EXISTS {table}")
            self.rows.execute("DELETE FROM positions WHERE fold = ?", (self.name,))
            for statement in filter(str.strip, self.tables.split(";")):
                self.rows.execute(statement)
            entry = (self.name, self.version, self.tables)
            self.rows.execute("INSERT OR REPLACE INTO folds VALUES (?, ?, ?)", entry)

    def _places(self, topic: str) -> list[tuple[int, int, int, bytes]]:
        asked = "SELECT partition, position, last_offset, mark FROM positions WHERE fold = ? AND topic = ?"
        return self.rows.execute(asked, (self.name, topic)).fetchall()


class FollowingFold(StoredFold):
    """A fold that follows its topic record by record. Readers also see rows that :meth:`commit` has not committed."""

    def __init__(self, store: FoldStore, name: str, version: int, tables: str) -> None:
        super().__init__(store, name, version, tables)
        self._last: dict[TopicPartition, Any] = {}
        self._commit_at = 0.0

    def write(self, sql: str, *values: Any) -> None:
        """Execute a statement that changes rows."""
        if not self.rows.in_transaction:
            self.rows.execute("BEGIN")
        self.rows.execute(sql, values)

    def row(self, sql: str, *values: Any) -> Any:
        """Return the first row of a query; None if there is none."""
        return self.rows.execute(sql, values).fetchone()

    @property
    def is_due(self) -> bool:
        """True if the next :meth:`commit_if_due` commits."""
        return time.monotonic() >= self._commit_at

    def take(self, tp: TopicPartition, last: Any) -> None:
        """Record that the rows include everything up to ``last``."""
        self._last[tp] = last

    def commit_if_due(self) -> None:
        """Commit, at most once per ``COMMIT_S``."""
        if self.is_due:
            self.commit()

    def commit(self) -> None:
        """Commit rows and positions."""
        if self._last and not self.rows.in_transaction:
            self.rows.execute("BEGIN")
        for tp, last in self._last.items():
            self.reach(tp, last.offset + 1, last)
        if self.rows.in_transaction:
            self.rows.execute("COMMIT")
        self._last.clear()
        self._commit_at = time.monotonic() + COMMIT_S

    def reset(self) -> None:
        """Delete the file, damaged or not, and start an empty one."""
        self._last.clear()
        self.store.reset()
        self.replace(self.tables)

    def close(self) -> None:
        """Commit and close the file. If that fails, the next start has more to read."""
        try:
            self.commit()
        except sqlite3.Error as exc:
            log_of(__name__).warning(
                "a fold is not stored on disk; the next start reads more of the log", fold=self.name, why=repr(exc)
            )
        self.store.close()

    def give_up(self) -> None:
        """Undo everything not committed."""
        self._last.clear()
        if self.rows.in_transaction:
            self.rows.execute("ROLLBACK")


async def beside_the_loop(work: Callable[[], T]) -> T:
    """Do the work in a thread. Return only when it is done, however often cancelled, because only one may use the store.

    A store that is closed during a statement of another thread can hang or crash the process.
    """
    doing = asyncio.ensure_future(asyncio.to_thread(work))
    cancelled: asyncio.CancelledError | None = None
    while not doing.done():
        try:
            await asyncio.wait([doing])
        except asyncio.CancelledError as exc:
            cancelled = exc
    if cancelled is not None:
        doing.exception()  # so that nothing complains that nobody looked at it
        raise cancelled
    return doing.result()


@cache
def version_of(*sources: str) -> int:
    """Return a fold's version: a hash of the files that hold its rule. Any change of them invalidates stored rows.

    Read once: a process keeps the rule that it has loaded.
    """
    code = b"".join(Path(source).read_bytes() for source in sources)
    return int.from_bytes(hashlib.blake2b(code, digest_size=6).digest())


def mark_of(record: Any) -> bytes:
    """Return a digest that distinguishes a record from any other at its offset."""
    parts = (record.timestamp, record.key, record.value, sorted(record.headers))
    return hashlib.blake2b(repr(parts).encode(), digest_size=8).digest()


def is_damage(exc: sqlite3.DatabaseError) -> bool:
    """Return whether the error means a damaged file, which :meth:`FoldStore.reset` and reading again repair."""
    return getattr(exc, "sqlite_errorcode", 0) & 0xFF in _DAMAGE
