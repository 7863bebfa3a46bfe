"""The live view: signals as subscribers receive them and the progress of cases, in a window that streams read from.

The journal is folded by the acceptance rule (:class:`streams.journal.acceptance.AcceptedEvents`), by headers; only records of
cases that may still be shown are decoded. A start reads only the range that the rule needs, never the whole log.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import structlog
from aiokafka import TopicPartition

from infra.kafka.topics import KafkaAddress, committed_by
from schemas import envelope as wire
from schemas.envelope import read_signal
from schemas.errors import ContractError
from schemas.events import COMMANDS, TERMINAL_NAMES, EventReceived
from schemas.topics import Topics
from streams.feed.case_items import Facts, FeedCase, facts_of
from streams.feed.follower import Follower
from streams.feed.window import Item, Window
from streams.journal.case_reading import FirstCases
from streams.journal.fold import JournalFold
from streams.journal.log import Bounds, KafkaLog
from streams.journal.reader import JournalReader

log = structlog.get_logger(__name__)

DescribeProgress = Callable[[FeedCase, wire.Envelope, Any], dict[str, Any]]
"""Builds the ``data`` of the ``case`` event for one accepted event of the journal."""
RECENT_RECORDS = 2_000
"""Records per partition read at startup: this much of the past can be shown or resumed from."""
RECENT_CASES = 20_000
FARTHEST = 500_000
"""Maximum number of offsets per partition read at startup, for a case that has been open for long."""
_REMEMBERED_SIGNALS = 100_000
_FACTS = 8


class LiveFeed:
    """Two followers and one window. No consumer group, so any number of web processes show the same."""

    def __init__(self, address: KafkaAddress, topics: Topics, *, describe: DescribeProgress) -> None:
        self._address, self._topics, self._describe = address, topics, describe
        self.window = Window()
        self.cases: OrderedDict[str, FeedCase] = OrderedDict()
        self._offsets: dict[str, tuple[int, int | None]] = {}
        self.newest: OrderedDict[str, int] = OrderedDict()
        self._shown_by: dict[str, tuple[Facts, ...]] = {}
        self.ignored = 0
        log = KafkaLog(address, client_id="newsproof-web")
        self._reader = JournalReader(log, topics.cases)
        self._first = FirstCases()
        self._parts: dict[TopicPartition, JournalFold] = {}
        self._shown_from: dict[TopicPartition, int] = {}
        self.signals = Follower(
            log, topics.signals, start=self._start_signals, take=self._take_signals, isolation="read_committed"
        )
        self.journal = Follower(
            log, topics.cases, start=self._start_cases, take=self._take_cases, isolation="read_uncommitted"
        )

    @property
    def ready(self) -> bool:
        """Whether both followers have reached the end that the topics had at the start."""
        return self.signals.ready.is_set() and self.journal.ready.is_set()

    @property
    def away(self) -> bool:
        """Whether Kafka is unavailable now."""
        return self.signals.away or self.journal.away

    async def run(self) -> None:
        """Follow until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.signals.run(), name="live signals")
            group.create_task(self.journal.run(), name="live cases")

    async def until_ready(self, within_s: float) -> bool:
        """Wait until :attr:`ready`; False on timeout, after ``within_s``."""
        try:
            async with asyncio.timeout(within_s):
                await self.signals.ready.wait()
                await self.journal.ready.wait()
        except TimeoutError:
            return False
        return True

    def open_cases(self) -> list[FeedCase]:
        """Return the cases that are open now, as far as this process knows."""
        return [case for case in self.recent_cases() if case.status == "open"]

    def recent_cases(self) -> list[FeedCase]:
        """Return the cases that this process holds, in the order in which it read them."""
        return [case for case in self.cases.values() if case.is_whole]

    def offsets_of(self, case_id: str) -> tuple[int, int | None] | None:
        """Return (first offset, last offset if the case has ended) of a case that this process holds, else None."""
        return self._offsets.get(case_id)

    # Signals

    async def _start_signals(self, bounds: Bounds) -> dict[TopicPartition, int]:
        starts = {tp: max(first, end - RECENT_RECORDS) for tp, (first, end) in bounds.items()}
        self.window.start("signal", starts)
        return starts

    def _take_signals(self, tp: TopicPartition, records: Sequence[Any]) -> None:
        items = []
        for record in records:
            try:
                signal, _ = read_signal(record)
            except ContractError as exc:
                self._pass_by(record, exc)
                continue
            if self.newest.get(signal.signal_id, 0) >= signal.revision:
                continue  # a late repetition of an older one
            self.newest[signal.signal_id] = signal.revision
            self.newest.move_to_end(signal.signal_id)
            earlier = self._shown_by.get(signal.signal_id, ())
            facts = facts_of(signal)
            held = facts._replace(
                words=None
            )  # of a hundred thousand signals, words would take as much memory as all else
            self._shown_by[signal.signal_id] = earlier if held in earlier else (*earlier, held)[-_FACTS:]
            items.append(
                Item(
                    kind="signal",
                    partition=tp.partition,
                    offset=record.offset,
                    facts=facts,
                    data=b'{"type":"signal","data":' + msgspec.json.encode(signal) + b"}",
                    earlier=earlier,
                    for_all=signal.revision > 1 and not earlier,
                )
            )
        while len(self.newest) > _REMEMBERED_SIGNALS:
            gone, _ = self.newest.popitem(last=False)
            self._shown_by.pop(gone, None)
        self.window.add("signal", tp.partition, records[-1].offset, items)

    # Cases

    async def _start_cases(self, bounds: Bounds) -> dict[TopicPartition, int]:
        # Without the workers' watermark no process would show a case that is open for long, so retry instead.
        watermarks = await committed_by(self._address, self._topics.group("worker"))
        starts = {}
        for tp, (first, end) in bounds.items():
            oldest_open = min(watermarks[tp].offset, end) if tp in watermarks else end
            starts[tp] = max(first, min(end - RECENT_RECORDS, oldest_open), end - FARTHEST)
        self._shown_from = starts
        self._parts = await self._reader.begin(starts)
        self.window.start("case", self._shown_from)
        return starts

    def _take_cases(self, tp: TopicPartition, records: Sequence[Any]) -> None:
        part, shown_from = self._parts[tp], self._shown_from[tp]
        items = []
        for env, record in part.accept(records):
            if record.offset >= shown_from and (item := self._item_of(tp, env, record)) is not None:
                items.append(item)
        if records[-1].offset >= shown_from:
            self.window.add("case", tp.partition, records[-1].offset, items)

    def _item_of(self, tp: TopicPartition, env: wire.Envelope, record: Any) -> Item | None:
        try:
            return self._item(tp, env, record)
        except Exception as exc:
            # Poison, newer code, or an unforeseen fault: it would end this process, and the next one that reads it.
            self._pass_by(record, exc)
            if (case := self.cases.get(env.case_id)) is not None:
                case.close(env)
        return None

    def _item(self, tp: TopicPartition, env: wire.Envelope, record: Any) -> Item:
        event = wire.decode(env.type, env.version, record.value)
        case = self._case(env, event, record.offset)
        if not isinstance(event, COMMANDS):
            case.take(env, event)
        if env.type in TERMINAL_NAMES and case.case_id in self._offsets:
            self._offsets[case.case_id] = self._offsets[case.case_id][0], record.offset
        described = self._describe(case, env, event)
        return Item(
            kind="case",
            partition=tp.partition,
            offset=record.offset,
            facts=Facts(case.asset, case.event_type, case.confidence, case.source),
            data=msgspec.json.encode({"type": "case", "data": described}),
            for_all=env.type in TERMINAL_NAMES,
        )

    def _case(self, env: wire.Envelope, event: Any, offset: int) -> FeedCase:
        of = self._first.of(env, event)
        case = self.cases.get(of)
        if case is None or isinstance(event, EventReceived):
            case = self.cases[of] = FeedCase(case_id=of, received_at=env.time)
            self.cases.move_to_end(of)
        if isinstance(event, EventReceived):
            self._offsets[env.case_id] = offset, None
        while len(self.cases) > RECENT_CASES:
            gone, _ = self.cases.popitem(last=False)
            self._offsets.pop(gone, None)
        return case

    def _pass_by(self, record: Any, exc: Exception) -> None:
        self.ignored += 1
        if self.ignored & (self.ignored - 1) == 0:  # the 1st, 2nd, 4th …, so that a flood does not fill the log
            log.warning("not shown", topic=record.topic, offset=record.offset, why=repr(exc)[:500], so_far=self.ignored)
