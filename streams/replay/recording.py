"""Recordings: the events of each case in a journal, in bulk and by the acceptance rule.

Memory holds only open cases.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Any

import msgspec

from schemas import envelope as wire
from schemas import events as ev
from schemas.calls import Call
from schemas.errors import ContractError
from streams.journal.fold import JournalFold


class Recorded(msgspec.Struct, frozen=True):
    """One accepted event. ``at`` is its event time (UTC), ``cause`` the head that it followed."""

    id: str
    at: datetime
    event: ev.Event


class Recording(msgspec.Struct, kw_only=True):
    """The accepted events of one case in log order: opening first and, if ``unreadable`` is empty, terminal last.

    ``unreadable`` is the reason why the case cannot be replayed: one of its records does not decode.
    """

    case_id: str
    run_id: str
    records: list[Recorded]
    unreadable: str = ""

    @property
    def received(self) -> ev.EventReceived:
        """The opening event.

        Raises:
            TypeError: the opening did not decode.
        """
        first = self.records[0].event if self.records else None
        if not isinstance(first, ev.EventReceived):
            raise TypeError(f"case {self.case_id} has no readable opening")
        return first

    @property
    def opened_at(self) -> datetime:
        """Event time of the opening (UTC)."""
        return self.records[0].at

    @property
    def end(self) -> ev.Event:
        """The last event: the terminal one of an ended case."""
        return self.records[-1].event

    @property
    def calls(self) -> Iterator[Call]:
        """Yield every call that a recorded event holds, in log order."""
        return (call for record in self.records for call in record.event.calls)


class Recordings:
    """Collects the records of one journal partition into cases, each returned when it ends.

    Raises (from :meth:`take`):
        NewerSchemaError: an accepted record was written by newer code.
    """

    def __init__(
        self, fold: JournalFold | None = None, *, wanted: Callable[[str], bool] = lambda _case_id: True
    ) -> None:
        """``wanted`` selects cases by id; the others are judged but not decoded.

        ``fold``: where to begin. The default begins at the log's start and does not check partitions.
        """
        self._wanted = wanted
        self.fold = JournalFold() if fold is None else fold
        self._open: dict[str, Recording] = {}

    @property
    def open_cases(self) -> int:
        """Number of cases that have not ended so far."""
        return len(self._open)

    def take(self, records: Iterable[Any]) -> Iterator[Recording]:
        """Yield the cases that end within these records, in the order of their ends."""
        for env, record in self.fold.accept(records):
            if not self._wanted(env.case_id):
                continue
            case = self._open.get(env.case_id)
            if case is None:
                case = self._open[env.case_id] = Recording(case_id=env.case_id, run_id=env.run_id, records=[])
            try:
                event = wire.decode(env.type, env.version, record.value)
                case.records.append(Recorded(env.id, env.time, event))
            except wire.NewerSchemaError:
                raise
            except ContractError as exc:
                case.unreadable = case.unreadable or f"its {env.type} at offset {record.offset}: {exc}"
            if env.type in ev.TERMINAL_NAMES:
                yield self._open.pop(env.case_id)
