"""A worker's state of one journal partition: the acceptance state, the open cases, and the quarantined ones."""

from __future__ import annotations

import sys
from collections import deque
from typing import Any, NamedTuple, Protocol

from agents.core.case_core import CaseCore
from streams.journal.acceptance import AcceptedEvents

Record = Any
"""A Kafka record: topic, partition, offset, key, value, headers (the same in aiokafka and Faust)."""


NEVER = sys.maxsize
"""Target offset of a partition that is being revoked: records still arrive, and must not make it live again."""


class QuarantinedCase(NamedTuple):
    """A case with an unreadable record. ``stub`` is the case at its head, used to close it there."""

    stub: CaseCore
    record: Record
    reason: str
    why: str


class Listener(Protocol):
    """Receiver of the projector's events."""

    def on_folded(self, partition: int, case: CaseCore) -> None: ...

    def on_closed(self, partition: int, case: CaseCore) -> None: ...

    def on_live(self, partition: int) -> None: ...

    def on_poison(self, record: Record, case: CaseCore | None, reason: str, why: str) -> None: ...


class Partition:
    """This worker's state of one journal partition."""

    def __init__(self) -> None:
        self.accepted = AcceptedEvents()
        self.cases: dict[str, Any] = {}
        self.quarantined: dict[str, QuarantinedCase] = {}
        self.waiting: deque[Record] | None = deque()
        self.ahead: dict[int, Record] = {}
        """Records appended by this process that come after a record of another process, by offset."""
        self.end = 0
        self.loaded = False
        self.live = False


class Partitions(dict[int, Partition]):
    """The journal partitions of this worker, by number. Only the projector changes them."""

    def case_of(self, partition: int, case_id: str) -> Any:
        """Return an open case; None if it is not open here."""
        p = self.get(partition)
        return None if p is None else p.cases.get(case_id)

    def open_of(self, partition: int) -> list[Any]:
        """Return the open cases of this worker's partition."""
        return list(self[partition].cases.values())

    def is_open(self, partition: int, case_id: str) -> bool:
        return partition in self and case_id in self[partition].cases

    def is_live(self, partition: int) -> bool:
        """Return whether a partition of this worker has caught up."""
        return partition in self and self[partition].live

    def position_of(self, partition: int) -> int:
        """Return the offset after the last record folded; 0 for a partition of another worker."""
        return self[partition].accepted.position if partition in self else 0
