"""Limit of open event streams, in total and per client address."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from newsproof.web.responses import Refused

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
