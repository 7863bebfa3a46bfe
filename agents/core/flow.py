"""A flow: one kind of case and its journal. The runtime runs any flow and depends on none.

Each registry of steps belongs to one flow. :mod:`agents.graphs` defines the flows.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec

from agents.core.case_core import CaseCore
from schemas import events as ev
from schemas.envelope import Envelope
from schemas.errors import ContractError


class Flow(msgspec.Struct, frozen=True, kw_only=True):
    """The definition of one kind of case.

    ``opening`` is the event that opens a case; ``events`` are all the events that its journal may hold. ``entries`` are
    the events that the runtime or a person writes, with the writer's name for the graph; each must lead to a step.
    ``source``, ``sink`` and ``gives`` are labels for the graph: the input, the consumer of finished cases, and the
    result. ``unreadable`` makes a substitute opening event for one that does not decode, sufficient to close the case.
    ``letter`` returns key and value of the dead letter of a failed case, from which the input can be sent again; None
    when the case leaves no dead letter.
    """

    name: str
    opening: type[ev.Event]
    events: frozenset[type[ev.Event]]
    entries: tuple[tuple[str, type[ev.Event]], ...]
    source: str
    sink: str
    gives: str
    open: Callable[..., Any]
    fold: Callable[..., Any]
    unreadable: Callable[[datetime], ev.Event]
    letter: Callable[[Any], tuple[bytes, bytes] | None]

    def opened(self, event: ev.Event, env: Envelope) -> CaseCore:
        """Return the case that this event opens. Its snapshot is not loaded yet.

        Raises:
            ContractError: the event opens a case of another flow (reason ``bad_event``).
        """
        self.refuse_foreign(event)
        case: CaseCore = self.open(
            event, case_id=env.case_id, event_id=env.id, run_id=env.run_id, at=env.time, config=None
        )
        return case

    def folded(self, case: CaseCore, event: ev.Event, env: Envelope) -> CaseCore:
        """Return the case after one more accepted event.

        Raises:
            ContractError: the event does not belong to this flow (reason ``bad_event``).
        """
        self.refuse_foreign(event)
        after: CaseCore = self.fold(case, event, event_id=env.id, at=env.time)
        return after

    def refuse_foreign(self, event: ev.Event) -> None:
        """Refuse an event of another flow's journal.

        Raises:
            ContractError: the event does not belong to this flow (reason ``bad_event``).
        """
        if type(event) not in self.events:
            name = ev.WIRE_NAMES[type(event)]
            raise ContractError(
                f"{name} is no event of the {self.name} journal: write it to its own", reason="bad_event"
            )
