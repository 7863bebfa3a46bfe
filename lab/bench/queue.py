"""Benchmarks memory under a queue: hundreds of thousands of news items before a slow worker, and its process's memory."""

from __future__ import annotations

import asyncio
import sys
import time

import msgspec
import psutil

from infra.kafka.topics import offsets_of, read_range
from lab.bench.measures import Figure
from lab.bench.world import World, end, world
from schemas.events import OPENING_NAME

NEWS = 100_000
LATENCY_S = 0.5
"""Latency of each of a case's four calls: with MAX_OPEN_CASES = 2,000 at most 1,000 cases per second end."""
SAMPLE_S = 5.0
WARM_UP = 0.1
"""Initial part of the run that is excluded from the memory comparison, while code loads and buffers fill."""


class Sample(msgspec.Struct, frozen=True):
    """One sample: seconds since the worker started, journal records so far, resident memory in MiB."""

    at_s: float
    events: int
    rss_mib: float


async def queue(news: int = NEWS) -> list[Figure]:
    """Publish ``news`` items, let a slow worker process them, and compare its memory early and late."""
    async with world() as w:
        await w.publish(news)
        process = w.worker(latency=LATENCY_S)
        try:
            samples = await _watch(w, process.pid, news)
        finally:
            await end(process, kill=True)
        opened = await _opened(w)
    warm = [s for s in samples if s.events >= WARM_UP * samples[-1].events]
    early, late, most = warm[0], warm[-1], max(s.rss_mib for s in samples)
    grown = (late.rss_mib - early.rss_mib) * 2**20 / max(1, opened * (1 - WARM_UP))
    curve = ", ".join(f"{s.rss_mib:.0f}" for s in samples[:: max(1, len(samples) // 12)])
    return [
        Figure(name="queue: news published", value=news, unit="news", target="-"),
        Figure(name="queue: cases opened meanwhile", value=opened, unit="cases", target="-"),
        Figure(name="queue: memory after the first tenth", value=early.rss_mib, unit="MiB", target="-"),
        Figure(name="queue: memory at the end", value=late.rss_mib, unit="MiB", target="-",
               ratio=late.rss_mib / early.rss_mib, baseline=f"MiB over time: {curve}"),
        Figure(name="queue: most memory", value=most, unit="MiB", target="< 600"),
        Figure(name="queue: growth for each case opened", value=grown, unit="bytes", target="< 2,000",
               baseline="the index by which a repeat is known for DEDUP_DAYS"),
    ]  # fmt: skip


async def _watch(w: World, pid: int, news: int) -> list[Sample]:
    process, began = psutil.Process(pid), time.monotonic()
    samples: list[Sample] = []
    events, wanted = 0, news * 6
    while events < wanted:
        await asyncio.sleep(SAMPLE_S)
        before, events = events, sum((await w.ends()).values())
        sample = Sample(time.monotonic() - began, events, process.memory_info().rss / 2**20)
        samples.append(sample)
        print(f"  {sample.at_s:6.0f} s  {events:9,} events  {sample.rss_mib:6.0f} MiB", file=sys.stderr, flush=True)
        if before and events == before:
            break  # no more progress; the figures show how far it came
    return samples


async def _opened(w: World) -> int:
    count = 0
    async for _, records in read_range(w.address, await offsets_of(w.address, w.topics.cases)):
        count += sum(1 for r in records if dict(r.headers).get("ce_type") == OPENING_NAME.encode())
    return count
