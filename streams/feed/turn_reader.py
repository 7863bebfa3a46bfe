"""Bounded queue of records for one reader of a turn."""

from __future__ import annotations

import asyncio

from streams.feed.sse import HEARTBEAT_S, Lagging
from streams.journal.case_reading import JournalRecord

WAITING = 256
"""Records of one turn that may wait for one reader; a turn has some dozens."""


class TurnReader:
    """The records that wait for one reader of a turn."""

    def __init__(self) -> None:
        self._waiting: asyncio.Queue[JournalRecord] = asyncio.Queue(WAITING)
        self._dropped = False

    def put(self, record: JournalRecord) -> None:
        """Queue a record; if the queue is full, drop it and mark the reader as lagging."""
        if self._waiting.full():
            self._dropped = True
        else:
            self._waiting.put_nowait(record)

    async def next(self) -> JournalRecord | None:
        """Return the next record; None on timeout.

        Raises:
            Lagging: records were dropped.
        """
        try:
            async with asyncio.timeout(HEARTBEAT_S):
                record = await self._waiting.get()
        except TimeoutError:
            return None
        if self._dropped:
            raise Lagging
        return record
