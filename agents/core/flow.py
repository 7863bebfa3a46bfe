"""A flow: a journal and the kinds of case in it. The runtime runs any flow and depends on none.

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


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """The definition of one kind of case.

    ``opening`` is the event that opens a case, ``state`` the type that its events are folded into. ``entries`` are the events that
    the runtime or a person writes, with the writer's name for the graph, the opening first; each must lead to a step.
    ``source``, ``sink`` and ``gives`` are labels for the graph: the input, the consumer of finished cases, and the
    result. ``also_opened_by`` are further events that open such a case. ``unreadable`` makes a substitute opening event for one that does not decode, sufficient to close the case.
    """

    opening: type[ev.Event]
    state: type[CaseCore]
    entries: tuple[tuple[str, type[ev.Event]], ...]
    source: str
    sink: str
    gives: str
    open: Callable[..., Any]
    fold: Callable[..., Any]
    unreadable: Callable[[datetime], ev.Event]
    also_opened_by: tuple[type[ev.Event], ...] = ()


class Flow(msgspec.Struct, frozen=True, kw_only=True):
    """A journal and the kinds of case that it holds, each with an opening event of its own.

    ``events`` are all the events that the journal may hold. ``letter`` returns key and value of the dead letter of a failed
    case, from which the input can be sent again; None when the case leaves no dead letter.
    """

    name: str
    events: frozenset[type[ev.Event]]
    kinds: tuple[Kind, ...]
    letter: Callable[[Any], tuple[bytes, bytes] | None]

    def kind_of(self, opening: type[ev.Event]) -> Kind:
        """Return the kind of case that this event opens.

        Raises:
            ContractError: the event opens no case of this flow (reason ``bad_event``).
        """
        for kind in self.kinds:
            if opening in (kind.opening, *kind.also_opened_by):
                return kind
        raise ContractError(
            f"{ev.WIRE_NAMES[opening]} opens no case of the {self.name} journal: write it to its own",
            reason="bad_event",
        )

    def opened(self, event: ev.Event, env: Envelope) -> CaseCore:
        """Return the case that this event opens. Its snapshot is not loaded yet.

        Raises:
            ContractError: the event opens a case of another flow (reason ``bad_event``).
        """
        case: CaseCore = self.kind_of(type(event)).open(
            event, case_id=env.case_id, event_id=env.id, run_id=env.run_id, at=env.time, config=None
        )
        return case

    def unreadable(self, env: Envelope) -> CaseCore:
        """Return a case for an opening that does not decode, with enough data to close it."""
        named = ev.BY_WIRE_NAME.get(env.type)
        kind = next((k for k in self.kinds if k.opening is named), self.kinds[0])
        return self.opened(kind.unreadable(env.time), env)

    def folded(self, case: CaseCore, event: ev.Event, env: Envelope) -> CaseCore:
        """Return the case after one more accepted event.

        Raises:
            ContractError: the event does not belong to this flow (reason ``bad_event``).
        """
        self.refuse_foreign(event)
        return self.fold(case, event, event_id=env.id, at=env.time)

    def fold(self, case: CaseCore, event: ev.Event, *, event_id: str, at: datetime) -> CaseCore:
        """Return the case after one more accepted event of its journal."""
        kind = next(k for k in self.kinds if isinstance(case, k.state))
        after: CaseCore = kind.fold(case, event, event_id=event_id, at=at)
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
