"""Turns: limits how much one turn of the event loop computes, so that turns stay short and fresh news comes first."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

LONGEST_S = 0.01
"""After a longer turn of the loop, the next turn gets half as many computations."""
MOST = 256
"""Maximum number of computations in a turn."""


class Turns:
    """A queue of computations. Each turn of the event loop runs a few of them, fresh news before the backlog.

    Without it, one turn runs every computation that is ready: hundreds, of some milliseconds each, before a reply for fresh
    news. Acknowledgements also wait for that turn, so all open cases move on at the same moment and then wait together.
    The number in a turn adapts: one more after a short turn, half as many after a long one.
    """

    def __init__(self) -> None:
        self._fresh: deque[Callable[[], None]] = deque()
        self._backlog: deque[Callable[[], None]] = deque()
        self._admitted = 1
        self._began: float | None = None

    def add(self, compute: Callable[[], None], *, is_backlog: bool) -> None:
        """Add a computation, which runs in one of the next turns. Fresh ones run before those of the backlog."""
        (self._backlog if is_backlog else self._fresh).append(compute)
        if self._began is None:
            self._schedule()

    async def wait(self, *, is_backlog: bool) -> None:
        """Wait for one of the next turns, with those added before."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.add(lambda: None if turn.done() else turn.set_result(None), is_backlog=is_backlog)
        await turn

    def _schedule(self) -> None:
        loop = asyncio.get_running_loop()
        self._began = loop.time()
        loop.call_soon(self._next)

    def _next(self) -> None:
        assert self._began is not None
        took = asyncio.get_running_loop().time() - self._began
        self._admitted = max(1, self._admitted // 2) if took > LONGEST_S else min(MOST, self._admitted + 1)
        turn = [self._fresh.popleft() for _ in range(min(self._admitted, len(self._fresh)))]
        turn += [self._backlog.popleft() for _ in range(min(self._admitted - len(turn), len(self._backlog)))]
        if turn:
            self._schedule()  # even if none waits now, to measure the length of this turn
        else:
            self._began = None
        for compute in turn:
            compute()
