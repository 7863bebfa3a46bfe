"""Turns: how much of the backlog is computed in one turn of the event loop, so that fresh news does not wait for all of it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

LONGEST_S = 0.01
"""Length of a turn of the loop from which fewer computations are admitted to the next one."""
MOST = 256


class Turns:
    """Computations of the backlog, in order, a few in each turn of the event loop.

    All that is ready runs in one turn: the answers of hundreds of cases, each some milliseconds, before a reply for fresh
    news gets its own. The number admitted to a turn adapts: one more after a short turn, half as many after a long one.
    """

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()
        self._admitted = 1
        self._began: float | None = None

    def add(self, compute: Callable[[], None]) -> None:
        """Call ``compute`` in one of the next turns."""
        self._waiting.append(compute)
        if self._began is None:
            self._schedule()

    async def wait(self) -> None:
        """Return in one of the next turns."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.add(lambda: None if turn.done() else turn.set_result(None))
        await turn

    def _schedule(self) -> None:
        loop = asyncio.get_running_loop()
        self._began = loop.time()
        loop.call_soon(self._next)

    def _next(self) -> None:
        assert self._began is not None
        took = asyncio.get_running_loop().time() - self._began
        self._admitted = max(1, self._admitted // 2) if took > LONGEST_S else min(MOST, self._admitted + 1)
        turn = [self._waiting.popleft() for _ in range(min(self._admitted, len(self._waiting)))]
        if turn:
            self._schedule()  # also if none waits now: the length of this turn is still to be measured
        else:
            self._began = None
        for compute in turn:
            compute()
