"""Wake: tells who waits for room that there may be some. Made before the parts, and given to both sides."""

from __future__ import annotations

from collections.abc import Callable


class Wake:
    """Called by what can make room (budget, breakers, other workers' partitions); runs what heeds it, at once."""

    def __init__(self) -> None:
        self._heeding: list[Callable[[], None]] = []

    def heed(self, look: Callable[[], None]) -> None:
        """Have ``look`` called at each wake-up from now on."""
        self._heeding.append(look)

    def __call__(self) -> None:
        for look in self._heeding:
            look()
