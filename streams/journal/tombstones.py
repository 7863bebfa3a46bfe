"""Tombstones: the part of a reader's preceding range that the acceptance rule needs, read once per process.

At every rebalance a worker restarts from the watermarks of partitions that it may have just followed: its own and (for
admission) all others. Reading up to 50,000 offsets of each again blocked the event loop for seconds, so that heartbeats
were late and caused the next rebalance (found by the chaos run at 17,000 cases). Tombstones once read are kept here,
and other folds add theirs. A worker also stores them on its disk, so that a start reads only newer records.
"""

from __future__ import annotations

import asyncio
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
from streams.journal.fold_store import beside_the_loop
from streams.journal.log import Log
from streams.journal.retry import AWAY
from streams.journal.stored_states import StateAt, StoredStates

FILE = "tombstones.sqlite"
_RULE = (acceptance.__file__, events.__file__, envelope.__file__, fold.__file__, __file__)
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


class KeptStretch(msgspec.Struct, frozen=True, array_like=True):
    """A stretch without its end, as it is stored."""

    first: int
    marks: list[tuple[int, str]]


class Tombstones:
    """The openings and ends near the end of each partition of a journal, as far as this process has read them."""

    def __init__(self, log: Log, directory: Path | None = None) -> None:
        """``directory``: the worker slot's, where :meth:`store` saves them for the next start."""
        self._log = log
        self._of: dict[TopicPartition, _Stretch] = {}
        self._reading = asyncio.Lock()
        self._directory = directory
        self._stored: StoredStates[KeptStretch] | None = None
        self._is_loaded = False

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
            if self._directory is not None and self._stored is None and starts:
                self._stored = StoredStates(self._directory, FILE, next(iter(starts)).topic, KeptStretch, *_RULE)
            if self._stored is not None and not self._is_loaded:
                stored = await self._stored.load(self._log)
                self._of = {
                    tp: _Stretch(at.state.first, at.state.marks, at.position) for tp, at in stored.items()
                } | self._of
                self._is_loaded = True
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
        if (stored := self._stored) is None or not self._is_loaded:
            return
        async with self._reading:
            for tp, accepted in folds.items():
                self._take_over(tp, accepted, reading=False)
                await asyncio.sleep(0)  # let other tasks run between partitions
            new = {
                tp: StateAt(stretch.end, KeptStretch(stretch.first, list(stretch.marks)))
                for tp, stretch in self._of.items()
                if tp.topic == stored.topic and stretch.marks and not stored.reaches(tp, stretch.end)
            }
            ends = {tp: at.state.marks[-1][0] for tp, at in new.items()}
            spans = {tp: (end, end + 1) for tp, end in ends.items()}
            try:
                async with asyncio.timeout(STORE_WITHIN_S):
                    last = {tp: records[0] async for tp, records in self._log.replay(spans)}
            except AWAY as exc:
                log_of(__name__).warning(
                    "tombstones are not stored on disk; the next start reads more of the journal", why=repr(exc)
                )
            else:
                await beside_the_loop(lambda: stored.store({tp: new[tp] for tp in last}, last))

    async def close(self) -> None:
        """Close the file, once nothing reads or writes it."""
        async with self._reading:
            if self._stored is not None:
                self._stored.close()
            self._stored = self._directory = None
