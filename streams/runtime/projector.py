"""The projector: journal → fold → route. It never waits between taking a record and folding it.

On assignment the tombstones of the 50,000 offsets before the watermark are read in bulk; Faust's stream delivers
everything from the watermark on. A record that arrives before its partition is loaded is queued in order. An offset gap
is never skipped: a plain consumer reads the missing records before later ones are folded.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import structlog
from aiokafka import TopicPartition
from msgspec.structs import replace

from agents.core.case_core import CaseCore
from agents.core.flow import Flow
from infra.kafka.topics import KafkaAddress, committed_by
from schemas import envelope as wire
from schemas.envelope import NewerSchemaError
from schemas.errors import ConfigError, ContractError
from schemas.events import EFFECT_NAME, OPENINGS, TERMINAL_NAMES, Event
from streams.effects.spending import Budget
from streams.ending import Ending
from streams.journal.acceptance import AcceptedEvents
from streams.journal.appender import OwnRecord
from streams.journal.configs import ConfigStore
from streams.journal.fold import parse_record
from streams.journal.log import KafkaLog, record_ends
from streams.journal.retry import retry_while_unavailable
from streams.journal.tombstones import Tombstones
from streams.runtime.partition import NEVER, Listener, Partition, Partitions, QuarantinedCase, Record

log = structlog.get_logger(__name__)

MAX_AHEAD = 1_000
"""Maximum number of own records kept per partition until the fold reaches them; the consumer delivers any beyond."""


class PendingConfigs:
    """Cases that wait for the snapshot that they pin, by its hash, with the start of each wait."""

    def __init__(self) -> None:
        self._waiting: dict[str, dict[tuple[int, str], float]] = {}

    def add(self, config_hash: str, partition: int, case_id: str) -> None:
        """Add a waiting case."""
        since = asyncio.get_running_loop().time()
        self._waiting.setdefault(config_hash, {})[partition, case_id] = since

    def arrived(self, config_hash: str) -> list[tuple[int, str]]:
        """Remove and return (partition, case id) of the cases that waited for this snapshot."""
        return list(self._waiting.pop(config_hash, {}))

    def older_than(self, seconds: float, is_live: Mapping[int, bool]) -> list[tuple[int, str]]:
        """Remove and return the cases that have waited for longer, on live partitions only."""
        before = asyncio.get_running_loop().time() - seconds
        cases: list[tuple[int, str]] = []
        for config_hash, waiting in list(self._waiting.items()):
            due = [key for key, since in waiting.items() if since < before and is_live.get(key[0], True)]
            for key in due:
                del waiting[key]
            cases += due
            if not waiting:
                del self._waiting[config_hash]
        return cases


class Projector:
    """The state of all assigned journal partitions, folded from the log alone."""

    def __init__(
        self,
        address: KafkaAddress,
        topic: str,
        group: str,
        flow: Flow,
        configs: ConfigStore,
        listener: Listener,
        partitions: Partitions,
        tombstones: Tombstones,
        budget: Budget,
        ending: Ending,
        skip_to: Callable[[int, int], None] = lambda _partition, _offset: None,
    ) -> None:
        """``skip_to`` (partition, offset) tells the stream that it need not deliver records before the offset."""
        self.topic = topic
        self._flow = flow
        self._address, self._log = address, KafkaLog(address)
        self._group = group
        self._configs = configs
        self._listener = listener
        self.partitions, self.tombstones = partitions, tombstones
        self._budget, self._ending, self._skip_to = budget, ending, skip_to
        self._turn = object()
        self._loading: asyncio.Task[None] | None = None
        self._fills: set[asyncio.Task[None]] = set()
        self._count: int | None = None
        self._unpinned = PendingConfigs()
        configs.subscribe(self._on_config)
        self.folded = 0

    @property
    def open_cases(self) -> int:
        """Number of open cases of this worker."""
        return sum(len(p.cases) for p in self.partitions.values())

    def safe_offset(self, partition: int) -> int | None:
        """Return the watermark once the partition is loaded; None before."""
        p = self.partitions.get(partition)
        return p.accepted.watermark if p is not None and p.loaded else None

    def revoke(self) -> None:
        """Stop being live until the next assignment. States are kept, because most partitions return."""
        self._halt()
        for p in self.partitions.values():
            p.live, p.end = False, NEVER
            p.ahead.clear()

    def assign(self, numbers: set[int], when_flowing: Callable[[], Any]) -> list[int]:
        """Take these partitions, start loading, and return the lost ones. ``when_flowing`` waits for the stream."""
        gone = {n: self.partitions.pop(n) for n in list(self.partitions) if n not in numbers}
        for number in (n for n, p in gone.items() if p.loaded):
            self.tombstones.keep(TopicPartition(self.topic, number), gone[number].accepted)
        for p in (self.partitions.setdefault(number, Partition()) for number in numbers):
            p.live = False
            p.waiting = p.waiting if p.waiting is not None else deque()
        self._halt()
        self._loading = asyncio.create_task(self._load(sorted(numbers), when_flowing), name="load-journal")
        return list(gone)

    def on_record(self, record: Record) -> None:
        """Take the next record of a partition from the stream."""
        p = self.partitions.get(record.partition)
        if p is None:
            return
        if p.waiting is not None:
            p.waiting.append(record)
        elif record.offset > p.accepted.position:
            self._fill_gap(p, record)
        elif record.offset == p.accepted.position:
            self._fold(record.partition, p, record)
            if p.ahead:
                self._fold_ahead(record.partition, p)
            if not p.live:
                self._go_live(record.partition, p)

    @property
    def turn(self) -> object:
        """The value with which :meth:`on_appended` must be called. It changes at each rebalance."""
        return self._turn

    def on_appended(self, turn: object, record: OwnRecord) -> None:
        """Fold a durable record of this process at once, without waiting for the stream, if it is the next one.

        The log holds this record at that offset, so folding it equals folding the stream's copy, which is then ignored.
        If earlier records have not arrived, it waits for them. Before its partition is live, the stream delivers it.
        ``turn``: the :attr:`turn` when it was sent; after a rebalance, only the stream's records are folded until the
        partition is live.
        """
        p = self.partitions.get(record.partition)
        if p is None or not p.live or p.waiting is not None or turn is not self._turn:
            return
        if record.offset == p.accepted.position:
            try:
                self._fold(record.partition, p, record)
                self._fold_ahead(record.partition, p)
            except Exception as exc:
                self._ending.fail(exc)
            self._skip_to(record.partition, p.accepted.position)
        elif record.offset > p.accepted.position and len(p.ahead) < MAX_AHEAD:
            p.ahead[record.offset] = record

    async def is_at_the_end(self, number: int) -> bool:
        """Return whether only foreign transaction markers are between the fold and the end; if so, skip them."""
        p, tp = self.partitions[number], TopicPartition(self.topic, number)
        span = p.accepted.position, (await self._log.bounds(self.topic))[tp][1]
        at_the_end = (await record_ends(self._log, {tp: span}))[tp] <= span[0]
        p.accepted.position = max(p.accepted.position, span[1]) if at_the_end else p.accepted.position
        return at_the_end

    def without_configuration(self, longer_than_s: float) -> list[CaseCore]:
        """Return the live cases whose snapshot has not arrived for this long, each of them once."""
        parts = self.partitions
        waiting = self._unpinned.older_than(longer_than_s, {n: p.live for n, p in parts.items()})
        cases = (parts[n].cases.get(case_id) for n, case_id in waiting if n in parts)
        return [case for case in cases if case is not None and case.pinned is None]

    async def keep_tombstones(self) -> None:
        """Save the tombstones of all loaded partitions to disk for the next start."""
        loaded = {TopicPartition(self.topic, n): p.accepted for n, p in self.partitions.items() if p.loaded}
        await self.tombstones.store(loaded)

    async def stop(self) -> None:
        self._halt()
        await self.keep_tombstones()
        await self.tombstones.close()

    def _halt(self) -> None:
        # A flag in addition to the cancellation, which a client that is closing a connection can lose.
        self._turn = object()
        for task in (*self._fills, *filter(None, [self._loading])):  # neither may outlive its partitions
            task.cancel()

    async def _load(self, numbers: list[int], when_flowing: Callable[[], Any]) -> None:
        turn = self._turn
        try:
            await retry_while_unavailable(lambda: self._load_all(numbers, turn), self.topic)
            await when_flowing()
            for number in numbers if turn is self._turn else ():
                p = self.partitions[number]
                self._drain(number, p)
                self._go_live(number, p)
        except Exception as exc:  # not CancelledError
            self._ending.fail(exc)

    async def _load_all(self, numbers: list[int], turn: object) -> None:
        bounds = await self._log.bounds(self.topic)
        committed = await committed_by(self._address, self._group)
        known = {tp: commit.offset for tp, commit in committed.items()}
        for tp in (TopicPartition(self.topic, number) for number in numbers):
            if turn is self._turn:
                await self._load_one(tp, *bounds[tp], known.get(tp), partitions=len(bounds), turn=turn)

    async def _load_one(
        self, tp: TopicPartition, first: int, end: int, committed: int | None, *, partitions: int, turn: object
    ) -> None:
        number = tp.partition
        p = self.partitions[number]
        start = first if committed is None else committed
        if first > (committed or 0):
            raise ConfigError(
                f"the log of {self.topic}-{number} starts at {first}, behind this group's committed offset "
                f"{committed or 0}: cases that were open are gone. Restore the log, or reset the group {self._group} "
                "knowingly"
            )
        last = (await record_ends(self._log, {tp: (max(first, start), end)}))[tp]
        if turn is not self._turn:
            return
        p.end, self._count = last, partitions
        if p.loaded and start <= p.accepted.position:
            return  # the fold so far is a prefix of the log: continue from there
        p.cases.clear()
        p.quarantined.clear()
        p.accepted = AcceptedEvents(start)
        p.loaded = False
        await self.tombstones.load({tp: p.accepted}, {tp: first}, partitions=partitions)
        if turn is self._turn:
            p.loaded = True

    def _drain(self, number: int, p: Partition) -> None:
        waiting, p.waiting = p.waiting or deque(), None
        while waiting:
            record = waiting.popleft()
            if record.offset > p.accepted.position:
                self._fill_gap(p, record, waiting)
                return
            self._fold(number, p, record)

    def _fill_gap(self, p: Partition, record: Record, behind: deque[Record] | None = None) -> None:
        number, first = record.partition, p.accepted.position
        p.waiting = deque([record, *(behind or ())])
        log.warning("a gap in the stream is read again", partition=number, first=first, next=record.offset)

        turn = self._turn

        async def fill() -> None:
            try:
                span = {TopicPartition(self.topic, number): (first, record.offset)}
                async for _, records in self._log.replay(span):
                    for missed in records if turn is self._turn else ():
                        self._fold(number, p, missed)
                if turn is not self._turn:
                    return
                # The broker has no records there, so none are missing.
                p.accepted.position = max(p.accepted.position, record.offset)
                self._drain(number, p)
                self._go_live(number, p)
            except Exception as exc:
                self._ending.fail(exc)

        task = asyncio.create_task(fill(), name=f"gap-{number}")
        self._fills.add(task)
        task.add_done_callback(self._fills.discard)

    def _go_live(self, number: int, p: Partition) -> None:
        """Make the partition live if the fold has reached the end that was read at its assignment."""
        if p.live or p.waiting is not None or p.accepted.position < p.end:
            return
        p.live = True
        for q in p.quarantined.values():  # cases that the log has not closed yet
            self._listener.on_poison(q.record, q.stub, q.reason, q.why)
        self._listener.on_live(number)

    # Folding

    def _fold_ahead(self, number: int, p: Partition) -> None:
        ahead = p.ahead
        while ahead:
            if (record := ahead.pop(p.accepted.position, None)) is not None:
                self._fold(number, p, record)
                continue
            if len(ahead) == MAX_AHEAD or next(iter(ahead)) < p.accepted.position:  # the stream was faster
                for offset in [o for o in ahead if o < p.accepted.position]:
                    del ahead[offset]
            return

    def _fold(self, number: int, p: Partition, record: Record) -> None:
        try:
            env = parse_record(record, self._count)
        except ContractError as exc:
            if record.offset >= p.accepted.position:
                p.accepted.position = record.offset + 1
                self._listener.on_poison(record, None, exc.reason, str(exc))
            return
        if not p.accepted.offer(record.offset, env.type, env.case_id, env.id, env.causation_id):
            return
        self.folded += 1
        if env.case_id in p.quarantined:
            return self._still_quarantined(number, p, env, record)
        try:
            event = wire.decode(env.type, env.version, record.value)
            opens = isinstance(event, OPENINGS)
            case = self._opened(number, env, event) if opens else self._flow.folded(p.cases[env.case_id], event, env)
        except NewerSchemaError as exc:
            return self._ending.fail(exc)
        except Exception as exc:  # whatever the error, quarantine this case and not the partition
            if not isinstance(exc, ContractError):
                log.exception("an event cannot be folded", case=env.case_id, type=env.type)
            self._quarantine(number, p, env, record, exc)
            return
        if not p.live and event.calls:
            self._budget.on_calls(event.calls)
        if case.closed:
            p.cases.pop(env.case_id, None)
            self._listener.on_closed(number, case)
            return
        p.cases[env.case_id] = case
        try:
            self._listener.on_folded(number, case)
        except Exception as exc:
            log.exception("a case cannot be dispatched", case=env.case_id, type=env.type)
            self._quarantine(number, p, env, record, exc)

    def _opened(self, number: int, env: wire.Envelope, event: Event) -> CaseCore:
        case = self._flow.opened(event, env)
        if (config := self._configs.get(case.config_hash)) is None:
            self._unpinned.add(case.config_hash, number, env.case_id)
            return case
        return replace(case, pinned=config)

    def _quarantine(self, number: int, p: Partition, env: wire.Envelope, record: Record, exc: Exception) -> None:
        # The record moved the head (the rule reads headers only), so a regular event can close the case there.
        before = p.cases.pop(env.case_id, None) or self._flow.unreadable(env)
        reason, why = (exc.reason, str(exc)) if isinstance(exc, ContractError) else ("bad_event", repr(exc))
        if env.type in TERMINAL_NAMES:
            self._listener.on_poison(record, None, reason, why)  # the event closed the case, although it is unreadable
            self._listener.on_closed(number, before)
            return
        stub = before if env.type == EFFECT_NAME else replace(before, head_id=env.id, head_at=env.time)
        p.quarantined[env.case_id] = QuarantinedCase(stub, record, reason, why)
        if p.live:
            self._listener.on_poison(record, stub, reason, why)

    def _still_quarantined(self, number: int, p: Partition, env: wire.Envelope, record: Record) -> None:
        q = p.quarantined.pop(env.case_id)
        if env.type in TERMINAL_NAMES:
            self._listener.on_closed(number, q.stub)
            return
        stub = q.stub if env.type == EFFECT_NAME else replace(q.stub, head_id=env.id, head_at=env.time)
        p.quarantined[env.case_id] = q._replace(stub=stub)
        if p.live and stub is not q.stub:  # the case's end was appended at a head that has moved on
            self._listener.on_poison(record, stub, q.reason, q.why)

    def _on_config(self, config_hash: str) -> None:
        config = self._configs.get(config_hash)
        for number, case_id in self._unpinned.arrived(config_hash):
            if (p := self.partitions.get(number)) is None or (case := p.cases.get(case_id)) is None or config is None:
                continue
            p.cases[case_id] = pinned = replace(case, pinned=config)
            try:
                if p.live:
                    self._listener.on_folded(number, pinned)
            except Exception:
                log.exception("a case cannot continue with its configuration", case=case_id)
                p.cases[case_id] = case
                self._unpinned.add(config_hash, number, case_id)
