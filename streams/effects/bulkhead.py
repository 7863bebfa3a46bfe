"""Bulkheads: limits on concurrent effects, per step and in total, and the priority when slots are short."""

from __future__ import annotations

import asyncio
import heapq
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count

KEPT_FOR_FRESH = 16
"""One slot in this many is reserved for fresh news, because effects of the backlog may hold theirs for long: the story
step waits for the signal of an earlier report."""


class EffectSlots:
    """``total`` slots for effects, at most ``per_step`` of them for one step.

    Effects of fresh news go first, and some slots are reserved for them. Next goes the step nearest to the end of its
    case.

    :meth:`alone` takes all slots at once, so that nothing else runs beside a case suspected of crashing the process.
    """

    def __init__(self, total: int, per_step: int) -> None:
        self._total = total
        self._per_step = per_step
        self._used = 0
        self._used_by: Counter[str] = Counter()
        self._backlog: Counter[str] = Counter()
        self._waiting: dict[str, list[tuple[bool, int, int, asyncio.Future[None]]]] = {}
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
        """Hold one slot. ``depth``: number of steps to the end of the case. ``is_backlog``: as of the case."""
        if not self._free(step, is_backlog):
            place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            heapq.heappush(self._waiting.setdefault(step, []), (is_backlog, depth, next(self._order), place))
            try:
                await place
            except asyncio.CancelledError:
                if place.done() and not place.cancelled():
                    self._give_back(step, is_backlog)
                raise
        else:
            self._take(step, is_backlog)
        try:
            yield
        finally:
            self._give_back(step, is_backlog)

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Wait until no effect runs, and hold all slots until the block ends."""
        async with self._alone:
            self._held = True
            try:
                await self._emptied.wait()
                yield
            finally:
                self._held = False
                self.wake()

    def _free(self, step: str, is_backlog: bool) -> bool:
        if is_backlog and (
            self._backlog.total() >= _for_backlog(self._total) or self._backlog[step] >= _for_backlog(self._per_step)
        ):
            return False
        return not self._held and self._used < self._total and self._used_by[step] < self._per_step

    def _take(self, step: str, is_backlog: bool) -> None:
        self._used += 1
        self._used_by[step] += 1
        self._backlog[step] += is_backlog
        self._emptied.clear()

    def _give_back(self, step: str, is_backlog: bool) -> None:
        self._used -= 1
        self._used_by[step] -= 1
        self._backlog[step] -= is_backlog
        if self._used == 0:
            self._emptied.set()
        self.wake()

    def wake(self) -> None:
        """Give free slots to waiting effects."""
        while not self._held and self._used < self._total:
            first = {step: waiting[0] for step, waiting in self._waiting.items() if self._free(step, waiting[0][0])}
            if not first:
                return
            step = min(first, key=lambda s: first[s][:3])
            is_backlog, *_, place = heapq.heappop(self._waiting[step])
            if not self._waiting[step]:
                del self._waiting[step]
            if not place.done():
                self._take(step, is_backlog)
                place.set_result(None)


def _for_backlog(slots: int) -> int:
    return slots - slots // KEPT_FOR_FRESH
