"""A pace that a service asks for: one call at a time, and a time between two starts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from schemas.errors import TransientError


class Pace:
    """Lets callers through one by one, in the order they came, ``interval_s`` apart. For one event loop.

    Who would have to wait longer than ``max_wait_s`` is sent away at once, with the time to come back: a case should
    not lose its deadline in a queue.
    """

    def __init__(
        self,
        who: str,
        *,
        interval_s: float,
        max_wait_s: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._who, self._interval_s, self._max_wait_s = who, interval_s, max_wait_s
        self._clock, self._sleep = clock, sleep
        self._alone = asyncio.Lock()
        self._queue = 0
        self._next_start = float("-inf")

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for the turn, and keep it while the body runs.

        Raises:
            TransientError: rate_limit, when the queue is too long.
        """
        wait = max(0.0, self._next_start - self._clock()) + self._queue * self._interval_s
        if wait > self._max_wait_s:
            raise TransientError(
                f"{wait:.0f} s of searches wait for {self._who}, which takes one per {self._interval_s:g} s; "
                "it is tried again later",
                kind="rate_limit",
                retry_after_s=wait,
            )
        self._queue += 1
        try:
            await self._alone.acquire()
        finally:
            self._queue -= 1
        try:
            while (left := self._next_start - self._clock()) > 0:
                await self._sleep(left)
            self._next_start = self._clock() + self._interval_s
            yield
        finally:
            self._alone.release()

    def rest(self, seconds: float) -> None:
        """Start no call within the next ``seconds``: the service asked for it."""
        self._next_start = max(self._next_start, self._clock() + seconds)
