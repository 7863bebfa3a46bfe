"""What a worker knows of one journal partition: the acceptance state, its open cases, and those in quarantine."""

from __future__ import annotations

import sys
from collections import deque
from typing import Any, NamedTuple, Protocol

from agents.core.case_core import CaseCore
from agents.core.flow import Flow
from schemas import envelope as wire
from schemas.acceptance import AcceptedEvents

Record = Any
"""A Kafka record: topic, partition, offset, key, value, headers (aiokafka's and Faust's are alike in these)."""


NEVER = sys.maxsize
"""The end of a partition that is being taken away: records still come, and must not make it live again."""


class Quarantined(NamedTuple):
    """A case with a record that cannot be read: ``stub`` is the case at its head, for closing it there."""

    stub: CaseCore
    record: Record
    reason: str
    why: str


class Listener(Protocol):
    """Who is told what the log says: the dispatcher."""

    def on_folded(self, partition: int, case: CaseCore) -> None: ...

    def on_closed(self, partition: int, case: CaseCore) -> None: ...

    def on_live(self, partition: int) -> None: ...

    def on_poison(self, record: Record, case: CaseCore | None, reason: str, why: str) -> None: ...


class Partition:
    """What this worker knows of one journal partition."""

    def __init__(self) -> None:
        self.accepted = AcceptedEvents()
        self.cases: dict[str, Any] = {}
        self.quarantined: dict[str, Quarantined] = {}
        self.waiting: deque[Record] | None = deque()
        self.end = 0
        self.loaded = False
        self.live = False


def unreadable_case(flow: Flow, env: wire.Envelope) -> CaseCore:
    """Return what can be said of a case whose opening record does not decode: enough to close it."""
    return flow.opened(flow.unreadable(env.time), env)
