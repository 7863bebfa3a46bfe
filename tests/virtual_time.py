"""A virtual clock: an asyncio loop whose time jumps to the next timer when nothing else is ready.

For code without sockets, files or threads. Ten minutes of waiting take only as long as their computation.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

T = TypeVar("T")
START = datetime(2026, 1, 1, tzinfo=UTC)
"""The date that :func:`virtual_now` returns at the start of a run."""


class _Skipping(selectors.SelectSelector):
    """A selector that never waits: it adds the timeout to the loop's time instead."""

    skipped = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None:
            raise RuntimeError("nothing will ever happen: every task waits for another one")
        self.skipped += max(timeout, 0.0)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """``time()`` starts at 0 and advances only while everything sleeps."""

    def __init__(self) -> None:
        self._skipping = _Skipping()
        super().__init__(self._skipping)

    def time(self) -> float:
        """Return the seconds slept so far."""
        return self._skipping.skipped


def run_virtually(work: Coroutine[Any, Any, T]) -> T:
    """Run to completion on a separate virtual clock. Call it outside any running loop."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)


def virtual_s() -> float:
    """Return the running loop's time in seconds."""
    return asyncio.get_running_loop().time()


def virtual_now() -> datetime:
    """Return the running loop's time as a date (UTC)."""
    return START + timedelta(seconds=virtual_s())
