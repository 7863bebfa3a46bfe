"""Turns: limits how much a turn of the event loop computes for the backlog, so that fresh news does not wait for all of it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

LONGEST_S = 0.01
"""After a longer turn of the loop, the next turn gets half as many computations."""
MOST = 256
"""Maximum number of computations in a turn."""


class Turns:
    """A queue of computations for the backlog. Each turn of the event loop runs a few of them.

    Without it, one turn runs every computation that is ready: hundreds, of some milliseconds each, before one for fresh
    news. The number in a turn adapts: one more after a short turn, half as many after a long one.
    """

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()
        self._admitted = 1
        self._began: float | None = None

    def add(self, compute: Callable[[], None]) -> None:
        """Add a computation, which runs in one of the next turns."""
        self._waiting.append(compute)
        if self._began is None:
            self._schedule()

    async def wait(self) -> None:
        """Wait for one of the next turns."""
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
            self._schedule()  # even if none waits now, to measure the length of this turn
        else:
            self._began = None
        for compute in turn:
            compute()
