"""The providers of an outage run: the offline ones, one of which fails for a while and counts its calls."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

from infra.ports import Answer, Free, Port
from schemas.calls import ProviderMode
from schemas.errors import FailureKind, TransientError
from tests.virtual_time import virtual_s

FAILS_AFTER_S: dict[str, float] = {"timeout": 10.0, "unavailable": 0.1, "rate_limit": 0.1, "network": 0.1}
"""Duration of a failing call: a timeout takes its full time (DEEP_ANALYSIS_TOOL_TIMEOUT), the others fail at once."""


class FailingProvider(Free, Port):
    """A provider that fails while ``away()`` is true. ``asked`` counts all calls by simulated minute."""

    mode: ProviderMode = "offline"

    def __init__(
        self,
        inner: Port,
        *,
        name: str,
        away: Callable[[], bool],
        kind: FailureKind,
        latency_s: float,
        until_s: float | None = None,
    ) -> None:
        """``until_s``: the simulated second that its failures give as the end (Retry-After), as a day's quota does."""
        self.provider = self.model = name
        self._inner, self._away, self._kind, self._latency_s = inner, away, kind, latency_s
        self._until_s = until_s
        self.asked: Counter[int] = Counter()
        self.failed: Counter[int] = Counter()

    async def perform(self, effect: Any) -> Answer:
        """Count the call, then fail or reply."""
        minute = int(virtual_s() // 60)
        self.asked[minute] += 1
        if self._away():
            self.failed[minute] += 1
            await asyncio.sleep(FAILS_AFTER_S.get(self._kind, 0.1))
            left_s = None if self._until_s is None else max(0.0, self._until_s - virtual_s())
            raise TransientError(f"{self.provider} is away", kind=self._kind, retry_after_s=left_s)
        await asyncio.sleep(self._latency_s)
        return await self._inner.perform(effect)

    async def close(self) -> None:
        pass
