"""How many event streams are open here, in all and from one client address."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from newsproof.web.answers import Refused

AGAIN_S = 5


class ConnectionLimit:
    """How many event streams may be open: ``most`` in all, ``most_each`` for one client address, so that one client leaves some to others."""

    def __init__(self, most: int, most_each: int) -> None:
        self._most, self._most_each = most, most_each
        self._taken: Counter[str] = Counter()

    def __len__(self) -> int:
        """Return how many are taken."""
        return self._taken.total()

    def take(self, client: str) -> Callable[[], None]:
        """Take a place and return what gives it back; called twice, that gives it back once.

        Raises:
            Refused: there is none left, or none for this client.
        """
        again = {"retry_after": str(AGAIN_S)}
        if len(self) >= self._most:
            raise Refused(503, "too many event streams are open here", "close some, or raise WEB_MAX_STREAMS", **again)
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
