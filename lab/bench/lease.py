"""Benchmarks the publisher's lease: share of time in which its holder publishes while other workers come and go."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Mapping
from pathlib import Path

from infra.embedded.child import ChildProcess
from lab.bench.measures import Figure
from lab.bench.world import World, end, world

SECONDS = 96.0
CHANGE_EVERY_S = 8.0
"""Interval at which another worker joins, or leaves again."""
NEWS_PER_S = 20
LATENCY_S = 0.1
ACTIVE_WITHIN_S = 120.0
_LOOK_S = 0.1


async def lease() -> list[Figure]:
    """Let a worker publish for ``SECONDS`` while another one joins or leaves every ``CHANGE_EVERY_S``."""
    async with world() as w:
        holder = w.worker(latency=LATENCY_S, active_file=w.directory / "active-0")
        try:
            began = await _active(w.directory / "active-0")
            feeding = asyncio.create_task(_feed(w))
            try:
                changes = await _come_and_go(w, began + SECONDS)
            finally:
                feeding.cancel()
            logs = {path.name: path.read_text("ascii") for path in w.directory.glob("active-*")}
            gaps = gaps_in(logs, began, time.time())
        finally:
            await end(holder, kill=True)
    took = time.time() - began
    share = 1.0 - sum(gaps) / took
    of = f"{changes} joins and leaves of others in {took:.0f} s"
    return [
        Figure(name="lease: share of the time with an active publisher", value=share, unit="share", target=">= 0.95", baseline=of),
        Figure(name="lease: longest time without", value=max(gaps, default=0.0), unit="s", target="-", baseline=of),
    ]  # fmt: skip


def gaps_in(logs: Mapping[str, str], began: float, ended: float) -> list[float]:
    """Return the gaps without a publisher, from the workers' own files: a time and 0 or 1 per line."""
    changes = sorted(
        (float(at), name, flag == "1")
        for name, lines in logs.items()
        for at, flag in map(str.split, lines.splitlines())
    )
    gaps, since, active = [], began, set[str]()
    for at, name, is_active in [*changes, (ended, "", True)]:
        if is_active and not active and at > began:
            gaps.append(at - max(since, began))
        (active.add if is_active else active.discard)(name)
        if not active:
            since = at
    return gaps


async def _active(file: Path) -> float:
    until = time.monotonic() + ACTIVE_WITHIN_S
    while not _lines(file):
        if time.monotonic() > until:
            raise TimeoutError(f"the worker does not publish after {ACTIVE_WITHIN_S:.0f} s: see {file.parent}")
        await asyncio.sleep(_LOOK_S)
    return time.time()


def _lines(file: Path) -> str:
    return file.read_text("ascii") if file.exists() else ""


async def _feed(w: World) -> None:
    for first in itertools.count(0, NEWS_PER_S):
        await w.publish(NEWS_PER_S, first=first)
        await asyncio.sleep(1.0)


async def _come_and_go(w: World, until: float) -> int:
    """Return how often another worker, each time a new process, joined or left."""
    other: ChildProcess | None = None
    changes = 0
    while time.time() < until:
        if other is None:
            file = w.directory / f"active-{changes + 1}"
            other = w.worker(latency=LATENCY_S, slot="1", active_file=file)
        else:
            await end(other)
            other = None
        changes += 1
        await asyncio.sleep(max(0.0, min(CHANGE_EVERY_S, until - time.time())))
    if other is not None:
        await end(other)
    return changes
