"""States of a fold on the worker's disk, one per partition, so that a start folds only newer records."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
from aiokafka import TopicPartition

from infra.late_log import log_of
from streams.journal.fold_store import FoldStore, StoredFold, beside_the_loop, is_damage, version_of
from streams.journal.log import Log

S = TypeVar("S")
_TABLES = "CREATE TABLE states (partition INTEGER PRIMARY KEY, state BLOB NOT NULL, digest BLOB NOT NULL)"


class StateAt(NamedTuple, Generic[S]):
    """A state that includes everything before ``position``."""

    position: int
    state: S


class StoredStates(Generic[S]):
    """The stored states of one topic. Like every stored fold they are a cache: in any doubt they are deleted."""

    def __init__(self, directory: Path, file: str, topic: str, state: type[S], *sources: str) -> None:
        """``directory``: the worker slot's. ``state``: what one state is decoded as. ``sources``: the fold's rule.

        Raises:
            ConfigError: as for :class:`FoldStore`.
        """
        self.topic = topic
        self._decode = msgspec.msgpack.Decoder(state).decode
        self._name, self._version = Path(file).stem, version_of(*sources)
        self._store = FoldStore(directory, file)
        self._fold: StoredFold
        self._ends: dict[TopicPartition, int] = {}

    async def load(self, of: Log) -> dict[TopicPartition, StateAt[S]]:
        """Return the stored state of each partition; nothing if one is damaged or does not match the log."""
        try:
            self._fold = self._begun()
            ends = await self._fold.begin(of, self.topic, await of.bounds(self.topic))
            states = await beside_the_loop(lambda: self._read(ends))
        except (sqlite3.DatabaseError, msgspec.MsgspecError, ValueError, TypeError) as exc:
            if isinstance(exc, sqlite3.DatabaseError) and not is_damage(exc):
                raise
            log_of(__name__).warning(
                "what is stored of a topic is damaged; it is deleted and read again", topic=self.topic, why=str(exc)
            )
            self._store.reset()
            self._fold, states = self._begun(), {}
        self._ends = {tp: at.position for tp, at in states.items()}
        return states

    def reaches(self, tp: TopicPartition, position: int) -> bool:
        """Return whether the stored state of this partition includes everything before this position."""
        return self._ends.get(tp, -1) >= position

    def store(self, states: Mapping[TopicPartition, StateAt[S]], last: Mapping[TopicPartition, Any]) -> None:
        """Store these states, each with the ``last`` record before its end. If that fails, the next start reads more.

        May run in another thread than the event loop.
        """
        try:
            encoded = {tp: msgspec.msgpack.encode(at.state) for tp, at in states.items()}
            with self._store.writing() as rows:
                for tp, state in encoded.items():
                    row = (tp.partition, state, _digest(state, states[tp].position))
                    rows.execute("INSERT OR REPLACE INTO states VALUES (?, ?, ?)", row)
                    self._fold.reach(tp, states[tp].position, last[tp])
        except (sqlite3.Error, OverflowError) as exc:
            log_of(__name__).warning(
                "a fold is not stored on disk; the next start reads more of the log", topic=self.topic, why=repr(exc)
            )
        else:
            self._ends |= {tp: at.position for tp, at in states.items()}

    def close(self) -> None:
        """Close the file."""
        self._store.close()

    def _begun(self) -> StoredFold:
        return self._store.fold(self._name, version=self._version, tables=_TABLES)

    def _read(self, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, StateAt[S]]:
        states = {}
        for partition, state, digest in self._fold.rows.execute("SELECT * FROM states").fetchall():
            tp = TopicPartition(self.topic, partition)
            if digest != _digest(state, ends.get(tp, -1)):
                raise ValueError(f"the digest of partition {partition} is another one")
            states[tp] = StateAt(ends[tp], self._decode(state))
        return states


def _digest(state: bytes, position: int) -> bytes:
    return hashlib.blake2b(b"%d:" % position + state, digest_size=16).digest()
