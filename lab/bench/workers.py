"""Benchmarks several concurrent workers: cases per second with 1, 2 and 4 of them, while model calls wait."""

from __future__ import annotations

import asyncio
import sys
import time

import psutil

from infra.embedded.child import ChildProcess
from infra.kafka.topics import members_of
from lab.bench.measures import EVENTS_A_CASE, WAIT_S, WAITING_STEPS, Figure
from lab.bench.world import World, end, world

WORKERS = (1, 2, 4)
MAX_OPEN = 200
"""Open cases per worker: few enough that four workers wait more than they compute on two cores."""
CASES = 1500
"""Cases per worker."""
WARM_UP = 20
"""Cases per worker before the measurement, so that all partitions are assigned and all code is loaded."""
JOIN_WITHIN_S = 60.0


async def workers(counts: tuple[int, ...] = WORKERS, cases: int = CASES) -> list[Figure]:
    """Run four waiting steps of 0.5 s per case on each number of workers, with ``cases`` for each worker.

    Baseline: the limit of waiting alone. Ratios compare the numbers of workers, which share the machine's cores.
    """
    figures: list[Figure] = []
    for count in counts:
        rate, cpu_s = await _measured(count, cases * count)
        limit = count * MAX_OPEN / (WAITING_STEPS * WAIT_S)
        figures += [
            Figure(name=f"workers: cases a second, {count} workers", value=rate, unit="cases/s", target="-",
                   baseline=f"{limit:.0f} cases/s, the limit of {MAX_OPEN} in flight a worker", ratio=rate / limit),
            Figure(name=f"workers: processor time a case, {count} workers", value=cpu_s / (count * cases) * 1000,
                   unit="ms", target="-", baseline="the workers alone, after their start"),
        ]  # fmt: skip
        print(f"  {count} workers: {rate:.0f} cases/s of {limit:.0f}", file=sys.stderr, flush=True)
    return figures


async def _measured(count: int, cases: int) -> tuple[float, float]:
    """Return the cases per second of this many workers, and their processor time in seconds."""
    warm = WARM_UP * count
    async with world() as w:
        processes = [w.worker(latency=WAIT_S, max_open=MAX_OPEN, slot=str(slot)) for slot in range(count)]
        try:
            await _joined(w, count)
            await w.publish(warm)
            await w.wait_for_events(warm * EVENTS_A_CASE, timeout_s=60)
            since, before = await w.ends(), _cpu_s(processes)
            await w.publish(cases, first=warm)
            await w.wait_for_events((warm + cases) * EVENTS_A_CASE, timeout_s=120)
            spent = _cpu_s(processes) - before
        finally:
            for process in processes:
                await end(process, kill=True)
        first, last, _ = await w.span(since)
    return cases / (last - first), spent


def _cpu_s(processes: list[ChildProcess]) -> float:
    times = [psutil.Process(process.pid).cpu_times() for process in processes]
    return float(sum(times_of_process.user + times_of_process.system for times_of_process in times))


async def _joined(w: World, count: int) -> None:
    """Wait until the group has this many members.

    Raises:
        TimeoutError: it does not within ``JOIN_WITHIN_S``.
    """
    until = time.monotonic() + JOIN_WITHIN_S
    while len(await members_of(w.address, w.topics.group("worker"))) < count:
        if time.monotonic() > until:
            raise TimeoutError(f"fewer than {count} workers joined after {JOIN_WITHIN_S:.0f} s: see {w.directory}")
        await asyncio.sleep(0.2)
