"""Limits per client: requests per minute, and open event streams in total and per address."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable

from newsproof.web.responses import Refused

_KNOWN_CLIENTS = 10_000


class Rates:
    """Token bucket per client address, refilled evenly. Beyond ``known`` addresses, the oldest is forgotten."""

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


AGAIN_S = 5


class ConnectionLimit:
    """At most ``most`` open event streams, and ``most_each`` per client address, so that no client takes all."""

    def __init__(self, most: int, most_each: int) -> None:
        self._most, self._most_each = most, most_each
        self._taken: Counter[str] = Counter()

    def __len__(self) -> int:
        """Return the number of open streams."""
        return self._taken.total()

    def take(self, client: str) -> Callable[[], None]:
        """Take a slot and return the function that releases it; calling that twice releases the slot once.

        Raises:
            Refused: no slot is free, in total or for this client.
        """
        again = {"retry_after": str(AGAIN_S)}
        if len(self) >= self._most:
            raise Refused(
                503, "too many event streams are open on this server", "close some, or raise WEB_MAX_STREAMS", **again
            )
        if self._taken[client] >= self._most_each:
            do = "close some, or raise WEB_MAX_STREAMS_PER_ADDRESS"
            raise Refused(503, "too many event streams are open from this address", do, **again)
        self._taken[client] += 1
        left = [client]

        def give_back() -> None:
            if left:
                gone = left.pop()
                self._taken[gone] -= 1
                if not self._taken[gone]:
                    del self._taken[gone]

        return give_back
