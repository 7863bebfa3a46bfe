"""Rate limit of clients."""

from __future__ import annotations

from collections import OrderedDict

_KNOWN_CLIENTS = 10_000


class Rates:
    """Token bucket per client address, refilled evenly. Of more than ``known`` addresses the oldest is forgotten."""

    def __init__(self, per_minute: int, *, known: int = _KNOWN_CLIENTS) -> None:
        self._most, self._known = float(per_minute), known
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, client: str, clock: float) -> float:
        """Take a token; return 0, or the seconds until one is available. ``clock`` is monotonic, in seconds."""
        left, at = self._buckets.pop(client, (self._most, clock))
        left = min(self._most, left + (clock - at) * self._most / 60)
        waits = 0.0 if left >= 1 else (1 - left) * 60 / self._most
        self._buckets[client] = (left - 1 if waits == 0 else left, clock)
        if len(self._buckets) > self._known:
            self._buckets.popitem(last=False)
        return waits
