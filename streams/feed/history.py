"""Reads of the past, from the topics on request: pages of signals, and all records of one case."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from aiokafka import TopicPartition

from infra.kafka.topics import KafkaAddress, offsets_of, read_range
from schemas import envelope as wire
from schemas import events as ev
from schemas.envelope import read_signal
from schemas.errors import ContractError, TransientError
from schemas.news import with_looks
from schemas.signals import Signal
from schemas.topics import Topics, partition_of
from streams.feed.case_items import FeedFilter, facts_of
from streams.journal.case_reading import JournalRecord, readable_record, record_of
from streams.journal.fold import JournalFold

READ_AT_MOST = 20_000
"""Maximum number of records that one page of signals reads; a page that is not full by then says where to continue."""
_CHUNK, _LARGEST_CHUNK = 200, 4_000
SCAN_WITHIN_S = 20.0
_AT_ONCE = 4
_COMMITTED: dict[str, Any] = {"isolation_level": "read_committed"}


class SignalPage(msgspec.Struct, frozen=True):
    """Signals, newest first. ``next`` is the cursor of the next page; None at the end."""

    items: list[Signal]
    next: str | None


class _Reach(msgspec.Struct):
    """State of one partition, read backwards: signals not used yet (newest last), and the offsets before them."""

    first: int
    end: int
    held: list[tuple[float, int, Signal]]
    chunk: int = _CHUNK


class SignalHistory:
    """Pages of ``signals``, newest first. The cursor of a page holds an offset per partition."""

    def __init__(self, address: KafkaAddress, topics: Topics) -> None:
        self._address, self._topic = address, topics.signals
        self._places = asyncio.Semaphore(_AT_ONCE)

    async def page(
        self, wanted: FeedFilter, *, limit: int, before: str | None, newest: Mapping[str, int]
    ) -> SignalPage:
        """Return one page. ``newest``: known newest revision per signal; older revisions are left out.

        Raises:
            ContractError: ``before`` is not a cursor of a page.
        """
        async with self._places:
            bounds = await offsets_of(self._address, self._topic, **_COMMITTED)
            ends = _read_before(before, len(bounds))
            reach = {
                tp: _Reach(first, end if ends is None else max(first, min(end, ends[tp.partition])), [])
                for tp, (first, end) in bounds.items()
            }
            items: list[Signal] = []
            seen: dict[str, int] = {}
            looked = 0
            while len(items) < limit and looked < READ_AT_MOST:
                looked += await self._fill(reach)
                newest_of = max(
                    (tp for tp in reach if reach[tp].held), key=lambda tp: reach[tp].held[-1][:2], default=None
                )
                if newest_of is None:
                    break
                _, offset, signal = reach[newest_of].held.pop()
                reach[newest_of].end = offset
                if seen.get(signal.signal_id, newest.get(signal.signal_id, 0)) > signal.revision:
                    continue
                seen[signal.signal_id] = signal.revision
                if wanted.fits(facts_of(signal)):
                    items.append(signal)
        more = any(part.end > part.first for part in reach.values())
        return SignalPage(items, _written(reach) if more else None)

    async def _fill(self, reach: dict[TopicPartition, _Reach]) -> int:
        """Read earlier records of every partition that has none left; return how many there were."""
        looked = 0
        while empty := {tp: part for tp, part in reach.items() if not part.held and part.end > part.first}:
            spans = {tp: (max(part.first, part.end - part.chunk), part.end) for tp, part in empty.items()}
            async for tp, records in read_range(self._address, spans, **_COMMITTED):
                looked += len(records)
                for record in records:
                    try:
                        signal, _ = read_signal(record)
                    except ContractError:
                        continue  # not a signal: the audit counts these
                    reach[tp].held.append((record.timestamp, record.offset, signal))
            for tp, part in empty.items():
                part.chunk = min(part.chunk * 2, _LARGEST_CHUNK)
                if not part.held:
                    part.end = spans[tp][0]
            if looked >= READ_AT_MOST:
                break
        return looked


def _written(reach: Mapping[TopicPartition, _Reach]) -> str:
    return ".".join(str(reach[tp].end) for tp in sorted(reach, key=lambda tp: tp.partition))


def _read_before(text: str | None, partitions: int) -> list[int] | None:
    if text is None:
        return None
    parts = text.split(".")
    if len(parts) != partitions or not all(p.isascii() and p.isdigit() and len(p) <= 19 for p in parts):
        raise ContractError(
            "`before` does not belong to this list: take it from `next` of the previous page", reason="bad_page"
        )
    return [int(p) for p in parts]


class CaseRecords:
    """Reads all records of one case. ``judge`` is the acceptance rule, applied to this case's records alone."""

    def __init__(self, address: KafkaAddress, topic: str) -> None:
        self._address, self._topic = address, topic
        self._places = asyncio.Semaphore(_AT_ONCE)

    async def read(
        self,
        case_id: str,
        *,
        first: int = 0,
        through: int | None = None,
        newest: int | None = None,
        read: Callable[[wire.Envelope, Any], ev.CaseEvent | None] | None = None,
    ) -> list[JournalRecord]:
        """Return its readable records between two offsets in log order, accepted or not; empty if there are none.

        Those of second looks at it are among them.

        ``newest`` limits the read to this many offsets before the end. ``read`` decodes accepted records; None leaves
        one out.

        Raises:
            TransientError: the range is too long to be read now.
            NewerSchemaError: an accepted record was written by newer code.
        """
        bounds = await offsets_of(self._address, self._topic)
        tp = TopicPartition(self._topic, partition_of(case_id, max(len(bounds), 1)))
        if tp not in bounds:
            return []
        start = max(first, bounds[tp][0], 0 if newest is None else bounds[tp][1] - newest)
        end = bounds[tp][1] if through is None else min(through + 1, bounds[tp][1])
        journal: list[JournalRecord] = []
        subjects = {id.encode() for id in with_looks(case_id, len(bounds))}
        part = JournalFold(start, partitions=len(bounds))
        try:
            async with asyncio.timeout(SCAN_WITHIN_S), self._places:
                async for _, records in read_range(self._address, {tp: (start, end)}):
                    for record in records:
                        if dict(record.headers).get("ce_subject") in subjects:
                            _keep(part, record, journal, read)
        except TimeoutError as exc:
            raise TransientError(
                "the case was not found in the log in time: try again when ClickHouse is back, which knows its position",
                kind="timeout",
            ) from exc
        return journal


def _keep(part: JournalFold, record: Any, journal: list[JournalRecord], read: Any) -> None:
    env, accepted = part.judge(record)
    if env is None:
        return
    if accepted and read is not None:
        event = read(env, record)
        kept = None if event is None else record_of(env, record, event, accepted=True)
    else:
        kept = readable_record(env, record, accepted=accepted)
    if kept is not None:
        journal.append(kept)
