"""A log like a worker's after many cases: news, journal, signals and budget, with the groups' commits at its ends.

The records are made from a few cases that are encoded once. Further cases differ only in ids, text and the names in
their story. So the log grows by about 100,000 records per second, and readers treat the records as real.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, NamedTuple

import msgspec
from aiokafka import TopicPartition
from msgspec.structs import replace

from agents.core.case import open_case
from agents.tables import load_tables
from infra.kafka.topics import KafkaAddress, offsets_of
from schemas import budget
from schemas import envelope as wire
from schemas import events as ev
from schemas.envelope import CAUSE, OFFSET, PARTITION, REVISION, SIGNAL_TYPE, TEXT_HASH_HEADER, TOPIC
from schemas.ids import LIVE_RUN, case_id, event_id, signal_id, text_hash, uuid5
from schemas.signals import SIGNAL_SCHEMA_VERSION
from schemas.topics import Topics, partition_of
from tests.plain_graph import plain_signal
from tests.story_sets import SETS, events_of, tellings_of

CALLS_A_CASE = 4
"""Paid calls per case: each is a reservation and a settlement on the budget topic."""
SOURCE = "bench"
REPORTS_A_STORY = 5
_BATCH_BYTES = 512 * 1024
_AT_ONCE = 10_000
"""Cases per transaction. It stands in for the publisher's: its markers leave gaps in ``signals``."""

Header = tuple[str, bytes]


class _Template(NamedTuple):
    """The encoded records of one case, with placeholders for its own values. ``events``: value and fixed headers."""

    text: str
    news: bytes
    events: tuple[tuple[bytes, list[Header]], ...]
    signal: bytes


_WRITER = "newsproof-bench-fill"
_NUMBER, _STORY = "70000007", "s8000008"
_CASE, _HASH, _SIGNAL, _CALL = "c" * 36, "f" * 32, "e" * 36, "d" * 26
_OWN = frozenset({"ce_id", "ce_causationid", "ce_subject", TEXT_HASH_HEADER})


async def fill(address: KafkaAddress, topics: Topics, cases: int, *, partitions: int) -> int:
    """Append this many ended cases to empty topics, and commit both groups' positions; return the number of records."""
    templates = list(_templates())
    producer = address.producer(transactional_id=_WRITER, max_batch_size=_BATCH_BYTES, transaction_timeout_ms=600_000)
    await producer.start()
    try:
        writer, ends = _Writer(producer), [0] * partitions
        await producer.begin_transaction()
        await writer.append(topics.budget, 0, None, budget.encode(_LIMITS))
        await writer.flush()
        await producer.commit_transaction()
        for first in range(0, cases, _AT_ONCE):
            await producer.begin_transaction()
            for number in range(first, min(cases, first + _AT_ONCE)):
                await _write(writer, topics, templates[number % len(templates)], number, ends)
            await writer.flush()
            await producer.commit_transaction()
            ends = [end + 1 for end in ends]  # the marker
            if first % (10 * _AT_ONCE) == 0:
                print(f"  {min(cases, first + _AT_ONCE):,} of {cases:,} cases written", file=sys.stderr, flush=True)
        # A commit is answered before its markers are written. The coordinator refuses the id's next epoch until they are.
        await producer.stop()
        producer = address.producer(transactional_id=_WRITER)
        await producer.start()
        bounds = await offsets_of(address, topics.cases)
        news = await offsets_of(address, topics.news)
        for group, of in ((topics.group("worker"), {**bounds, **news}), (topics.group("publisher"), bounds)):
            await producer.begin_transaction()
            await producer.send_offsets_to_transaction({tp: end for tp, (_, end) in of.items()}, group)
            await producer.commit_transaction()
    finally:
        await producer.stop()
    return writer.written


class _Writer:
    """Sends full batches per partition, several times as fast as record by record."""

    def __init__(self, producer: Any) -> None:
        self._producer, self.written = producer, 0
        self._batches: dict[TopicPartition, Any] = {}
        self._sent: list[Any] = []

    async def append(
        self, topic: str, partition: int, key: bytes | None, value: bytes, headers: list[Header] | None = None
    ) -> None:
        tp = TopicPartition(topic, partition)
        while (batch := self._batches.get(tp)) is None or not self._taken(batch, key, value, headers):
            if batch is not None:
                await self._send(tp, batch)
            self._batches[tp] = self._producer.create_batch()
        self.written += 1

    @staticmethod
    def _taken(batch: Any, key: bytes | None, value: bytes, headers: list[Header] | None) -> bool:
        return batch.append(key=key, value=value, timestamp=None, headers=headers or []) is not None

    async def flush(self) -> None:
        for tp, batch in self._batches.items():
            await self._send(tp, batch)
        self._batches.clear()
        for sent in self._sent:
            await sent
        self._sent.clear()

    async def _send(self, tp: TopicPartition, batch: Any) -> None:
        self._sent.append(await self._producer.send_batch(batch, tp.topic, partition=tp.partition))


async def _write(writer: _Writer, topics: Topics, template: _Template, number: int, ends: list[int]) -> None:
    name = f"{number:08d}"
    of_text = text_hash(template.text.replace(_NUMBER, name))
    case, head = case_id(SOURCE, name, of_text), ""
    partition, signal, key = partition_of(case, len(ends)), signal_id(LIVE_RUN, case), case.encode()
    own = [
        (_NUMBER.encode(), name.encode()),
        (_STORY.encode(), b"s%07d" % (number // REPORTS_A_STORY)),
        (_HASH.encode(), of_text.encode()),
        (_CASE.encode(), key),
        (_SIGNAL.encode(), signal.encode()),
    ]
    await writer.append(topics.news, number % len(ends), f"{SOURCE}:{name}".encode(), _filled(template.news, own))
    for value, headers in template.events:
        cause, head = head, event_id(LIVE_RUN, case, head)
        more = [("ce_causationid", cause.encode())] if cause else [(TEXT_HASH_HEADER, of_text.encode())]
        record_headers = [*headers, ("ce_id", head.encode()), ("ce_subject", key), *more]
        await writer.append(topics.cases, partition, key, _filled(value, own), record_headers)
        ends[partition] += 1
    record_headers = _signal_headers(signal, head, topics.cases, partition, ends[partition] - 1)
    to = partition_of(signal, len(ends))
    await writer.append(topics.signals, to, signal.encode(), _filled(template.signal, own), record_headers)
    for call in range(CALLS_A_CASE):
        id = b"%016x-%09d" % (number % 7, number * CALLS_A_CASE + call)
        for value in _CALLS:
            await writer.append(topics.budget, 0, None, value.replace(_CALL.encode(), id).replace(_CASE.encode(), key))


def _filled(value: bytes, own: list[tuple[bytes, bytes]]) -> bytes:
    for placeholder, text in own:
        value = value.replace(placeholder, text)
    return value


def _templates() -> Iterator[_Template]:
    """Yield a case for each labelled report that reports a story. Its subject and names become placeholders."""
    tables = load_tables(demo=False)
    for path in sorted(SETS.glob("stories_*.jsonl")):
        for report in tellings_of(path):
            opened, triaged = events_of(report, tables)
            if triaged.story is not None:
                yield _template(opened, triaged)


def _template(opened: ev.EventReceived, triaged: ev.CaseTriaged) -> _Template:
    now = datetime.now(UTC)
    text = f"{opened.news.text} {_NUMBER}"
    news = replace(opened.news, source=SOURCE, external_id=_NUMBER, text=text, published_at=now, url=None)
    opened = replace(opened, news=news, text_hash=_HASH)
    assert triaged.story is not None
    story = replace(triaged.story, subject=_STORY, names=(_STORY,) if triaged.story.names else ())
    case = open_case(opened, case_id=_CASE, event_id="", run_id=LIVE_RUN, at=now, config=None)
    signal = replace(plain_signal(case), signal_id=_SIGNAL, verdict="likely", unchecked_reason=None)
    events: tuple[ev.Event, ...] = (
        opened,
        replace(triaged, story=story),
        ev.StoryChecked(route="deep"),
        ev.ContextGathered(entries=(), memory="no_match"),
        ev.EvidenceCritiqued(claims=(), verdict="supported"),
        ev.SignalSynthesized(signal=signal, path="deep"),
    )
    encoded = (wire.encode(e, id="", case_id=_CASE, causation_id=None, run_id=LIVE_RUN, time=now) for e in events)
    fixed = tuple((value, [h for h in headers if h[0] not in _OWN]) for _, value, headers in encoded)
    return _Template(text, msgspec.json.encode(news), fixed, msgspec.json.encode(signal))


_LIMITS = budget.LimitsSet(
    monthly_usd=budget.MAX_USD, triage_reserve_usd=Decimal(0), daily_units=0, allow_unpriced=False, by="bench"
)
_CALLS = tuple(
    budget.encode(record)
    for record in (
        budget.Reserved(
            id=_CALL, effect="call_model", provider="bench", usd=Decimal("0.004"), units=0, for_triage=False,
            case_id=_CASE, head_id=_CASE, group=SOURCE,
        ),
        budget.Settled(id=_CALL, usd=Decimal("0.001"), by="0"),
    )
)  # fmt: skip


def _signal_headers(signal: str, cause: str, journal: str, partition: int, offset: int) -> list[Header]:
    headers = {
        "ce_specversion": "1.0",
        "content-type": "application/json",
        "ce_id": uuid5("signal-revision", signal, "1"),
        "ce_type": SIGNAL_TYPE.decode(),
        "ce_subject": signal,
        "ce_schemaversion": str(SIGNAL_SCHEMA_VERSION),
        "ce_runid": LIVE_RUN,
        CAUSE: cause,
        TOPIC: journal,
        PARTITION: str(partition),
        OFFSET: str(offset),
        REVISION: "1",
    }
    return [(name, value.encode()) for name, value in headers.items()]
