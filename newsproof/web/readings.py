"""Answers of slow statements, kept for a while."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable
from math import inf
from typing import Any, TypeVar

MOST_KEPT = 32
T = TypeVar("T")


class Readings:
    """Answers by what was asked. Who asks while it is read waits for it; the newest :data:`MOST_KEPT` stay."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, _Reading] = {}

    async def of(self, asked: Hashable, for_s: float, read: Callable[[], Awaitable[T]]) -> T:
        """Return what was read at most ``for_s`` seconds ago, else what ``read`` returns."""
        reading = self._kept.pop(asked) if asked in self._kept else _Reading()
        self._kept[asked] = reading
        while len(self._kept) > MOST_KEPT:
            del self._kept[next(iter(self._kept))]
        async with reading.lock:
            if time.monotonic() - reading.at > for_s:
                reading.answer, reading.at = await read(), time.monotonic()
            found: T = reading.answer
            return found


class _Reading:
    def __init__(self) -> None:
        self.lock, self.at = asyncio.Lock(), -inf
        self.answer: Any = None
