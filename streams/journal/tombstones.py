"""Tombstones: the part of a reader's preceding range that the acceptance rule needs, read once per process.

At every rebalance a worker restarts from the watermarks of partitions that it may have just followed: its own and (for
admission) all others. Reading up to 50,000 offsets of each again blocked the event loop for seconds, so that heartbeats
were late and caused the next rebalance (found by the chaos run at 17,000 cases). Tombstones once read are kept here,
and other folds add theirs. A worker also stores them on its disk, so that a start reads only newer records.
"""

from __future__ import annotations

import asyncio
import hashlib
import sqlite3
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from aiokafka import TopicPartition

from infra.late_log import log_of
from schemas import envelope, events
from schemas.errors import ContractError
from streams.journal import acceptance, fold
from streams.journal.acceptance import MARKING_NAMES, TOMBSTONE_OFFSETS, AcceptedEvents
from streams.journal.fold import parse_record
from streams.journal.fold_store import FoldStore, StoredFold, beside_the_loop, is_damage, version_of
from streams.journal.log import Log
from streams.journal.retry import AWAY

_MARKING = frozenset(name.encode() for name in MARKING_NAMES)
STORE_WITHIN_S = 5.0
_SLACK = 20_000
"""Offsets kept beyond the range of the newest reader, because readers of one partition start at different offsets."""


def marks_of(records: Iterable[Any], partitions: int | None) -> Iterator[tuple[int, str]]:
    """Yield (offset, case id) of each record that places a tombstone, in order."""
    for record in records:
        if dict(record.headers).get("ce_type") in _MARKING:
            try:
                env = parse_record(record, partitions)
            except ContractError:
                continue
            yield record.offset, env.case_id


class _Stretch:
    """The tombstones of offsets [first, end) of one partition, in order."""

    def __init__(self, first: int, marks: Iterable[tuple[int, str]] = (), end: int | None = None) -> None:
        self.first, self.end = first, first if end is None else end
        self.marks = deque(marks)

    def take(self, records: Sequence[Any], partitions: int) -> None:
        new = [record for record in records if record.offset >= self.end]  # a fold may have been taken over meanwhile
        self.marks.extend(marks_of(new, partitions))
        self.end = max(self.end, records[-1].offset + 1)

    def forget(self) -> None:
        self.first = max(self.first, self.end - TOMBSTONE_OFFSETS - _SLACK)
        while self.marks and self.marks[0][0] < self.first:
            self.marks.popleft()


class Tombstones:
    """The openings and ends near the end of each partition of a journal, as far as this process has read them."""

    def __init__(self, log: Log, directory: Path | None = None) -> None:
        """``directory``: the worker slot's, where :meth:`store` saves them for the next start."""
        self._log = log
        self._of: dict[TopicPartition, _Stretch] = {}
        self._reading = asyncio.Lock()
        self._directory = directory
        self._kept: TombstoneStore | None = None

    def keep(self, tp: TopicPartition, accepted: AcceptedEvents) -> None:
        """Take over a fold's tombstones before it is discarded. The fold must have been loaded by :meth:`load`."""
        self._take_over(tp, accepted, reading=self._reading.locked())

    def _take_over(self, tp: TopicPartition, accepted: AcceptedEvents, *, reading: bool) -> None:
        known, first = self._of.get(tp), max(0, accepted.position - TOMBSTONE_OFFSETS)
        if known is not None and known.end >= accepted.position:
            return
        if known is None or not known.first <= first <= known.end:
            if reading:
                return  # the running load started with the present state
            known = self._of[tp] = _Stretch(first)
        known.marks.extend((offset, case) for offset, case in accepted.marks() if offset >= known.end)
        known.end = accepted.position
        known.forget()

    async def load(
        self, accepted: Mapping[TopicPartition, AcceptedEvents], first: Mapping[TopicPartition, int], *, partitions: int
    ) -> None:
        """Add the tombstones of the range before each position; read only what this process has not read.

        ``first`` is the log's present first offset, ``partitions`` the journal's partition count.
        """
        starts = {tp: max(first[tp], a.position - TOMBSTONE_OFFSETS) for tp, a in accepted.items()}
        async with self._reading:  # so that concurrent callers read a range once
            if self._directory is not None and self._kept is None and starts:
                self._kept = TombstoneStore(self._log, next(iter(starts)).topic, self._directory)
            if self._kept is not None and not self._kept.loaded:
                self._of = await self._kept.load() | self._of
            for tp, start in starts.items():
                known = self._of.get(tp)
                if known is None or not known.first <= start <= known.end:
                    self._of[tp] = _Stretch(start)
            spans = {tp: (self._of[tp].end, a.position) for tp, a in accepted.items()}
            async for tp, records in self._log.replay(spans):
                self._of[tp].take(records, partitions)
            for tp, a in accepted.items():
                stretch = self._of[tp]
                stretch.end = max(stretch.end, a.position)
                for offset, case in stretch.marks:
                    if starts[tp] <= offset < a.position:
                        a.remember(offset, case)
                stretch.forget()

    async def store(self, folds: Mapping[TopicPartition, AcceptedEvents]) -> None:
        """Save the tombstones and those of these folds to disk. If that fails, the next start has more to read."""
        if self._kept is not None and self._kept.loaded:
            async with self._reading:
                for tp, accepted in folds.items():
                    self._take_over(tp, accepted, reading=False)
                    await asyncio.sleep(0)  # let other tasks run between partitions
                await self._kept.store(self._of)

    def close(self) -> None:
        """Close the file."""
        if self._kept is not None:
            self._kept.close()
            self._kept = self._directory = None


FILE = "tombstones.sqlite"
_TABLES = "CREATE TABLE stretches (partition INTEGER PRIMARY KEY, stretch BLOB NOT NULL, digest BLOB NOT NULL)"
_RULE = (acceptance.__file__, events.__file__, envelope.__file__, fold.__file__, __file__)
_stretch = msgspec.msgpack.Decoder(tuple[int, list[tuple[int, str]]]).decode


class TombstoneStore:
    """The tombstones of one journal on the worker's disk."""

    def __init__(self, log: Log, topic: str, directory: Path) -> None:
        """Raises ConfigError as :class:`FoldStore` does."""
        self._log, self._topic = log, topic
        self._store = FoldStore(directory, FILE)
        self._ends: dict[TopicPartition, int] = {}
        self.loaded = False

    async def load(self) -> dict[TopicPartition, _Stretch]:
        """Return the stored tombstones; nothing if they are damaged or do not match the log."""
        try:
            self._fold = self._asked()
            ends = await self._fold.begin(self._log, self._topic, await self._log.bounds(self._topic))
            found = await beside_the_loop(lambda: self._read(ends))
        except (sqlite3.DatabaseError, msgspec.MsgspecError, ValueError, TypeError) as exc:
            if isinstance(exc, sqlite3.DatabaseError) and not is_damage(exc):
                raise
            log_of(__name__).warning("the stored tombstones are damaged; they are deleted and read again", why=str(exc))
            self._store.reset()
            self._fold = self._asked()
            ends, found = {}, {}
        self._ends, self.loaded = ends, True
        return found

    def _asked(self) -> StoredFold:
        return self._store.fold("tombstones", version=version_of(*_RULE), tables=_TABLES)

    def _read(self, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, _Stretch]:
        found = {}
        for partition, kept, digest in self._fold.rows.execute("SELECT * FROM stretches").fetchall():
            tp = TopicPartition(self._topic, partition)
            if digest != _digest(kept, ends.get(tp, -1)):
                raise ValueError(f"the digest of partition {partition} is another one")
            first, marks = _stretch(kept)
            found[tp] = _Stretch(first, marks, ends[tp])
        return found

    async def store(self, known: Mapping[TopicPartition, _Stretch]) -> None:
        """Store these stretches if they reach further than the stored ones."""
        new = {
            tp: (one.end, (one.first, tuple(one.marks)))
            for tp, one in known.items()
            if tp.topic == self._topic and one.marks and one.end > self._ends.get(tp, -1)
        }
        try:
            spans = {tp: (marks[-1][0], marks[-1][0] + 1) for tp, (_, (_, marks)) in new.items()}
            async with asyncio.timeout(STORE_WITHIN_S):
                last = {tp: records[0] async for tp, records in self._log.replay(spans)}
            await beside_the_loop(lambda: self._write({tp: new[tp] for tp in last}, last))
        except (sqlite3.Error, *AWAY) as exc:
            log_of(__name__).warning(
                "tombstones are not stored on disk; the next start reads more of the journal", why=repr(exc)
            )
        else:
            self._ends |= {tp: new[tp][0] for tp in last}

    def _write(self, stretches: Mapping[TopicPartition, tuple[int, Any]], last: Mapping[TopicPartition, Any]) -> None:
        with self._store.writing() as rows:
            for tp, (end, stretch) in stretches.items():
                kept = msgspec.msgpack.encode(stretch)
                rows.execute(
                    "INSERT OR REPLACE INTO stretches VALUES (?, ?, ?)", (tp.partition, kept, _digest(kept, end))
                )
                self._fold.reach(tp, end, last[tp])

    def close(self) -> None:
        self._store.close()


def _digest(kept: bytes, end: int) -> bytes:
    return hashlib.blake2b(b"%d:" % end + kept, digest_size=16).digest()
