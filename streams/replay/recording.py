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


class RecordedEvent(msgspec.Struct, frozen=True):
    """One accepted event. ``at``: its event time (UTC)."""

    id: str
    at: datetime
    event: ev.Event


class Recording(msgspec.Struct, kw_only=True):
    """The accepted events of one case in log order: opening first and, if ``unreadable`` is empty, terminal last.

    ``unreadable`` is the reason why the case cannot be replayed: a record that does not decode.
    """

    case_id: str
    run_id: str
    records: list[RecordedEvent]
    unreadable: str = ""

    @property
    def received(self) -> ev.EventReceived | ev.SecondLookOpened:
        """The opening event.

        Raises:
            TypeError: the opening did not decode.
        """
        first = self.records[0].event if self.records else None
        if not isinstance(first, ev.EventReceived | ev.SecondLookOpened):
            raise TypeError(f"case {self.case_id} has no readable opening")
        return first

    @property
    def config_hash(self) -> str:
        """The configuration that the opening pins; empty if it did not decode."""
        return str(getattr(self.records[0].event, "config_hash", "")) if self.records else ""

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

    A case is decoded only when it ends, because decoded open cases would take more memory.

    Raises (from :meth:`take`):
        NewerSchemaError: a newer version wrote an accepted record of an ended case.
    """

    def __init__(
        self, fold: JournalFold | None = None, *, wanted: Callable[[str, Any], bool] = lambda _case_id, _end: True
    ) -> None:
        """``wanted`` selects ended cases, by id and by the record that ended them. Others are not decoded.

        ``fold``: the start. By default at the log's start, without a check of partitions.
        """
        self._wanted = wanted
        self.fold = JournalFold() if fold is None else fold
        self._open: dict[str, list[tuple[wire.Envelope, Any]]] = {}

    @property
    def open_cases(self) -> int:
        """Number of cases that have not ended so far."""
        return len(self._open)

    def take(self, records: Iterable[Any]) -> Iterator[Recording]:
        """Yield the cases that end within these records, in the order of their ends."""
        for accepted in self.fold.accept(records):
            env, record = accepted
            self._open.setdefault(env.case_id, []).append(accepted)
            if env.type in ev.TERMINAL_NAMES:
                case = self._open.pop(env.case_id)
                if self._wanted(env.case_id, record):
                    yield _decoded(case)


def _decoded(case: list[tuple[wire.Envelope, Any]]) -> Recording:
    opening = case[0][0]
    recording = Recording(case_id=opening.case_id, run_id=opening.run_id, records=[])
    for env, record in case:
        try:
            recording.records.append(RecordedEvent(env.id, env.time, wire.decode(env.type, env.version, record.value)))
        except wire.NewerSchemaError:
            raise
        except ContractError as exc:
            recording.unreadable = recording.unreadable or f"its {env.type} at offset {record.offset}: {exc}"
    return recording
