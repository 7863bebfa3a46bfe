"""The rows of the indexes that follow the journal: texts, stories, claims, cached searches. One file per worker slot.

All of them are as of one position, because one reader adds each record to all. None are held in memory.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path

import agents.evidence
import agents.text
import schemas
from streams.effects import search_cache
from streams.journal import fold
from streams.journal.fold_store import FoldStore, FollowingFold, version_of

FILE = "indexes.sqlite"
_TABLES = f"""
CREATE TABLE texts (
    number INTEGER PRIMARY KEY, text BLOB NOT NULL, case_id TEXT NOT NULL, partition INTEGER NOT NULL, at INTEGER NOT NULL,
    owner TEXT NOT NULL, verdict INTEGER NOT NULL, at_ms REAL NOT NULL
);
CREATE INDEX texts_of_text ON texts (text);
CREATE INDEX texts_undecided ON texts (case_id) WHERE verdict = 0;
CREATE TABLE reports (
    number INTEGER PRIMARY KEY, case_id TEXT NOT NULL UNIQUE, at_ms REAL NOT NULL, as_of INTEGER NOT NULL, story BLOB,
    partition INTEGER, at INTEGER, verdict INTEGER NOT NULL DEFAULT 0, joined TEXT NOT NULL DEFAULT '', member_of INTEGER,
    signal TEXT
);
CREATE INDEX reports_of_first ON reports (member_of) WHERE member_of IS NOT NULL;
CREATE TABLE tellings (number INTEGER PRIMARY KEY, telling BLOB NOT NULL);
CREATE TABLE hooks (hook INTEGER, number INTEGER, PRIMARY KEY (hook, number)) WITHOUT ROWID;
CREATE TABLE rivals (later TEXT NOT NULL, earlier TEXT NOT NULL, rival BLOB NOT NULL);
CREATE INDEX rivals_of_later ON rivals (later);
CREATE INDEX rivals_of_earlier ON rivals (earlier);
CREATE TABLE claims (
    number INTEGER PRIMARY KEY, case_id TEXT NOT NULL UNIQUE, at_ms REAL NOT NULL, as_of INTEGER NOT NULL,
    triaged INTEGER NOT NULL DEFAULT 0, claim BLOB NOT NULL, low TEXT NOT NULL, entity TEXT NOT NULL DEFAULT ''
);
CREATE TABLE claims_taken_in (partition INTEGER PRIMARY KEY, at INTEGER NOT NULL);
{search_cache.TABLES}
"""
"""``number``: the order in which cases were read. ``at_ms``: append time. ``as_of``: in microseconds since 1970."""


class RowAccess:
    """Access to the rows for any number of tasks of the event loop, or for one thread.

    A task enters it, uses the rows, and awaits nothing inside except :meth:`wait`. It is not a lock: a lock would pass
    from task to task, one per turn of the loop, and hundreds of tasks read after every record.
    """

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._free, self._moved = asyncio.Event(), asyncio.Event()
        self._free.set()

    async def __aenter__(self) -> None:
        while not self._free.is_set():
            await self._free.wait()

    async def __aexit__(self, *_error: object) -> None: ...

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Give the rows to a thread. Yield to the event loop before the next call, so that tasks get their turn."""
        async with self._turn:
            self._free.clear()
            try:
                yield
            finally:
                self._free.set()

    async def wait(self) -> None:
        """Wait for the next :meth:`notify_all`."""
        await self._moved.wait()
        await self.__aenter__()

    def notify_all(self) -> None:
        """Wake the tasks that wait for new rows."""
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()


def index_rows(directory: Path | None = None) -> FollowingFold:
    """Return the rows stored in a worker slot's directory; None keeps them in memory.

    Raises:
        ConfigError: as for :class:`FoldStore`.
    """
    return FoldStore(directory, FILE).following("indexes", version=version_of(*_rule()), tables=_TABLES)


@cache
def _rule() -> tuple[str, ...]:
    """Return every file on which the rows depend, and more. A change in any of them reads the journal again."""
    folders = [Path(__file__).parent, *(Path(p) for m in (agents.evidence, agents.text, schemas) for p in m.__path__)]
    files = (str(file) for folder in folders for file in sorted(folder.glob("*.py")))
    return (*files, search_cache.__file__, fold.__file__)


def digest(text: str) -> bytes:
    """Return a 16-byte digest of a text."""
    return hashlib.blake2b(text.encode(), digest_size=16).digest()
