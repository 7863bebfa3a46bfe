"""A flow: one kind of case, and the journal that holds it. The runtime runs any of them and knows none.

A registry of steps is of one flow. Which flows there are: :mod:`agents.graphs`.
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
    """``opening`` is the event that opens a case, ``events`` all that its journal may hold.

    ``entries`` are written by the runtime or a person, each with that writer's name in the picture: all must lead to a step.
    ``source`` is what cases are opened for, ``sink`` who takes their ends, ``gives`` what is made of them. ``unreadable`` makes the opening of a case whose
    own does not decode: enough to close the case by. ``letter``: key and value of the dead letter that a failed case leaves,
    for sending it once more; None where nobody would.
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
        """Return the case that this event opens; its snapshot is to come.

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
            ContractError: the event is none of this flow's (reason ``bad_event``).
        """
        self.refuse_foreign(event)
        after: CaseCore = self.fold(case, event, event_id=env.id, at=env.time)
        return after

    def refuse_foreign(self, event: ev.Event) -> None:
        """Refuse an event that belongs to another flow's journal.

        Raises:
            ContractError: it does (reason ``bad_event``).
        """
        if type(event) not in self.events:
            name = ev.WIRE_NAMES[type(event)]
            raise ContractError(
                f"{name} is no event of the {self.name} journal: write it to its own", reason="bad_event"
            )
