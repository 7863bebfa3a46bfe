"""A cursor that returns this process's own appends as soon as they are durable, and does not read them again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

from aiokafka import TopicPartition

from streams.journal.appender import OwnRecord
from streams.journal.log import Batches, Cursor

MAX_OWN = 500
"""Maximum number of own records kept per partition until the next poll, several transactions' worth. The underlying
cursor delivers any beyond."""


class OwnTail:
    """A :class:`Cursor` over another one, and a :class:`~streams.journal.appender.Journal` of the same partitions.

    It returns the same records as the other cursor: every record once, in offset order. An own record is returned
    early only if it is the next one of its partition.
    """

    def __init__(self, cursor: Cursor, starts: Mapping[TopicPartition, int]) -> None:
        """``starts``: the positions of ``cursor``."""
        self._cursor = cursor
        self._next: dict[TopicPartition, int] = dict(starts)
        self._returned: dict[TopicPartition, int] = dict(starts)
        self._own: dict[TopicPartition, list[Any]] = {}
        self._ahead: dict[TopicPartition, dict[int, OwnRecord]] = {tp: {} for tp in starts}
        self._arrived = asyncio.Event()

    # As a journal

    @property
    def turn(self) -> object:
        """Never changes, because no rebalance takes these partitions away."""
        return self

    def on_appended(self, _turn: object, record: OwnRecord) -> None:
        """Take a durable record if it may become the next one."""
        tp = TopicPartition(record.topic, record.partition)
        at, ahead = self._next.get(tp), self._ahead.get(tp)
        if at is None or ahead is None or record.offset < at or len(ahead) >= MAX_OWN:
            return
        ahead[record.offset] = record
        if record.offset == at and len(self._own.get(tp, ())) < MAX_OWN:
            self._own.setdefault(tp, []).extend(self._consecutive(tp))
            self._arrived.set()

    def _consecutive(self, tp: TopicPartition) -> Iterable[OwnRecord]:
        ahead = self._ahead[tp]
        while (record := ahead.pop(self._next[tp], None)) is not None:
            self._next[tp] += 1
            yield record

    # As a cursor

    async def next(self, timeout_s: float) -> Batches:
        """Return new records, own and others', in offset order per partition; empty after ``timeout_s`` without."""
        read = await (self._cursor.next(0.0) if self._own else self._read_or_own(timeout_s))
        got, self._own = self._own, {}
        self._arrived.clear()
        for tp, records in read.items():
            if new := [record for record in records if record.offset >= self._next[tp]]:
                self._next[tp] = new[-1].offset + 1
                got[tp] = [*got.get(tp, ()), *new]
            self._drop_old(tp)
        for tp, ahead in self._ahead.items():
            if ahead and (own := list(self._consecutive(tp))):
                got[tp] = [*got.get(tp, ()), *own]
        for tp in got:
            self._returned[tp] = self._next[tp]
            self._cursor.skip_to(tp, self._next[tp])
        return got

    async def _read_or_own(self, timeout_s: float) -> Batches:
        reading = asyncio.ensure_future(self._cursor.next(timeout_s))
        arriving = asyncio.ensure_future(self._arrived.wait())
        try:
            await asyncio.wait((reading, arriving), return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                reading.cancel()  # between two records: aiokafka moves its position in the same turn in which it returns
                await asyncio.wait((reading,))
        finally:
            arriving.cancel()
            reading.cancel()
        return {} if reading.cancelled() else reading.result()

    def _drop_old(self, tp: TopicPartition) -> None:
        for offset in [offset for offset in self._ahead[tp] if offset < self._next[tp]]:
            del self._ahead[tp][offset]

    async def position(self, tp: TopicPartition) -> int:
        """Return the offset after the returned records and after any transaction markers that follow them."""
        returned: int = self._returned[tp]
        return max(returned, await self._cursor.position(tp))

    async def ends(self, tps: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the present end offsets, from the broker."""
        return await self._cursor.ends(tps)

    def skip_to(self, tp: TopicPartition, offset: int) -> None:
        """Skip the records before this offset."""
        self._next[tp] = self._returned[tp] = max(self._next[tp], offset)
        self._cursor.skip_to(tp, offset)
