"""Benchmarks the audit of a large journal, written directly in the plain graph's format and published as usual."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

from agents.core.case import Case, Replies, fold, open_case
from infra.kafka.topics import offsets_of, read_range
from lab.bench.measures import Figure
from lab.bench.world import PARTITIONS, World, news, world
from schemas import envelope as wire
from schemas.config import Snapshot
from schemas.events import Event, EventReceived
from schemas.ids import LIVE_RUN, event_id, uuid5
from schemas.news import decode_news, language_of
from schemas.topics import partition_of
from streams.audit.audit import audit
from streams.journal.clock import utc_now
from streams.journal.log import KafkaLog
from streams.publish.publisher import Publisher
from tests.plain_graph import plain_registry

EVENTS = 120_000
EVENTS_A_CASE = 6
"""The opening, four steps and the end, as in the plain graph."""


async def audited(events: int = EVENTS) -> list[Figure]:
    """Write this many events with their news and measure a full audit; plain reading is the baseline."""
    async with world() as w:
        cases = events // EVENTS_A_CASE
        await _write(w, cases)
        await _publish(w, cases)
        bounds = await offsets_of(w.address, w.topics.cases)
        begin = time.perf_counter()
        async for _ in read_range(w.address, bounds):
            pass
        raw = time.perf_counter() - begin
        begin, cpu = time.perf_counter(), time.process_time()
        report = await audit(KafkaLog(w.address), w.topics)
        took, cpu = time.perf_counter() - begin, time.process_time() - cpu
    if not report.clean or not report.cases == report.signals == cases:
        raise AssertionError(f"the audit found what nobody wrote: {report}")
    held = report.events
    base = f"{held / raw:,.0f} events/s, reading the journal alone"
    return [
        Figure(name=f"audit of {held:,} events and {cases:,} news", value=took, unit="s",
               target="< 30 of 1,000,000", baseline=base, ratio=took / raw),
        Figure(name="audit: events a second", value=held / took, unit="events/s", target=">= 33,334"),
        Figure(name="audit: CPU of 1,000,000 events", value=cpu / held * 1e6, unit="s", target="< 30",
               baseline="what a machine with nothing else to do takes, without the broker's part"),
    ]  # fmt: skip


async def _publish(w: World, cases: int) -> None:
    publisher = Publisher(w.address, w.topics)
    publishing = asyncio.create_task(publisher.run())
    while publisher.published < cases and not publishing.done():  # noqa: ASYNC110 - it tells only when asked
        await asyncio.sleep(0.1)
    publisher.stop()
    await publishing


async def _write(w: World, cases: int) -> None:
    registry, snapshot = plain_registry(asks=False), Snapshot()
    producer = w.address.producer(linger_ms=20)
    await producer.start()
    for number in range(cases):
        key, value = news(number)
        await producer.send(w.topics.news, value, key=key)
        for record in _events_of(registry, snapshot, value):
            await producer.send(w.topics.cases, **record)
        if number % 20_000 == 19_999:
            print(f"{number + 1:,} of {cases:,} cases written", file=sys.stderr, flush=True)
    await producer.stop()


def _events_of(registry: Any, snapshot: Snapshot, value: bytes) -> list[dict[str, Any]]:
    now = utc_now()
    item = decode_news(value, now=now)
    event: Event = EventReceived(
        news=item, config_hash=snapshot.config_hash, text_hash=item.text_hash, language=language_of(item)
    )
    case_id, head = item.case_id, None
    new_id = uuid5("opening", LIVE_RUN, case_id)
    records: list[dict[str, Any]] = []
    case: Case | None = None
    while True:
        key, encoded, headers = wire.encode(
            event, id=new_id, case_id=case_id, causation_id=head, run_id=LIVE_RUN, time=now
        )
        records.append(
            {"value": encoded, "key": key, "headers": headers, "partition": partition_of(case_id, PARTITIONS)}
        )
        if isinstance(event, EventReceived):
            case = open_case(event, case_id=case_id, event_id=new_id, run_id=LIVE_RUN, at=now, config=snapshot)
        else:
            assert case is not None
            case = fold(case, event, event_id=new_id, at=now)
        step = None if case.closed else registry.next_step(case)
        if step is None:
            return records
        asked = step.ask(case)
        event = step.tell(case, Replies()) if isinstance(asked, tuple) else asked
        head, new_id = new_id, event_id(LIVE_RUN, case_id, new_id)


__all__ = ["EVENTS", "audited"]
