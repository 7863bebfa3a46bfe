"""Tombstones: what the acceptance rule needs from the range before a reader's start, read once per process.

At every rebalance a worker starts again from the watermarks of partitions that it may have followed a moment ago: its
own and (for admission) all others. Reading up to 50,000 offsets of each again took seconds of the event loop, so that
heartbeats were late and caused the next rebalance (found by the chaos run at 17,000 cases). What was read is kept here,
and what other folds know is taken over.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from aiokafka import TopicPartition

from schemas.acceptance import MARKING_NAMES, TOMBSTONE_OFFSETS, AcceptedEvents
from schemas.errors import ContractError
from streams.journal.fold import parse_record
from streams.journal.log import Log

_MARKING = frozenset(name.encode() for name in MARKING_NAMES)
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
        self.marks.extend(marks_of(records, partitions))
        self.end = records[-1].offset + 1

    def forget(self) -> None:
        self.first = max(self.first, self.end - TOMBSTONE_OFFSETS - _SLACK)
        while self.marks and self.marks[0][0] < self.first:
            self.marks.popleft()


class Tombstones:
    """The openings and ends near the end of each partition, as far as this process has read them."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._of: dict[TopicPartition, _Stretch] = {}
        self._reading = asyncio.Lock()

    def keep(self, tp: TopicPartition, accepted: AcceptedEvents) -> None:
        """Take over what a fold knows, before it is discarded. The fold must have been loaded by :meth:`load`."""
        known = self._of.get(tp)
        if known is None or known.end < accepted.position:
            first = max(0, accepted.position - TOMBSTONE_OFFSETS)
            marks = ((offset, case) for offset, case in accepted.marks() if offset >= first)
            self._of[tp] = _Stretch(first, marks, accepted.position)

    async def load(
        self,
        accepted: Mapping[TopicPartition, AcceptedEvents],
        first: Mapping[TopicPartition, int],
        *,
        partitions: int,
    ) -> None:
        """Add the tombstones of the range before each position; read only what this process has not read.

        ``first`` is the log's present first offset, ``partitions`` the journal's count.
        """
        starts = {tp: max(first[tp], a.position - TOMBSTONE_OFFSETS) for tp, a in accepted.items()}
        async with self._reading:  # so that concurrent callers read a range once
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
