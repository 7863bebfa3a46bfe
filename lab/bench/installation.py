"""Measurements of a whole installation as started by ``newsproof up``: resources when idle, and a burst of news.

Its servers are embedded, its providers offline and without latency; the page and the research worker run.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import psutil

from infra.kafka.topics import offsets_of, read_range
from lab.backtest.generated import generated_news
from lab.backtest.selftest import JournalWatch, offline_settings, publish
from lab.bench.measures import Figure
from newsproof.app.composition import address_of, topics_of
from newsproof.app.processes.supervisor import Pipeline, pipeline, watched

T = TypeVar("T")

WARMING = 20
"""Number of news items before the measurement, so that all code has run once."""
QUIET_S = 30.0
BURST = 500
_PARTS = {
    "kafka.Kafka": "Kafka", "clickhouse": "ClickHouse", "research-worker": "research worker", "worker": "worker",
    "web": "web", "sink": "sink",
}  # fmt: skip
"""Text in a command line → the component of the installation."""


async def rest(seconds: int = 30) -> list[Figure]:
    """Let a warm installation rest for ``QUIET_S``, measure its processes for this long, then publish one more news item."""

    async def measured(running: Pipeline) -> tuple[dict[str, float], dict[str, float], float]:
        await judged(running, WARMING, seed=1)
        await asyncio.sleep(QUIET_S)
        before, began = _cpu_s(), time.monotonic()
        await asyncio.sleep(seconds)
        took, after = time.monotonic() - began, _cpu_s()
        held, published = _pss_mib(), datetime.now(UTC).timestamp()
        await judged(running, WARMING + 1, seed=3, first=WARMING)
        return (
            {part: (after[part] - before[part]) / took * 100 for part in after},
            held,
            ((await _signals(running))[-1][0] - published),
        )

    shares, held, waited = await _measured(measured)
    return [
        Figure(name="rest: all processes", value=sum(shares.values()), unit="% of a core", target="<= 15"),
        *(Figure(name=f"rest: {part}", value=share, unit="% of a core", target="-") for part, share in sorted(shares.items())),
        Figure(name="rest: memory, shared pages counted once", value=sum(held.values()), unit="MiB", target="< 1024"),
        *(Figure(name=f"rest: memory of {part}", value=mib, unit="MiB", target="-") for part, mib in sorted(held.items())),
        Figure(name="rest: the next news, publish to signal", value=waited * 1000, unit="ms", target="-"),
    ]  # fmt: skip


async def burst(news: int = BURST) -> list[Figure]:
    """Publish this much news at once and wait for all cases. Measure the time to each signal, and failed recalls."""

    async def measured(running: Pipeline) -> tuple[float, float, list[tuple[float, list[str]]]]:
        await judged(running, WARMING, seed=1)
        began, before = datetime.now(UTC).timestamp(), len(await _signals(running))
        cpu = sum(_cpu_s().values())
        await judged(running, WARMING + news, seed=2, first=WARMING)
        return began, sum(_cpu_s().values()) - cpu, (await _signals(running))[before:]

    began, spent, signals = await _measured(measured)
    waited = sorted(at - began for at, _ in signals)
    without = sum("memory_unavailable" in flags for _, flags in signals)
    return [
        Figure(name=f"burst of {news}: publish to signal, median", value=waited[len(waited) // 2], unit="s", target="-"),
        Figure(name="burst: 95 in 100 within", value=waited[len(waited) * 95 // 100], unit="s", target="-"),
        Figure(name="burst: signals", value=len(signals), unit="signals", target="-"),
        Figure(name="burst: signals without memory", value=without, unit="signals", target="0"),
        Figure(name="burst: processor time of a news item, all processes", value=spent / news * 1000, unit="ms", target="-"),
    ]  # fmt: skip


async def _measured(work: Callable[[Pipeline], Coroutine[Any, Any, T]]) -> T:
    with TemporaryDirectory(prefix="newsproof-bench-") as directory, socket.create_server(("127.0.0.1", 0)) as page:
        async with pipeline(offline_settings(Path(directory), max_open_cases=2000), page=page) as running:
            return await watched(running, work(running))


async def judged(running: Pipeline, total: int, *, seed: int, first: int = 0) -> None:
    """Publish news until there are ``total``, and wait until all cases have ended."""
    await publish(running.settings, generated_news(total - first, seed=seed))
    seen = JournalWatch(running.settings)
    while sum(seen.ends.values()) < total:
        await asyncio.sleep(1.0)
        await seen.look()


async def _signals(running: Pipeline) -> list[tuple[float, list[str]]]:
    """Return the publication time (seconds since 1970) and the flags of each signal, ordered by time."""
    address, topic = address_of(running.settings), topics_of(running.settings).signals
    signals: list[tuple[float, list[str]]] = []
    async for _, records in read_range(address, await offsets_of(address, topic)):
        signals += [(r.timestamp / 1000, json.loads(r.value)["risk_flags"]) for r in records]
    return sorted(signals, key=lambda signal: signal[0])


def _processes() -> dict[int, str]:
    """Return process id → component for this process tree. This process does the work of ``newsproof up``."""
    parts = {psutil.Process().pid: "up"}
    for process in psutil.Process().children(recursive=True):
        command = " ".join(process.cmdline())
        parts[process.pid] = next(
            (part for word, part in _PARTS.items() if re.search(rf"\b{word}\b", command)), "others"
        )
    return parts


def _cpu_s() -> Counter[str]:
    spent: Counter[str] = Counter()
    for pid, part in _processes().items():
        times = psutil.Process(pid).cpu_times()
        spent[part] += times.user + times.system
    return spent


def _pss_mib() -> dict[str, float]:
    held: defaultdict[str, float] = defaultdict(float)
    for pid, part in _processes().items():
        lines: dict[str, Any] = dict(
            line.split(":", 1) for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
        )
        held[part] += int(lines["Pss"].split()[0]) / 1024
    return held
