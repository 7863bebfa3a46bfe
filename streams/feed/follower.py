"""Follower of one topic without a consumer group. It survives restarts of Kafka and resumes from its own positions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from aiokafka import TopicPartition

from streams.journal.log import Bounds, Cursor, Isolation, Log
from streams.journal.retry import is_away, retry_while_unavailable

Start = Callable[[Bounds], Awaitable[dict[TopicPartition, int]]]
Take = Callable[[TopicPartition, Sequence[Any]], None]
BATCH = 200
"""Records between two turns of the event loop, so that other streams are served while a long range is read."""
AGAIN_S = 1.0
"""How often a topic that does not exist yet is looked for."""
ASK_S = 5.0


class Follower:
    """Reads a topic from the offsets that ``start`` returns and passes on what comes.

    ``start`` receives the offsets of that moment. It is called once, and again only if it raises TransientError; after
    that the follower resumes from its own positions. ``ready`` is set when the end that the topic had at the start is
    reached.
    """

    def __init__(self, log: Log, topic: str, *, start: Start, take: Take, isolation: Isolation) -> None:
        self._log, self._topic, self._isolation = log, topic, isolation
        self._start, self._take = start, take
        self._positions: dict[TopicPartition, int] = {}
        self._until: dict[TopicPartition, int] = {}
        self.ready = asyncio.Event()
        self.away = False
        self.why = ""

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """The next offset of each partition."""
        return self._positions

    async def run(self) -> None:
        """Follow until cancelled."""
        await retry_while_unavailable(self._go_on, self._topic, unavailable=is_away, on_wait=self._is_away)

    def _is_away(self, exc: Exception) -> None:
        self.away, self.why = True, repr(exc)[:300]

    async def _go_on(self) -> None:
        while not await self._began():  # noqa: ASYNC110 - nothing tells when a topic is made
            await asyncio.sleep(AGAIN_S)
        async with self._log.follow(self._positions, isolation=self._isolation, max_records=BATCH) as cursor:
            await self._look(cursor)
            self.away = False
            await self._follow(cursor)

    async def _began(self) -> bool:
        if not self._positions:
            bounds = await self._log.bounds(self._topic, isolation=self._isolation)
            if not bounds:
                self.why = f"there is no topic {self._topic} yet"
                return False
            self._until = {tp: end for tp, (_, end) in bounds.items()}
            self._positions = await self._start(bounds)
        return True

    async def _follow(self, cursor: Cursor) -> None:
        loop = asyncio.get_running_loop()
        heard = loop.time()
        while True:
            got = await cursor.next(0.5)
            for tp, records in got.items():
                self._take(tp, records)
                self._positions[tp] = records[-1].offset + 1
            if got:
                heard = loop.time()
            elif loop.time() - heard > ASK_S:  # a consumer does not report that its broker is gone, so ask
                async with asyncio.timeout(ASK_S):
                    await cursor.ends(self._positions)
                heard = loop.time()
            if not self.ready.is_set():
                await self._look(cursor)
            await asyncio.sleep(0)

    async def _look(self, cursor: Cursor) -> None:
        if all([await cursor.position(tp) >= end for tp, end in self._until.items()]):
            self.ready.set()
