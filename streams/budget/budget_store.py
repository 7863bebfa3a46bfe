"""Store of the budget's state on the worker's disk, so that a start folds only newer records."""

from __future__ import annotations

import hashlib
import sqlite3
from pathlib import Path
from typing import Any

import msgspec
import structlog
from aiokafka import TopicPartition

from schemas import budget
from streams.budget import rule
from streams.budget.rule import BudgetState
from streams.journal.fold_store import FoldStore, StoredFold, is_damage, version_of
from streams.journal.log import Log

log = structlog.get_logger(__name__)

FILE = "budget.sqlite"
_TABLES = "CREATE TABLE budget (state BLOB NOT NULL, digest BLOB NOT NULL)"


class BudgetStore:
    """The state as of one record of the topic. The next start folds the records after it."""

    def __init__(self, directory: Path, tp: TopicPartition) -> None:
        """``directory``: the worker slot's directory.

        Raises:
            ConfigError: as for :class:`FoldStore`.
        """
        self._tp, self._at = tp, -1
        self._store = FoldStore(directory, FILE)
        self._fold = self._asked()

    def _asked(self) -> StoredFold:
        return self._store.fold("budget", version=version_of(rule.__file__, budget.__file__), tables=_TABLES)

    async def load(self, of: Log, span: tuple[int, int]) -> tuple[BudgetState, int]:
        """Return the stored state and the offset after it; else an empty state and the topic's first offset.

        ``span``: the topic's present first and end offsets.
        """
        try:
            position = (await self._fold.begin(of, self._tp.topic, {self._tp: span})).get(self._tp)
            kept = self._fold.rows.execute("SELECT state, digest FROM budget").fetchone()
            if position is not None and kept is not None:
                if kept[1] != _digest(kept[0], position):
                    raise ValueError("its digest is another one")
                return BudgetState.of(kept[0]), position
        except (sqlite3.DatabaseError, msgspec.MsgspecError, ValueError, TypeError) as exc:
            if isinstance(exc, sqlite3.DatabaseError) and not is_damage(exc):
                raise
            log.warning(
                "the stored budget is damaged; it is deleted, and its topic is read from the start", why=str(exc)
            )
            self._store.reset()
            self._fold = self._asked()
        return BudgetState(), span[0]

    def store(self, state: BudgetState, last: Any) -> None:
        """Store the state as of its last record. If that fails, the next start has more to read."""
        if last is None or last.offset == self._at:
            return
        position = last.offset + 1
        try:
            kept = state.kept()
            with self._store.writing() as rows:
                rows.execute("DELETE FROM budget")
                rows.execute("INSERT INTO budget VALUES (?, ?)", (kept, _digest(kept, position)))
                self._fold.reach(self._tp, position, last)
        except (sqlite3.Error, OverflowError) as exc:
            log.warning("the budget is not stored on disk; the next start reads more of its topic", why=repr(exc))
        else:
            self._at = last.offset

    def close(self) -> None:
        """Close the file."""
        self._store.close()


def _digest(state: bytes, position: int) -> bytes:
    return hashlib.blake2b(b"%d:" % position + state, digest_size=16).digest()
