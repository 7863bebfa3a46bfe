"""Counts what the logs hold after a run, in one pass, without any runtime state, and compares the tables with that."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

import msgspec
from aiokafka import TopicPartition

from infra.clickhouse.client import ClickHouse
from infra.kafka.topics import KafkaAddress, offsets_of, read_range
from lab.chaos.watch import Sample
from schemas import envelope as wire
from schemas.calls import Call
from schemas.envelope import OFFSET, PARTITION, REVISION
from schemas.events import OPENING_NAMES, TERMINAL_NAMES, WIRE_NAMES, BriefWritten, SignalSynthesized
from schemas.ids import RESEARCH_RUN
from schemas.topics import RESEARCH_TOPIC, Topics
from streams.journal.fold import JournalFold

CALLS_A_RECORD = 256
"""Factor that leaves room for the call's index in a row's key."""
_NEVER_MADE = frozenset({"breaker_open", "budget", "not_configured"})
"""Errors of calls that never reached a provider: a breaker, the budget or missing configuration replied."""
_SYNTHESIZED = WIRE_NAMES[SignalSynthesized]
_BEHIND_PROVIDER = ("model", "search")
"""Kinds of calls that the provider process receives. Research also reads tables, pages and market data."""


def place(partition: int, offset: int, *, research: bool = False) -> int:
    """Return one number for a record's position in the journal of cases, or in that of ``research``."""
    return (research << 16 | partition) << 48 | offset


class _Call(msgspec.Struct):
    kind: str
    request_hash: str = ""
    cached: bool = False
    error: str | None = None


class _Costs(msgspec.Struct):
    calls: tuple[_Call, ...] = ()


class Tally:
    """The rows that ClickHouse must hold, the calls of the cases, and offsets that were committed too far.

    ``rows`` maps a table to the keys of its rows: the record's position; if a row is a call, that times
    :data:`CALLS_A_RECORD` plus the call's index. ``case_calls`` counts the calls in accepted events that reached a
    provider. ``research_calls`` counts model and search calls of questions and investigations by kind. ``opened`` holds
    those by id; ``ends`` counts their ends, ``ends_as`` by event. ``asked_again`` counts the accepted replies to a call
    of a case, question or investigation that had an accepted reply already.
    """

    def __init__(self, samples: Iterable[Sample]) -> None:
        self.rows: dict[str, set[int]] = {
            name: set() for name in ("events", "memories", "llm_calls", "tool_calls", "signals")
        }
        self.case_calls = self.passed_by_calls = self.ended = self.samples_checked = self.asked_again = 0
        self.research_calls: Counter[str] = Counter()
        self.opened: set[str] = set()
        self.ends: Counter[str] = Counter()
        self.ends_as: Counter[str] = Counter()
        self._answered: set[int] = set()
        self._signal_ends: set[int] = set()
        self.past_open: list[str] = []
        self.signals_seen: set[tuple[bytes, bytes]] = set()
        self._samples: dict[tuple[str, int], deque[Sample]] = defaultdict(deque)
        for sample in sorted(samples, key=lambda s: s.end):
            self._samples[sample.topic, sample.partition].append(sample)
        self._decode = msgspec.json.Decoder(_Costs).decode

    @property
    def unpublished(self) -> int:
        """Number of signal ends whose signal no read_committed reader finds."""
        return len(self._signal_ends - self.rows["signals"])

    async def read(self, address: KafkaAddress, topics: Topics) -> None:
        """Read the journals and the signals up to their current ends."""
        bounds = await offsets_of(address, topics.cases) | await offsets_of(address, topics.research)
        parts = {tp: JournalFold(first) for tp, (first, _) in bounds.items()}
        async for tp, records in read_range(address, bounds):
            for record in records:
                self._check_samples(tp, parts[tp], record.offset)
                env, accepted = parts[tp].judge(record)
                if env is not None:
                    self._see(env, accepted, record)
        for tp, part in parts.items():
            self._check_samples(tp, part, part.accepted.position + 1)
        committed: dict[str, Any] = {"isolation_level": "read_committed"}
        spans = await offsets_of(address, topics.signals, **committed)
        async for _, records in read_range(address, spans, **committed):
            for record in records:
                headers = dict(record.headers)
                self.rows["signals"].add(place(int(headers[PARTITION]), int(headers[OFFSET])))
                self.signals_seen.add((record.key, headers[REVISION]))

    def _check_samples(self, tp: TopicPartition, part: JournalFold, upto: int) -> None:
        """Check the samples whose end is at or before this record, because the fold's state is as of their time."""
        waiting = self._samples[tp.topic, tp.partition]
        while waiting and waiting[0].end <= upto:
            sample = waiting.popleft()
            self.samples_checked += 1
            watermark = part.accepted.watermark
            if sample.committed > watermark:
                self.past_open.append(
                    f"{sample.group} had committed {sample.committed} of {tp.topic}, partition {tp.partition}, "
                    f"while a case opened at {watermark} was open"
                )

    def _see(self, env: wire.Envelope, accepted: bool, record: Any) -> None:
        research = env.run_id == RESEARCH_RUN
        key = place(record.partition, record.offset, research=research)
        if accepted:
            self.rows["events"].add(key)
        if research:
            self._see_research(key, env, accepted, record)
            return
        if accepted:
            self.ended += env.type in TERMINAL_NAMES
            if env.type == _SYNTHESIZED:
                self.rows["memories"].add(key)
                self._signal_ends.add(key)
        if record.value and b'"calls":' in record.value:
            with suppress(msgspec.DecodeError):
                self.case_calls += self._see_calls(key, env, accepted, self._decode(record.value).calls).total()

    def _see_research(self, key: int, env: wire.Envelope, accepted: bool, record: Any) -> None:
        event = wire.decode(env.type, env.version, record.value)
        if accepted:
            if env.type in OPENING_NAMES:
                self.opened.add(env.case_id)
            if env.type in TERMINAL_NAMES:
                self.ends[env.case_id] += 1
                self.ends_as[env.type] += 1
            if isinstance(event, BriefWritten) and event.claims:
                self.rows["memories"].add(key)
        self.research_calls += self._see_calls(key, env, accepted, event.calls)

    def _see_calls(self, key: int, env: wire.Envelope, accepted: bool, calls: Sequence[_Call | Call]) -> Counter[str]:
        """Return by kind the number of calls in an accepted record that reached a provider."""
        made: Counter[str] = Counter()
        for index, call in enumerate(calls):
            self.rows["llm_calls" if call.kind == "model" else "tool_calls"].add(key * CALLS_A_RECORD + index)
            if call.cached or call.error in _NEVER_MADE or call.kind not in _BEHIND_PROVIDER:
                continue
            if not accepted:
                self.passed_by_calls += 1
                continue
            made[call.kind] += 1
            if call.error is None:
                asked = hash((env.case_id, call.request_hash))
                self.asked_again += asked in self._answered
                self._answered.add(asked)
        return made


STILL_S = 30.0
"""A sink that inserts nothing for this long has either caught up or is stuck."""


class TableComparison(msgspec.Struct, frozen=True):
    """The comparison of one table with the log. Rows are counted as stored, without ``FINAL``."""

    table: str
    expected: int
    lost: int
    duplicates: int
    strange: int

    @property
    def exact(self) -> bool:
        return not (self.lost or self.duplicates or self.strange)


async def compare_tables(client: ClickHouse, tally: Tally) -> list[TableComparison]:
    """Wait until the tables hold as many rows as the log says, or stop growing; then compare row by row."""
    wanted = {table: len(keys) for table, keys in tally.rows.items()}
    held, since = await _held(client, wanted), time.monotonic()
    while any(held[table] < count for table, count in wanted.items()) and time.monotonic() - since < STILL_S:
        await asyncio.sleep(0.5)
        now = await _held(client, wanted)
        if now != held:
            held, since = now, time.monotonic()
    return [await _compared(client, table, keys) for table, keys in tally.rows.items()]


async def _held(client: ClickHouse, tables: dict[str, int]) -> dict[str, int]:
    return {table: int((await client.query(f"SELECT count() FROM {table}")).rows[0][0]) for table in tables}


async def _compared(client: ClickHouse, table: str, keys: set[int]) -> TableComparison:
    of_calls = table.endswith("_calls")
    index = ", call_index" if of_calls else ""
    research = f"endsWith(journal_topic, '{RESEARCH_TOPIC}')"
    result = await client.query(f"SELECT {research}, journal_partition, journal_offset{index} FROM {table}")
    places = ((place(partition, offset, research=bool(of)), more) for of, partition, offset, *more in result.rows)
    rows = [at * CALLS_A_RECORD + more[0] if of_calls else at for at, more in places]
    distinct = set(rows)
    return TableComparison(table, len(keys), len(keys - distinct), len(rows) - len(distinct), len(distinct - keys))
