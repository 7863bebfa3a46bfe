"""Turns of research chats, and investigations: an index of their offsets, and their records as they come, for any number of readers."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import msgspec
import structlog
from aiokafka import TopicPartition

from infra.kafka.topics import KafkaAddress, committed_by, offsets_of
from schemas import envelope as wire
from schemas import events as ev
from schemas.config import Snapshot
from schemas.errors import ContractError, TransientError
from schemas.research_events import InvestigationAsked, QuestionAsked
from schemas.topics import Topics, partition_of
from streams.feed.follower import Follower
from streams.feed.history import CaseRecords
from streams.feed.investigation_events import InvestigationEventConverter
from streams.feed.sse import HEARTBEAT_S, RETRY_MS, Lagging, frame, heartbeat
from streams.feed.turn_events import TurnEventConverter, state_of
from streams.journal.case_reading import JournalRecord, record_of
from streams.journal.fold import JournalFold
from streams.journal.log import Bounds, KafkaLog
from streams.journal.reader import JournalReader

log = structlog.get_logger(__name__)

ConfigOf = Callable[[str], Snapshot | None]
"""Hash → the snapshot that a turn pins."""
RECENT_RECORDS = 1_000
"""Records per partition read at startup: turns in them are listed, and found without a search of the log."""
KNOWN_TURNS = 5_000
MESSAGE_CHARS = 280
SEEN_WITHIN_S = 10.0
CONFIG_WITHIN_S = 20


WAITING = 256
"""Records of one turn that may wait for one reader; a turn has some dozens."""


class TurnReader:
    """The records that wait for one reader of a turn: a bounded queue."""

    def __init__(self) -> None:
        self._waiting: asyncio.Queue[JournalRecord] = asyncio.Queue(WAITING)
        self._dropped = False

    def put(self, record: JournalRecord) -> None:
        """Queue a record; if the queue is full, drop it and mark the reader as lagging."""
        if self._waiting.full():
            self._dropped = True
        else:
            self._waiting.put_nowait(record)

    async def next(self) -> JournalRecord | None:
        """Return the next record; None on timeout.

        Raises:
            Lagging: records were dropped.
        """
        try:
            async with asyncio.timeout(HEARTBEAT_S):
                record = await self._waiting.get()
        except TimeoutError:
            return None
        if self._dropped:
            raise Lagging
        return record


class TurnItem(msgspec.Struct, kw_only=True):
    """One turn of a list, or one investigation. ``state``: running, answered (finished), stopped or failed.

    ``met``: wire names of its accepted events. ``subject`` and ``as_of`` are those of an investigation, ``watch`` the watch
    that asked for it; a turn has none. Offsets are of its partition.
    """

    chat_id: str
    conversation: str
    message: str
    asked_at: datetime
    state: str = "running"
    previous: str | None = None
    language: str = ""
    config_hash: str = ""
    first_offset: int = 0
    last_offset: int | None = None
    partition: int = 0
    met: set[str] = msgspec.field(default_factory=set)
    subject: str | None = None
    as_of: datetime | None = None
    watch: str | None = None

    def meet(self, kind: type[ev.Event]) -> None:
        """Add an event type to the turn's accepted events."""
        self.met.add(ev.WIRE_NAMES[kind])

    def has_met(self, *kinds: type[ev.Event]) -> bool:
        """Whether the turn has an accepted event of one of these types, as far as this process has read."""
        return any(ev.WIRE_NAMES[kind] in self.met for kind in kinds)


class TurnFeed:
    """Follows ``research`` by the acceptance rule. One per process; every stream of a turn reads from it."""

    def __init__(self, address: KafkaAddress, topics: Topics, config_of: ConfigOf, *, group: str) -> None:
        self._address, self._topic, self._group, self._config_of = address, topics.research, group, config_of
        self._records = CaseRecords(address, topics.research)
        self._turns: OrderedDict[str, TurnItem] = OrderedDict()
        log = KafkaLog(address, client_id="newsproof-web")
        self._reader = JournalReader(log, topics.research)
        self._parts: dict[TopicPartition, JournalFold] = {}
        self._watching: dict[str, set[TurnReader]] = {}
        self._moved = asyncio.Event()
        self._looking = asyncio.Semaphore(2)
        self.follower = Follower(log, topics.research, start=self._start, take=self._take, isolation="read_uncommitted")

    async def run(self) -> None:
        """Follow until cancelled."""
        await self.follower.run()

    # The index

    def recent(self, limit: int, *, conversation: str | None = None) -> list[TurnItem]:
        """Return the turns that this process knows, of one conversation or of all, newest question first."""
        turns = (turn for turn in self._turns.values() if turn.subject is None)
        known = [turn for turn in turns if conversation in (None, turn.conversation)]
        return sorted(known, key=lambda turn: turn.asked_at, reverse=True)[:limit]

    def investigations(self, limit: int) -> list[TurnItem]:
        """Return the investigations that this process knows, newest first."""
        known = [turn for turn in self._turns.values() if turn.subject is not None]
        return sorted(known, key=lambda turn: turn.asked_at, reverse=True)[:limit]

    def known(self, chat_id: str) -> TurnItem | None:
        return self._turns.get(chat_id)

    async def find(self, chat_id: str) -> TurnItem | None:
        """Return a turn wherever it is in the log; None if there is none.

        Raises:
            TransientError: Kafka is unavailable, or the log is too long to be searched now.
        """
        if (turn := self._turns.get(chat_id)) is not None:
            return turn
        bounds = await offsets_of(self._address, self._topic)
        tp = TopicPartition(self._topic, partition_of(chat_id, max(len(bounds), 1)))
        if tp not in bounds:
            return None
        await self._read_through(tp, bounds[tp][1])
        if (turn := self._turns.get(chat_id)) is not None:
            return turn
        async with self._looking:  # an old one: search its partition by headers
            records = await self._records.read(chat_id, read=_event_of)
        opening = next((r for r in records if r.accepted and isinstance(r.event, _OPENINGS)), None)
        if opening is None:
            return None
        turn = _turn_of(opening, tp.partition)
        newest = next(r for r in reversed(records) if r.accepted)
        turn.state = state_of(newest.event)
        turn.last_offset = newest.offset if turn.state != "running" else None
        turn.met |= {r.envelope.type for r in records if r.accepted}
        return self._keep(turn)

    async def _read_through(self, tp: TopicPartition, end: int) -> None:
        try:
            async with asyncio.timeout(SEEN_WITHIN_S):
                while self.follower.positions.get(tp, -1) < end:
                    await self._moved.wait()
        except TimeoutError as exc:
            if self.follower.away or not self.follower.ready.is_set():
                raise TransientError(
                    "the newest part of the log has not been read here yet: try again in a moment", kind="timeout"
                ) from exc
            # Otherwise the end of the log is no record but markers of a foreign transaction.

    def _keep(self, turn: TurnItem) -> TurnItem:
        self._turns[turn.chat_id] = turn
        while len(self._turns) > KNOWN_TURNS:
            self._turns.popitem(last=False)
        return turn

    # Following

    async def _start(self, bounds: Bounds) -> dict[TopicPartition, int]:
        # Without the workers' watermark no process would show a turn that is open for long, so retry instead.
        known = await committed_by(self._address, self._group)
        starts = {}
        for tp, (first, end) in bounds.items():
            oldest_open = min(known[tp].offset, end) if tp in known else end
            starts[tp] = max(first, min(oldest_open, end - RECENT_RECORDS))
        self._parts = await self._reader.begin(starts)
        return starts

    def _take(self, tp: TopicPartition, records: Sequence[Any]) -> None:
        for env, record in self._parts[tp].accept(records):
            watching = self._watching.get(env.case_id)
            if (known := self._turns.get(env.case_id)) is not None:
                known.met.add(env.type)
            if not watching and env.type not in _INDEXED:
                continue
            if (read := _read(env, record)) is None:
                continue
            if isinstance(read.event, _OPENINGS):
                self._keep(_turn_of(read, tp.partition))
            elif isinstance(read.event, ev.TERMINAL) and (turn := self._turns.get(env.case_id)) is not None:
                turn.state, turn.last_offset = state_of(read.event), record.offset
            for reader in watching or ():
                reader.put(read)
        moved, self._moved = self._moved, asyncio.Event()
        asyncio.get_running_loop().call_soon(moved.set)  # after the follower has updated its positions

    @contextmanager
    def _watched(self, chat_id: str) -> Iterator[TurnReader]:
        reader = TurnReader()
        self._watching.setdefault(chat_id, set()).add(reader)
        try:
            yield reader
        finally:
            self._watching[chat_id].discard(reader)
            if not self._watching[chat_id]:
                del self._watching[chat_id]

    # Reading one turn

    async def records(self, turn: TurnItem) -> AsyncIterator[JournalRecord | None]:
        """Yield the accepted records of a turn from its first on; None while there are none. Stops after the last one.

        Raises:
            Lagging: the reader is so slow that records were dropped.
        """
        tp = TopicPartition(self._topic, turn.partition)
        with self._watched(turn.chat_id) as reader:
            here = self._position(tp)
            if here > turn.first_offset:
                for record in await self._records.read(
                    turn.chat_id, first=turn.first_offset, through=here - 1, read=_event_of
                ):
                    if record.accepted:
                        yield record
                        if isinstance(record.event, ev.TERMINAL):
                            return
            while True:
                newer = await reader.next()
                if newer is None or newer.offset >= here:
                    yield newer
                if newer is not None and isinstance(newer.event, ev.TERMINAL):
                    return

    def _position(self, tp: TopicPartition) -> int:
        """Return the next offset to judge: watching readers receive every accepted record from there on."""
        part = self._parts.get(tp)
        return 0 if part is None else part.accepted.position

    async def events(
        self, turn: TurnItem, *, after: int | None, candles: bool = False, compat: bool = False
    ) -> AsyncIterator[bytes]:
        """Yield the SSE events of a turn, from the start or after a record.

        Its price bars are there only if ``candles``, the documented front end's fields only if ``compat``.
        The last event of each record carries its offset.
        """
        yield b"retry: %d\n: connected\n\n" % RETRY_MS
        for _ in range(CONFIG_WITHIN_S):  # a process that has just started is still reading it
            if (config := self._config_of(turn.config_hash)) is not None:
                break
            await asyncio.sleep(1)
            yield heartbeat()
        of_chat = turn.subject is None
        teller = (
            TurnEventConverter(config, candles=candles, compat=compat) if of_chat else InvestigationEventConverter()
        )
        async for record in self.records(turn):
            if record is None:
                yield heartbeat()
                continue
            try:
                events = teller.take(record.envelope, record.event)
            except Exception as exc:  # the stream continues to its end, whatever a record holds
                log.warning(
                    "event skipped: it could not be sent", topic=self._topic, offset=record.offset, why=repr(exc)[:500]
                )
                continue
            if events and (after is None or record.offset > after):
                yield b"".join(_frames(events, record.offset))


_OPENINGS = (QuestionAsked, InvestigationAsked)
_INDEXED = ev.OPENING_NAMES | ev.TERMINAL_NAMES
_encode = msgspec.json.Encoder(enc_hook=str, decimal_format="number").encode


def _frames(events: list[tuple[str, dict[str, Any]]], offset: int) -> Iterator[bytes]:
    for number, (name, data) in enumerate(events, start=1):
        body = _encode({"type": name, "data": data})
        yield frame(name, body, id=str(offset) if number == len(events) else None)


def _event_of(env: wire.Envelope, record: Any) -> ev.CaseEvent | None:
    """Decode an accepted record; an unreadable end becomes a readable one, because its readers wait for it."""
    try:
        return wire.decode(env.type, env.version, record.value)
    except ContractError as exc:
        log.warning("not shown", topic=record.topic, offset=record.offset, why=str(exc))
    if env.type not in ev.TERMINAL_NAMES:
        return None
    words = "its end cannot be read by this version of Newsproof: update the web service, or ask again"
    return ev.CaseFailed(reason=words, failed_step="", attempts=0)


def _read(env: wire.Envelope, record: Any) -> JournalRecord | None:
    event = _event_of(env, record)
    return None if event is None else record_of(env, record, event, accepted=True)


def _turn_of(record: JournalRecord, partition: int) -> TurnItem:
    asked: QuestionAsked | InvestigationAsked = record.event  # type: ignore[assignment]
    if isinstance(asked, InvestigationAsked):
        return investigation_item(record.envelope.case_id, asked, record.envelope.time, record.offset, partition)
    return TurnItem(
        chat_id=record.envelope.case_id,
        conversation=asked.chat_id,
        message=asked.message[:MESSAGE_CHARS],
        asked_at=record.envelope.time,
        previous=asked.previous,
        language=asked.language,
        config_hash=asked.config_hash,
        first_offset=record.offset,
        partition=partition,
    )


def investigation_item(case_id: str, asked: InvestigationAsked, at: datetime, offset: int, partition: int) -> TurnItem:
    """Return the item of an investigation whose opening stands at this offset."""
    return TurnItem(
        chat_id=case_id,
        conversation="",
        message=asked.question[:MESSAGE_CHARS],
        asked_at=at,
        language=asked.language,
        config_hash=asked.config_hash,
        first_offset=offset,
        partition=partition,
        subject=asked.subject,
        as_of=asked.as_of,
        watch=asked.watch,
    )
