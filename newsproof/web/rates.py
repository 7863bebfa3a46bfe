"""How often a client may ask."""

from __future__ import annotations

from collections import OrderedDict

_KNOWN_CLIENTS = 10_000


class Rates:
    """So many requests a minute for each client address: a bucket that fills evenly. ``clock`` is monotonic, in seconds."""

    def __init__(self, per_minute: int, *, known: int = _KNOWN_CLIENTS) -> None:
        self._most, self._known = float(per_minute), known
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, client: str, clock: float) -> float:
        """Take one; return 0, or the seconds to wait when there is none."""
        left, at = self._buckets.pop(client, (self._most, clock))
        left = min(self._most, left + (clock - at) * self._most / 60)
        waits = 0.0 if left >= 1 else (1 - left) * 60 / self._most
        self._buckets[client] = (left - 1 if waits == 0 else left, clock)
        if len(self._buckets) > self._known:
            self._buckets.popitem(last=False)
        return waits
