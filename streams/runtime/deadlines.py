"""Deadlines of open cases. The deep path ends first, so that the single-pass analysis has time left."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from msgspec.structs import replace

from agents.core.case_core import CaseCore
from agents.core.failures import failed
from schemas.effects import Failure
from schemas.events import StepFailed

LIVE_GRACE = timedelta(seconds=30)
"""Extra time for a case whose deadline passed while there was no worker, counted from when a worker went live."""


LOOK_AGAIN = timedelta(seconds=2)
_SPARE = 64
"""Minimum number of entries of ended cases that makes a sweep worthwhile."""


class Deadlines:
    """The deadlines of open cases, soonest first. Entries of ended cases are removed, which bounds the memory."""

    def __init__(self) -> None:
        self._heap: list[tuple[datetime, int, str, bool]] = []
        self._overdue: dict[str, datetime] = {}
        self._watched: set[str] = set()

    def __len__(self) -> int:
        return len(self._heap)

    def watch(self, partition: int, case: CaseCore) -> None:
        """Add both deadlines of a case."""
        if case.pinned is not None:
            self._watched.add(case.case_id)
            heapq.heappush(self._heap, (case.deep_deadline, partition, case.case_id, False))
            heapq.heappush(self._heap, (case.deadline, partition, case.case_id, True))

    def forget(self, case_id: str) -> None:
        """Mark a case as ended. The next sweep removes its deadlines."""
        self._watched.discard(case_id)
        if len(self._heap) > 4 * len(self._watched) + _SPARE:
            # Deadlines are minutes ahead and cases end in seconds, so most entries would be of ended cases. A case is
            # added again whenever its partition goes live, so the remaining entries may include duplicates.
            self._heap = sorted({entry for entry in self._heap if entry[2] in self._watched})

    def passed(self, now: datetime) -> Iterator[tuple[int, str, bool]]:
        """Yield (partition, case id, whether it is the case's last deadline) of every deadline that has passed."""
        while self._heap and self._heap[0][0] <= now:
            _, partition, case_id, last = heapq.heappop(self._heap)
            if case_id in self._watched:
                if last:
                    self._watched.discard(case_id)
                yield partition, case_id, last

    def longest_overdue_s(self, cases: Iterable[tuple[CaseCore, datetime]], now: datetime) -> float:
        """Return for how many seconds the longest overdue of these cases has been seen overdue here.

        ``cases`` are (case, earliest time at which it counts as overdue). The time since the deadline is not used,
        because an opening may have the time of a wrong clock, or of a forger.
        """
        before = self._overdue
        self._overdue = {
            case.case_id: before.get(case.case_id, now)
            for case, live in cases
            if case.pinned is not None and now > max(case.deadline, live)
        }
        return max(((now - since).total_seconds() for since in self._overdue.values()), default=0.0)

    def restart_overdue(self) -> None:
        """Restart the count of how long cases have been overdue."""
        self._overdue.clear()

    def put_off(self, case: CaseCore, partition: int, last: bool, live_since: datetime, now: datetime) -> bool:
        """Grant extra time to a case that was open before its worker went live; False if that has passed too."""
        grace = live_since + (LIVE_GRACE if last else LIVE_GRACE / 2)
        if grace <= now or case.opened_at >= live_since:
            return False
        self._watched.add(case.case_id)
        heapq.heappush(self._heap, (grace, partition, case.case_id, last))
        return True

    def look_again(self, partition: int, case_id: str, last: bool, now: datetime) -> None:
        """Check the deadline again later: the event that ends the case may be ignored if its step has just ended."""
        self._watched.add(case_id)
        heapq.heappush(self._heap, (now + LOOK_AGAIN, partition, case_id, last))


def cut_off(case: CaseCore, step: str, *, last: bool, now: datetime) -> StepFailed:
    """Return the event that ends a step at a deadline: the deep path degrades; at its last deadline, the case fails."""
    limit = "the case" if last else "the deep path"
    failure = Failure(kind="deadline", message=f"the deadline of {limit} passed at {step}", retryable=False)
    event = failed(case, step, failure, now=now)
    return replace(event, outcome="give_up") if last else event
