"""The measurements. Each returns figures with a baseline from the same machine in the same run."""

from __future__ import annotations

import asyncio
import statistics
import time
from typing import Any

import msgspec
from aiokafka import TopicPartition

from agents.core.case import Case, fold, open_case
from infra.kafka.topics import offsets_of, read_range
from lab.bench.world import PARTITIONS, World, end, news, world
from schemas import envelope as wire
from schemas.config import Snapshot
from schemas.events import EventReceived
from schemas.signals import Signal
from streams.audit.audit import audit
from streams.composition import worker_of
from streams.effects.spending import UnlimitedBudget
from streams.ending import Ending
from streams.journal.fold import JournalFold
from streams.journal.log import KafkaLog
from streams.runtime.options import WorkerOptions
from streams.wake import Wake
from tests.plain_graph import plain_registry, simulated_ports

EVENTS_A_CASE = 6
STEPS_A_CASE = 5
WAITING_STEPS = 4
WAIT_S = 0.5


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One measured figure. ``target`` is the required value; ``ratio`` is relative to ``baseline``, from the same run."""

    name: str
    value: float
    unit: str
    target: str
    baseline: str = ""
    ratio: float | None = None


async def waiting(cases: int = 4000) -> list[Figure]:
    """Run four waiting steps of 0.5 s with 2,000 cases in flight on one worker. Baseline: the limit of waiting alone."""
    async with world() as w:
        await w.publish(cases)
        process = w.worker(latency=WAIT_S)
        try:
            await w.wait_for_events(cases * EVENTS_A_CASE, timeout_s=240)
        finally:
            await end(process)
        first, last, _ = await w.span()
    rate = cases / (last - first)
    limit = 2000 / (WAITING_STEPS * WAIT_S)
    return [
        Figure(name="waiting: cases a second", value=rate, unit="cases/s", target=">= 800",
               baseline=f"{limit:.0f} cases/s, the limit of 2,000 in flight", ratio=rate / limit)
    ]  # fmt: skip


async def steps_and_reading(cases: int = 20_000) -> list[Figure]:
    """Run zero-latency steps on one worker; then read and fold the resulting journal, audit it, and catch up on it."""
    async with world() as w:
        await w.publish(cases)
        process = w.worker(latency=0.0, commit_s=1e6)
        try:
            await w.wait_for_events(cases * EVENTS_A_CASE, timeout_s=400)
        finally:
            cpu = await end(process, kill=True)
        first, last, events = await w.span()
        steps = cases * STEPS_A_CASE / (last - first)
        bare = await _bare_echo(w, min(events, 60_000))
        figures = [
            Figure(name="steps: steps a second", value=steps, unit="steps/s", target=">= 5,000",
                   baseline=f"{bare:.0f} records/s, a bare consume-then-append loop", ratio=steps / bare),
            Figure(name="steps: worker CPU a step", value=cpu / (cases * STEPS_A_CASE) * 1e6, unit="us", target="-"),
        ]  # fmt: skip
        return figures + await _reading(w, events)


async def _reading(w: World, events: int) -> list[Figure]:
    raw = events / await _timed(_read(w))
    folded = events / await _timed(_read_and_fold(w))
    audited = events / await _timed(audit(KafkaLog(w.address), w.topics))
    caught_up = events / await _catch_up(w)
    base = f"{raw:.0f} records/s, reading alone"
    return [
        Figure(name="reading: read and fold", value=folded, unit="events/s", target=">= 50,000", baseline=base,
               ratio=folded / raw),
        Figure(name="reading: audit", value=audited, unit="events/s", target=">= 50,000", baseline=base,
               ratio=audited / raw),
        Figure(name="reading: worker catch-up", value=caught_up, unit="events/s", target=">= 10,000", baseline=base,
               ratio=caught_up / raw),
    ]  # fmt: skip


async def latency(rate: int = 50, seconds: int = 30) -> list[Figure]:
    """Measure from the send of a news item to a read_committed subscriber, with instant effects at a steady rate."""
    async with world() as w:
        process = w.worker(latency=1e-9)
        try:
            taken = await _latencies(w, rate, seconds)
        finally:
            await end(process)
    taken.sort()
    hop = 2.5
    base = f"{EVENTS_A_CASE} hops of {hop} ms and a transaction of 20 ms, as the design measured"
    return [
        Figure(name="latency: p50", value=_percentile(taken, 50), unit="ms", target="< 60 (aim 30)", baseline=base,
               ratio=_percentile(taken, 50) / (EVENTS_A_CASE * hop + 20)),
        Figure(name="latency: p99", value=_percentile(taken, 99), unit="ms", target="< 150"),
        Figure(name="latency: mean", value=statistics.fmean(taken), unit="ms", target="-"),
    ]  # fmt: skip


async def _latencies(w: World, rate: int, seconds: int) -> list[float]:
    subscriber = w.address.consumer(isolation_level="read_committed", fetch_max_wait_ms=50)
    producer = w.address.producer(linger_ms=0)
    await subscriber.start()
    await producer.start()
    sent: dict[str, float] = {}
    taken: list[float] = []
    warm_up = rate * 8

    async def subscribe() -> None:
        subscriber.assign([TopicPartition(w.topics.signals, p) for p in range(PARTITIONS)])
        while len(taken) < rate * seconds + warm_up:
            for records in (await subscriber.getmany(timeout_ms=1000)).values():
                now = time.perf_counter()
                for record in records:
                    signal = msgspec.json.decode(record.value, type=Signal)
                    taken.append((now - sent[signal.case_id]) * 1000)

    try:
        reading = asyncio.create_task(subscribe())
        begin = time.perf_counter()
        for i in range(rate * seconds + warm_up):
            await asyncio.sleep(max(0.0, begin + i / rate - time.perf_counter()))
            key, value = news(i)
            sent[_case_of(value)] = time.perf_counter()
            await producer.send(w.topics.news, value, key=key)
        await asyncio.wait_for(reading, 60)
    finally:
        await producer.stop()
        await subscriber.stop()
    return taken[warm_up:]


def _case_of(value: bytes) -> str:
    from schemas.news import decode_news
    from streams.journal.clock import utc_now

    return decode_news(value, now=utc_now()).case_id


async def _bare_echo(w: World, count: int) -> float:
    # The baseline without our code: read a record, append one of the same size, keep 2,000 in flight.
    producer = w.address.producer(linger_ms=4)
    await producer.start()
    begin, done, waiting = time.perf_counter(), 0, set()
    async for _, records in read_range(w.address, await offsets_of(w.address, w.topics.cases)):
        for record in records:
            waiting.add(
                await producer.send(w.topics.research, record.value, key=record.key, headers=list(record.headers))
            )
            done += 1
            if len(waiting) >= 2000:
                await asyncio.gather(*waiting)
                waiting.clear()
        if done >= count:
            break
    await asyncio.gather(*waiting)
    took = time.perf_counter() - begin
    await producer.stop()
    return done / took


async def _read(w: World) -> None:
    async for _ in read_range(w.address, await offsets_of(w.address, w.topics.cases)):
        pass


async def _read_and_fold(w: World) -> None:
    bounds = await offsets_of(w.address, w.topics.cases)
    parts = {tp: JournalFold(first) for tp, (first, _) in bounds.items()}
    cases: dict[str, Case] = {}
    snapshot = Snapshot()
    async for tp, records in read_range(w.address, bounds):
        for env, record in parts[tp].accept(records):
            event = wire.decode(env.type, env.version, record.value)
            if isinstance(event, EventReceived):
                cases[env.case_id] = open_case(
                    event, case_id=env.case_id, event_id=env.id, run_id=env.run_id, at=env.time, config=snapshot
                )
            else:
                case = fold(cases[env.case_id], event, event_id=env.id, at=env.time)
                if case.closed:
                    del cases[env.case_id]
                else:
                    cases[env.case_id] = case


async def _catch_up(w: World) -> float:
    # The first worker never committed, so this one folds the whole journal before it is live.
    options = WorkerOptions(slot="1", slot_dir=w.directory / "slots", partitions=PARTITIONS)
    ports, registry = simulated_ports(), plain_registry(asks=False)
    worker = worker_of(
        w.address,
        w.topics,
        registry,
        ports,
        Snapshot(),
        options,
        ending=Ending(),
        wake=Wake(),
        budget=UnlimitedBudget(),
    )
    running = asyncio.create_task(worker.run())
    began: float | None = None
    while not running.done():
        await asyncio.sleep(0.01)
        parts = worker.projector.partitions.values()
        if began is None and worker.projector.folded:
            began = time.perf_counter()
        if len(parts) == PARTITIONS and all(p.live for p in parts):
            break
    took = time.perf_counter() - (began or 0.0)
    worker.stop()
    await running
    return took


async def _timed(work: Any) -> float:
    begin = time.perf_counter()
    await work
    return time.perf_counter() - begin


def _percentile(ordered: list[float], percent: int) -> float:
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]
