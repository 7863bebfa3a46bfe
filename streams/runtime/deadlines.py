"""Deadlines: which open case must end when. The deep path ends first, so that the single-pass analysis has time left."""

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
"""A case whose deadline passed while no worker was there still gets this long after a worker went live."""


LOOK_AGAIN = timedelta(seconds=2)
_SPARE = 64
"""Entries of ended cases that are not worth a sweep."""


class Deadlines:
    """The deadlines of open cases, soonest first. What has ended is swept out: memory follows the open cases alone."""

    def __init__(self) -> None:
        self._heap: list[tuple[datetime, int, str, bool]] = []
        self._overdue: dict[str, datetime] = {}
        self._watched: set[str] = set()

    def __len__(self) -> int:
        return len(self._heap)

    def watch(self, partition: int, case: CaseCore) -> None:
        """Remember both deadlines of a case."""
        if case.pinned is not None:
            self._watched.add(case.case_id)
            heapq.heappush(self._heap, (case.deep_deadline, partition, case.case_id, False))
            heapq.heappush(self._heap, (case.deadline, partition, case.case_id, True))

    def forget(self, case_id: str) -> None:
        """A case ended: its deadlines go with the next sweep."""
        self._watched.discard(case_id)
        if len(self._heap) > 4 * len(self._watched) + _SPARE:
            # A deadline lies minutes ahead and a case ends in seconds, so the ended ones would be the many.
            # A case is watched anew whenever its partition goes live, so what is left may be there twice.
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
        """Return for how many seconds the worst of these has been seen overdue; ``cases`` come with their worker's start.

        What counts is how long it has been so here, not by how much: an opening may be dated by a wrong clock, or a forger.
        """
        before = self._overdue
        self._overdue = {
            case.case_id: before.get(case.case_id, now)
            for case, live in cases
            if case.pinned is not None and now > max(case.deadline, live)
        }
        return max(((now - since).total_seconds() for since in self._overdue.values()), default=0.0)

    def put_off(self, case: CaseCore, partition: int, last: bool, live_since: datetime, now: datetime) -> bool:
        """Give a case that was open before its worker went live its grace; False when that has passed too."""
        grace = live_since + (LIVE_GRACE if last else LIVE_GRACE / 2)
        if grace <= now or case.opened_at >= live_since:
            return False
        self._watched.add(case.case_id)
        heapq.heappush(self._heap, (grace, partition, case.case_id, last))
        return True

    def look_again(self, partition: int, case_id: str, last: bool, now: datetime) -> None:
        """Come up once more: what ends the case may be passed by, where its step answered at that very moment."""
        self._watched.add(case_id)
        heapq.heappush(self._heap, (now + LOOK_AGAIN, partition, case_id, last))


def cut_off(case: CaseCore, step: str, *, last: bool, now: datetime) -> StepFailed:
    """Return the event that ends a step at a deadline: the deep path degrades, after the last one the case gives up."""
    limit = "the case" if last else "the deep path"
    failure = Failure(kind="deadline", message=f"the deadline of {limit} passed at {step}", retryable=False)
    event = failed(case, step, failure, now=now)
    return replace(event, outcome="give_up") if last else event
