"""Wake-up signal for code that waits for free capacity. It is created before both sides and passed to each."""

from __future__ import annotations

from collections.abc import Callable


class Wake:
    """Called by components that can free capacity (budget, breakers, other workers' partitions).

    Runs every registered callback at once.
    """

    def __init__(self) -> None:
        self._heeding: list[Callable[[], None]] = []

    def subscribe(self, look: Callable[[], None]) -> None:
        """Register a callback for every wake-up from now on."""
        self._heeding.append(look)

    def __call__(self) -> None:
        for look in self._heeding:
            look()
