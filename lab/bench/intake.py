"""Benchmarks of intake: a steady stream with repeats, and a burst of old news followed by fresh news."""

from __future__ import annotations

import asyncio
import statistics
import time
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from aiokafka import TopicPartition

from infra.kafka.topics import committed_by, offsets_of
from lab.backtest.generated import generated_news
from lab.backtest.selftest import JournalWatch, offline_settings, publish
from lab.bench.measures import EVENTS_A_CASE, Figure
from lab.bench.world import World, end, news, world
from newsproof.app.composition import address_of, topics_of
from newsproof.app.processes.supervisor import Pipeline, pipeline, watched
from schemas.events import TERMINAL_NAMES
from schemas.news import News

RATE, SECONDS, REPEATED = 1000, 60, 2
"""One item in ``REPEATED`` is sent a second time."""
BURST, FRESH, FRESH_EVERY_S = 20_000, 12, 4.0


async def intake(rate: int = RATE, seconds: int = SECONDS, old: int = BURST) -> list[Figure]:
    """Publish ``rate`` items per second to a worker of the plain graph; then fresh items after ``old`` old ones."""
    return [*await _steady(rate, seconds), *await _fresh_first(old)]


async def _steady(rate: int, seconds: int) -> list[Figure]:
    async with world() as w:
        process = w.worker(latency=0.0)
        try:
            await w.publish(1)
            await w.wait_for_events(1, timeout_s=60)
            behind, distinct = await _publish_steadily(w, rate, seconds)
            began = time.perf_counter()
            while await _untaken(w):  # noqa: ASYNC110 - an offset at the broker
                await asyncio.sleep(0.05)
            caught_up = time.perf_counter() - began
            await w.wait_for_events((distinct + 1) * EVENTS_A_CASE, timeout_s=240)
        finally:
            cpu = await end(process)
        _, _, events = await w.span()
    sent, lost = rate * seconds, distinct + 1 - events // EVENTS_A_CASE
    return [
        Figure(name=f"intake: news lost of {sent} in {seconds} s", value=lost, unit="news", target="0"),
        Figure(name="intake: untaken news, most", value=max(behind), unit="news", target="-"),
        Figure(name="intake: taken whole after the last item", value=caught_up, unit="s", target="< 2"),
        Figure(name="intake: worker CPU of an item", value=cpu / sent * 1e6, unit="us", target="-"),
    ]  # fmt: skip


async def _publish_steadily(w: World, rate: int, seconds: int) -> tuple[list[int], int]:
    """Send ``rate`` items per second, one in ``REPEATED`` twice; return untaken per second, and distinct ones."""
    behind, number = [], 0
    async with w.address.producer(linger_ms=5) as producer:
        began = time.perf_counter()
        for second in range(seconds):
            for part in range(20):
                await asyncio.sleep(max(0.0, began + second + part / 20 - time.perf_counter()))
                for _ in range(rate // 20 // REPEATED):
                    number += 1
                    key, value = news(number)
                    for _ in range(REPEATED):
                        await producer.send(w.topics.news, value, key=key)
            behind.append(await _untaken(w))
        await producer.flush()
    return behind, number


async def _untaken(w: World) -> int:
    """Return the number of ``news`` records whose offset the worker has not committed."""
    committed = await committed_by(w.address, w.topics.group("worker"))
    bounds = await offsets_of(w.address, w.topics.news)
    return sum(stop - (committed[tp].offset if tp in committed else first) for tp, (first, stop) in bounds.items())


async def _fresh_first(old: int) -> list[Figure]:
    with TemporaryDirectory(prefix="newsproof-bench-") as directory:
        async with pipeline(offline_settings(Path(directory), max_open_cases=2000)) as running:
            took, decided = await watched(running, _waited_for_fresh(running, old))
    return [
        Figure(name=f"intake: fresh news behind {old} old ones, decided within, median", value=statistics.median(took),
               unit="s", target="<= 2"),
        Figure(name="intake: fresh news, slowest", value=max(took), unit="s", target="<= 2"),
        Figure(name="intake: old news decided meanwhile", value=decided, unit="cases", target="-"),
    ]  # fmt: skip


async def _waited_for_fresh(running: Pipeline, old: int) -> tuple[list[float], int]:
    settings, seen = running.settings, JournalWatch(running.settings)
    await publish(settings, generated_news(old, seed=1))
    while seen.opened < 2000:
        await asyncio.sleep(0.5)
        await seen.look()
    before, took = sum(seen.ends.values()), []
    for number in range(FRESH):
        text = f"Kraken says it lists token number {number} today"
        item = News(source="wire-a", external_id=f"fresh-{number}", text=text, published_at=datetime.now(UTC))
        ending = asyncio.create_task(_end_of(running, item.case_id))
        began = time.perf_counter()
        await publish(settings, [item])
        await ending
        took.append(time.perf_counter() - began)
        await asyncio.sleep(max(0.0, FRESH_EVERY_S - took[-1]))
    await seen.look()
    return took, sum(seen.ends.values()) - before - FRESH


async def _end_of(running: Pipeline, case_id: str) -> None:
    address, topic = address_of(running.settings), topics_of(running.settings).cases
    async with address.consumer(fetch_max_wait_ms=20) as consumer:
        tps = [TopicPartition(topic, p) for p in range(running.settings.topic_partitions)]
        consumer.assign(tps)
        await consumer.seek_to_end(*tps)
        async for record in consumer:
            if record.key == case_id.encode() and dict(record.headers)["ce_type"].decode() in TERMINAL_NAMES:
                return
