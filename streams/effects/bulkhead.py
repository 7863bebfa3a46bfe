"""Bulkheads: limits of concurrent effects, per step and in total, and the priority when slots are short."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count


class EffectSlots:
    """``total`` slots for effects, at most ``per_step`` for one step.

    Cases of fresh news go first; among them the step nearest to the end of its case.

    :meth:`alone` takes all slots at once, so that nothing else runs beside a suspect.
    """

    def __init__(self, total: int, per_step: int) -> None:
        self._total = total
        self._per_step = per_step
        self._used = 0
        self._used_by: dict[str, int] = {}
        self._waiting: list[tuple[bool, int, int, str, asyncio.Future[None]]] = []
        self._order = count()
        self._alone = asyncio.Lock()
        self._held = False
        self._emptied = asyncio.Event()
        self._emptied.set()

    @property
    def used(self) -> int:
        """Number of running effects."""
        return self._used

    @asynccontextmanager
    async def one(self, step: str, depth: int, *, is_backlog: bool = False) -> AsyncIterator[None]:
        """Hold one slot. ``depth`` is the number of steps to the end of a case; ``is_backlog`` is the case's property."""
        if self._waiting or not self._free(step):
            place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            heapq.heappush(self._waiting, (is_backlog, depth, next(self._order), step, place))
            try:
                await place
            except asyncio.CancelledError:
                if place.done() and not place.cancelled():
                    self._give_back(step)
                raise
        else:
            self._take(step)
        try:
            yield
        finally:
            self._give_back(step)

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Wait until no effect runs, and keep all slots until the block ends."""
        async with self._alone:
            self._held = True
            try:
                await self._emptied.wait()
                yield
            finally:
                self._held = False
                self._wake()

    def _free(self, step: str) -> bool:
        return not self._held and self._used < self._total and self._used_by.get(step, 0) < self._per_step

    def _take(self, step: str) -> None:
        self._used += 1
        self._used_by[step] = self._used_by.get(step, 0) + 1
        self._emptied.clear()

    def _give_back(self, step: str) -> None:
        self._used -= 1
        self._used_by[step] -= 1
        if self._used == 0:
            self._emptied.set()
        self._wake()

    def _wake(self) -> None:
        blocked = []
        while self._waiting and not self._held and self._used < self._total:
            entry = heapq.heappop(self._waiting)
            *_, step, place = entry
            if place.done():
                continue
            if self._used_by.get(step, 0) >= self._per_step:
                blocked.append(entry)
                continue
            self._take(step)
            place.set_result(None)
        for entry in blocked:
            heapq.heappush(self._waiting, entry)
