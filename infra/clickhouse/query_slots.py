"""Concurrency limit and timeout of ClickHouse queries that a case waits for. One failure fails all queued queries."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from schemas.effects import Failure
from schemas.errors import NewsproofError, TransientError

_Found = TypeVar("_Found")


class Turns:
    """Runs at most ``at_once`` queries at a time. Safe for concurrent use within one event loop."""

    def __init__(self, at_once: int, *, timeout_s: float) -> None:
        """``timeout_s`` bounds each query, without its time in the queue."""
        self.timeout_s = timeout_s
        self._places = asyncio.Semaphore(at_once)
        self._failed_at = float("-inf")
        self._failure = _unavailable("", retryable=True)

    async def ask(self, work: Callable[[], Awaitable[_Found]]) -> _Found | Failure:
        """Run ``work`` when a place is free; return its result, or a failure of kind unavailable."""
        now = asyncio.get_running_loop().time
        asked_at = now()
        async with self._places:
            if self._failed_at >= asked_at:
                # A query failed while this one was queued: trying again would take another second.
                return self._failure
            try:
                async with asyncio.timeout(self.timeout_s):
                    return await work()
            except TimeoutError:
                why = f"ClickHouse did not answer within {self.timeout_s:g} s: check that it runs, and its load"
                self._failure = _unavailable(why, retryable=True)
            except NewsproofError as exc:
                self._failure = _unavailable(str(exc), retryable=isinstance(exc, TransientError))
            self._failed_at = now()
            return self._failure


def _unavailable(message: str, *, retryable: bool) -> Failure:
    return Failure(kind="unavailable", message=message, retryable=retryable)
