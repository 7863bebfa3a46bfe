"""Reads of the log for people: one case, summaries of all cases, the signals. In bulk, by the acceptance rule."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, TypeVar

import msgspec
from aiokafka import TopicPartition

from schemas import envelope as wire
from schemas.envelope import NewerSignalError, read_signal
from schemas.errors import ContractError
from schemas.events import (
    TERMINAL,
    WIRE_NAMES,
    CaseDegraded,
    CaseDropped,
    CaseFailed,
    CaseTriaged,
    Event,
    EventReceived,
    SecondLookOpened,
    SignalSynthesized,
)
from schemas.news import with_looks
from schemas.signals import EXPIRED, Signal
from schemas.topics import Topics, partition_of
from streams.journal.clock import appended_at
from streams.journal.fold import JournalFold
from streams.journal.log import Log
from streams.journal.reader import JournalReader


class JournalRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One record of a case. ``accepted`` is False if the acceptance rule ignored it."""

    offset: int
    appended_at: datetime
    envelope: wire.Envelope
    event: Event
    accepted: bool


STATUSES = {
    WIRE_NAMES[SignalSynthesized]: "signal",
    WIRE_NAMES[CaseDropped]: "dropped",
    WIRE_NAMES[CaseFailed]: "failed",
}
"""The status of a case by the wire name of the event that ended it."""


def in_short(signal: Signal) -> str:
    """Return a signal in a few words, such as “buy 0.93 (confirmed)” or “observe 0.00 (retracted, refuted)”."""
    stage = "" if signal.stage == "final" else f"{signal.stage}, "
    stage += "expired, " if EXPIRED in signal.risk_flags else ""
    return f"{signal.action} {signal.confidence:.2f} ({stage}{signal.verdict or 'no verdict'})"


class FirstCases:
    """The case that an event belongs to for people: events of a second look belong to its first case."""

    def __init__(self) -> None:
        self._looks: dict[str, str] = {}

    def of(self, env: wire.Envelope, event: Event) -> str:
        """Return the case of the next accepted event."""
        if isinstance(event, SecondLookOpened):
            self._looks[env.case_id] = event.of_case
        of_first = self._looks.get(env.case_id, env.case_id)
        if isinstance(event, TERMINAL):
            self._looks.pop(env.case_id, None)
        return of_first


class CaseRow(msgspec.Struct, kw_only=True):
    """One case of a list. ``status``: open, signal, dropped or failed; ``end``: the signal in short, or the reason.

    Only the signal of a second look changes a case that has a signal.
    """

    case_id: str
    received_at: datetime
    source: str = ""
    external_id: str | None = None
    text: str = ""
    status: str = "open"
    event_type: str = ""
    asset: str = ""
    end: str = ""

    def take(self, env: wire.Envelope, event: Event) -> None:
        """Take one more accepted event."""
        if self.ignores(event):
            return
        self.status = STATUSES.get(env.type, self.status)
        match event:
            case EventReceived(news=news, text=text, part=part):
                # Its item's id names the first case alone.
                known = news.external_id if part is None else None
                self.source, self.external_id, self.text = news.source, known, text
            case CaseTriaged(draft=draft):
                self.event_type, self.asset = draft.event_type, draft.asset
            case SignalSynthesized(signal=signal):
                self.event_type, self.asset = signal.event_type, signal.asset
                self.end = in_short(signal)
            case CaseDropped(reason=reason) | CaseFailed(reason=reason):
                self.end = reason
            case _:
                pass

    def ignores(self, event: Event) -> bool:
        """Return whether this event of a second look leaves the case unchanged."""
        unchanged = isinstance(event, CaseDropped) and event.reason == "unchanged"
        return unchanged or (self.status == "signal" and not isinstance(event, SignalSynthesized))


_Row = TypeVar("_Row", bound=CaseRow)


class CountedCase(CaseRow, kw_only=True):
    """A row made from all events of its case. ``cost_usd`` is None if a price is unknown."""

    events: int = 0
    calls: int = 0
    cost_usd: Decimal | None = Decimal(0)
    degraded: str = ""

    def take(self, env: wire.Envelope, event: Event) -> None:
        """Take one more accepted event, and count it and its calls."""
        super().take(env, event)
        self.events += 1
        self.calls += len(event.calls)
        for call in event.calls:
            self.cost_usd = None if self.cost_usd is None or call.cost_usd is None else self.cost_usd + call.cost_usd
        if isinstance(event, CaseDegraded):
            self.degraded = event.reason


def named_by(cases: Sequence[_Row], wanted: str) -> list[_Row]:
    """Return the cases with this id, else with this external id (or source:id), else with an id that starts with it."""
    by_id = [c for c in cases if c.case_id == wanted]
    by_news = [c for c in cases if wanted in (c.external_id, f"{c.source}:{c.external_id}")]
    return by_id or by_news or [c for c in cases if len(wanted) >= 4 and c.case_id.startswith(wanted.lower())]


async def read_case(log: Log, topics: Topics, case_id: str) -> list[JournalRecord]:
    """Return every readable record of a case and of its second looks, in log order, accepted or not; empty if none."""
    reader = JournalReader(log, topics.cases)
    folds = await reader.begin()
    tp = TopicPartition(topics.cases, partition_of(case_id, max(len(folds), 1)))
    records, wanted = list[JournalRecord](), with_looks(case_id, max(len(folds), 1))
    async for record, env, accepted in _judged(reader, {tp: folds[tp]} if folds else {}):
        if env.case_id not in wanted:
            continue
        if (read := readable_record(env, record, accepted=accepted)) is not None:
            records.append(read)
    return records


def readable_record(env: wire.Envelope, record: Any, *, accepted: bool) -> JournalRecord | None:
    """Return the record with its event; None if it does not decode.

    Raises:
        NewerSchemaError: an accepted record was written by a newer version.
    """
    try:
        event = wire.decode(env.type, env.version, record.value)
    except wire.NewerSchemaError:
        if accepted:
            raise
        return None  # any writer can claim a version; only an accepted record is a reason to stop
    except ContractError:
        return None  # a poison record: the dead letters hold it, and the end of the case names the reason
    return record_of(env, record, event, accepted=accepted)


def record_of(env: wire.Envelope, record: Any, event: Event, *, accepted: bool) -> JournalRecord:
    """Return the record of this event."""
    at = appended_at(record)
    return JournalRecord(offset=record.offset, appended_at=at, envelope=env, event=event, accepted=accepted)


async def read_cases(log: Log, topics: Topics) -> list[CountedCase]:
    """Return summaries of all cases, in the order in which their news was received."""
    cases, first = dict[str, CountedCase](), FirstCases()
    reader = JournalReader(log, topics.cases)
    async for record, env, accepted in _judged(reader, await reader.begin()):
        if not accepted:
            continue
        try:
            event = wire.decode(env.type, env.version, record.value)
        except wire.NewerSchemaError:
            raise
        except ContractError:
            continue
        if isinstance(event, EventReceived):
            cases[env.case_id] = CountedCase(case_id=env.case_id, received_at=env.time)
        if (row := cases.get(first.of(env, event))) is not None:
            row.take(env, event)
    return sorted(cases.values(), key=lambda c: c.received_at)


async def read_signals(log: Log, topics: Topics) -> list[tuple[Signal, dict[str, bytes]]]:
    """Return every committed revision of every signal with its headers, by append time."""
    revisions: list[tuple[int, Signal, dict[str, bytes]]] = []
    spans = await log.bounds(topics.signals, isolation="read_committed")
    async for _, records in log.replay(spans, isolation="read_committed"):
        for record in records:
            try:
                signal, _ = read_signal(record)
            except NewerSignalError:
                raise
            except ContractError:
                continue  # not a signal: the audit counts these
            revisions.append((record.timestamp, signal, dict(record.headers)))
    revisions.sort(key=lambda row: row[0])
    return [(signal, headers) for _, signal, headers in revisions]


async def _judged(
    reader: JournalReader, folds: dict[TopicPartition, JournalFold]
) -> AsyncIterator[tuple[Any, wire.Envelope, bool]]:
    async for tp, records in reader.replay(folds):
        for record in records:
            env, accepted = folds[tp].judge(record)
            if env is not None:
                yield record, env, accepted
