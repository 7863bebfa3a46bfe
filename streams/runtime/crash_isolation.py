"""Crash isolation: cases whose step has repeatedly killed the worker run one at a time, with nothing beside them.

If the process then dies, its ``StepStarted`` names the step that killed it. Everything else waits meanwhile and is
dispatched afterwards. A worker that has to release the case appends a second ``StepStarted`` with ``handed_back``. The
next worker then runs the case alone again, and does not mistake a rebalance for a crash.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from agents.core.case_core import CaseCore
from agents.core.step_turn import successor_id
from schemas.effects import Failure
from schemas.events import StepStarted
from streams.runtime.worker_slot import WorkerSlot

KILLED_ITS_WORKER = Failure(kind="crash", message="the step killed its worker", retryable=False)


class CrashIsolation:
    """The suspects, the one that runs alone, and the cases that wait for it.

    ``found`` counts suspects since startup.
    """

    def __init__(self, slot: WorkerSlot, after: int) -> None:
        self._slot = slot
        self._after = after
        self._lined_up: dict[str, tuple[int, str]] = {}
        self._held_back: dict[str, int] = {}
        self._ours: set[str] = set()
        self._alone: str | None = None
        self._turn: CaseCore | None = None
        self.found = 0

    @property
    def waiting(self) -> bool:
        """True if any case waits for its turn."""
        return bool(self._lined_up or self._held_back)

    def is_orphan(self, case: CaseCore) -> bool:
        """Return whether the case's head is a ``StepStarted`` of a worker that is gone: its step killed it."""
        return _started(case) and case.head_id not in self._ours

    def line_up(self, partition: int, case: CaseCore) -> bool:
        """Queue the case to run alone if it is a suspect; False if it is not."""
        if not _handed_back(case) and self._slot.crashes.get(case.head_id, 0) < self._after:
            return False
        self._lined_up.setdefault(case.case_id, (partition, case.head_id))
        return True

    def hold_back(self, partition: int, case: CaseCore) -> bool:
        """Make the case wait if a suspect runs or is due; False if it may start."""
        if not (self._lined_up or self._alone is not None) or case.case_id == self._alone:
            return False
        self._held_back[case.case_id] = partition
        return True

    def runs(self, case: CaseCore) -> None:
        """Record that a case with a ``StepStarted`` head is dispatched: this case runs alone."""
        if _started(case) and self._alone is None:
            self._alone = case.case_id

    def is_over(self, case: CaseCore) -> bool:
        """Return whether this case ran alone and has moved on; then the next one may run."""
        if _started(case):
            return False
        if self._turn is not None and self._turn.case_id == case.case_id:
            self._turn = None
        if case.case_id != self._alone:
            return False
        self._alone = None
        return True

    def clear(self) -> None:
        """Clear the queue. It is rebuilt when the partitions are live again."""
        self._lined_up.clear()
        self._held_back.clear()
        self._alone = None

    def hand_back(self) -> tuple[CaseCore, StepStarted] | None:
        """Return the case that runs alone, at its ``StepStarted``, and the event to append next; None if none does."""
        turn, self._turn = self._turn, None
        return None if turn is None else (turn, replace(turn.head, handed_back=True))

    def due(self, busy: bool) -> Iterator[tuple[int, str, str]]:
        """Yield (partition, case id, head id) of suspects in order; nothing while a suspect or anything else runs."""
        while self._lined_up and self._alone is None and not busy:
            case_id = next(iter(self._lined_up))
            yield self._lined_up[case_id][0], case_id, self._lined_up.pop(case_id)[1]

    def isolate(self, case: CaseCore, step: str) -> StepStarted:
        """Let the case run alone; return the event that records this, which the caller appends."""
        self.found += 1
        self._alone = case.case_id
        crashes = case.head.crashes if _handed_back(case) else self._slot.crashes[case.head_id]
        self._slot.forget(case.head_id)
        started = StepStarted(step=step, crashes=crashes)
        new_head = successor_id(case)
        self._ours.add(new_head)
        self._turn = replace(case, head=started, head_id=new_head)
        return started

    def released(self) -> dict[str, int]:
        """Return case id → partition of the waiting cases, once nothing holds them back."""
        if self._alone is not None or self._lined_up:
            return {}
        held, self._held_back = self._held_back, {}
        return held


def _started(case: CaseCore) -> bool:
    return isinstance(case.head, StepStarted) and not case.head.handed_back


def _handed_back(case: CaseCore) -> bool:
    return isinstance(case.head, StepStarted) and case.head.handed_back
