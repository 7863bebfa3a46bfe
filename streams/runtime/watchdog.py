"""The watchdog: ends a worker that makes no progress, so that its supervisor restarts it.

Waiting for a model is progress.
"""

from __future__ import annotations

from collections.abc import Callable

from streams.runtime.projector import Projector

OVERDUE_EXIT_S = 60.0
STALL_EXIT_S = 60.0


class Watchdog:
    """Detects partitions with unread records that are not read. ``end_of`` returns a journal partition's end.

    Faust's own check compares a monotonic clock with an epoch one and never fires.
    """

    def __init__(self, projector: Projector, end_of: Callable[[int], int]) -> None:
        self._projector = projector
        self._end_of = end_of
        self._unmoved: dict[int, tuple[int, float]] = {}

    def assigned(self) -> None:
        """Reset the counts: a stall before an assignment says nothing about the time after it."""
        self._unmoved.clear()

    def stalled_s(self, loop_time: float) -> dict[int, float]:
        """Return for how many seconds each journal partition has had unread records without any being read; else 0."""
        unmoved = self._unmoved
        return {n: loop_time - unmoved[n][1] if n in unmoved else 0.0 for n in list(self._projector.partitions)}

    async def look(self, loop_time: float, overdue_s: float) -> str | None:
        """Return why the worker must restart; None if it makes progress. ``overdue_s``: how late the latest case is."""
        if overdue_s > OVERDUE_EXIT_S:
            return "a case is open a minute past its deadline: the worker restarts"
        for number, p in list(self._projector.partitions.items()):
            position, since = self._unmoved.get(number, (-1, loop_time))
            if p.accepted.position != position or self._end_of(number) <= p.accepted.position:
                self._unmoved[number] = (p.accepted.position, loop_time)
            elif (
                loop_time - since > STALL_EXIT_S
                and number in self._projector.partitions  # an earlier pass may have waited through a rebalance
                and not await self._projector.is_at_the_end(number)
            ):
                return (
                    f"nothing was read from {self._projector.topic}-{number} for a minute although there is more: "
                    "the worker restarts"
                )
        return None
