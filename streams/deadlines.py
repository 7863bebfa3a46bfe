"""Deadlines: which open case must end when. The deep path ends first, so that the single-pass analysis has time left."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from datetime import datetime, timedelta

from agents.case import Case

LIVE_GRACE = timedelta(seconds=30)
"""A case whose deadline passed while no worker was there still gets this long after a worker went live."""


class Deadlines:
    """The deadlines of open cases, soonest first. Entries of cases that ended are dropped when they come up."""

    def __init__(self) -> None:
        self._heap: list[tuple[datetime, int, str, bool]] = []

    def watch(self, partition: int, case: Case) -> None:
        """Remember both deadlines of a case."""
        if case.pinned is not None:
            heapq.heappush(self._heap, (case.deep_deadline, partition, case.case_id, False))
            heapq.heappush(self._heap, (case.deadline, partition, case.case_id, True))

    def passed(self, now: datetime) -> Iterator[tuple[int, str, bool]]:
        """Yield (partition, case id, whether it is the case's last deadline) of every deadline that has passed."""
        while self._heap and self._heap[0][0] <= now:
            _, partition, case_id, last = heapq.heappop(self._heap)
            yield partition, case_id, last

    def put_off(self, case: Case, partition: int, last: bool, live_since: datetime, now: datetime) -> bool:
        """Give a case that was open before its worker went live its grace; False when that has passed too."""
        grace = live_since + (LIVE_GRACE if last else LIVE_GRACE / 2)
        if grace <= now or case.opened_at >= live_since:
            return False
        heapq.heappush(self._heap, (grace, partition, case.case_id, last))
        return True
