"""Rate limiter for a service that allows one call at a time, with a minimum interval between starts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from schemas.errors import PermanentError, TransientError


class Pace:
    """Admits callers one by one in FIFO order, ``interval_s`` apart. For one event loop.

    A caller that would have to wait longer than ``max_wait_s`` is rejected at once, with the time to come back: a case
    should not miss its deadline in a queue.
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
        """Wait for the turn, and hold it while the body runs.

        Raises:
            TransientError: rate_limit, when the queue is too long.
        """
        wait = max(0.0, self._next_start - self._clock()) + self._queue * self._interval_s
        if wait > self._max_wait_s:
            raise TransientError(
                f"{wait:.0f} s of searches wait for {self._who}, which takes one per {self._interval_s:g} s",
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

    def heed(self, failure: TransientError | PermanentError) -> TransientError | PermanentError:
        """Return this failure; start no call within the time of its Retry-After, of which a minute counts."""
        if isinstance(failure, TransientError) and failure.retry_after_s:
            self._next_start = max(self._next_start, self._clock() + min(failure.retry_after_s, 60.0))
        return failure
