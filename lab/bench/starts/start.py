"""The cost of a worker's start after many cases: first without a fold store, then a restart on the same disk."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.error import URLError
from urllib.request import urlopen

import msgspec
import psutil

from infra.embedded.child import ChildProcess
from infra.listeners.mark import listener_key
from infra.settings import Settings
from lab.backtest.selftest import offline_settings
from lab.bench.measures import Figure
from lab.bench.starts.filling import fill
from lab.bench.world import PARTITIONS, ROOT
from newsproof.app.composition import address_of, prepare_topics, topics_of
from newsproof.app.processes.supervisor import environment_of
from newsproof.app.processes.targets import targets_in
from newsproof.app.servers import servers

FEW, CASES = 10_000, 100_000
PER = 100_000
"""Slopes are per this many cases."""
_LOOK_S = 0.1
_QUIET_S = 3.0
_QUIET_SHARE = 0.1
"""A worker that uses less of a core than this for ``_QUIET_S`` has finished reading in the background."""
_GIVE_UP_S = 900.0


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """One start of a worker process. ``settled``: when it had also finished reading in the background.

    Times are from the start of the process. ``stall_ms``: upper bound of its event loop's longest delay.
    """

    ready_s: float
    ready_cpu_s: float
    settled_cpu_s: float
    mib: float
    stall_ms: float


async def start(cases: int = CASES) -> list[Figure]:
    """Measure both starts after ``FEW`` and after so many cases, and the additional cost per 100,000 cases."""
    figures: list[Figure] = []
    of_size: dict[int, tuple[Start, Start]] = {}
    for size in sorted({FEW, cases}):
        first, again = of_size[size] = await _starts(size)
        figures += _figures(f"after {size:,} cases", again) + _figures(f"first start after {size:,} cases", first)
    if len(of_size) > 1:
        few, many = min(of_size), max(of_size)
        for name, kind in (("restart", 1), ("first start", 0)):
            figures += _slopes(name, of_size[few][kind], of_size[many][kind], PER / (many - few), restart=kind == 1)
    last = of_size[max(of_size)][1]
    return [
        *figures,
        Figure(name="ready seconds", value=last.ready_s, unit="s", target="<= 5"),
        Figure(name="ready cpu seconds", value=last.ready_cpu_s, unit="s", target="-"),
        Figure(name="worker MiB", value=last.mib, unit="MiB", target="<= 400"),
    ]


def _figures(name: str, measured_start: Start) -> list[Figure]:
    return [
        Figure(name=f"start: {name}, ready", value=measured_start.ready_s, unit="s", target="-"),
        Figure(
            name=f"start: {name}, processor time until then", value=measured_start.ready_cpu_s, unit="s", target="-"
        ),
        Figure(
            name=f"start: {name}, processor time until all is read",
            value=measured_start.settled_cpu_s,
            unit="s",
            target="-",
        ),
        Figure(name=f"start: {name}, memory then", value=measured_start.mib, unit="MiB", target="-"),
        Figure(
            name=f"start: {name}, longest stall of the loop, at most",
            value=measured_start.stall_ms,
            unit="ms",
            target="<= 50",
        ),
    ]


def _slopes(name: str, few: Start, many: Start, share: float, *, restart: bool) -> list[Figure]:
    per = f"{name}, for each {PER:,} cases"
    seconds, mib = ("<= 0.2", "<= 20") if restart else ("-", "-")
    return [
        Figure(name=f"start: {per}, ready", value=(many.ready_s - few.ready_s) * share, unit="s", target=seconds),
        Figure(name=f"start: {per}, processor time until then", value=(many.ready_cpu_s - few.ready_cpu_s) * share, unit="s", target="-"),
        Figure(name=f"start: {per}, processor time until all is read", value=(many.settled_cpu_s - few.settled_cpu_s) * share, unit="s", target=seconds),
        Figure(name=f"start: {per}, memory", value=(many.mib - few.mib) * share, unit="MiB", target=mib),
    ]  # fmt: skip


async def _starts(cases: int) -> tuple[Start, Start]:
    with TemporaryDirectory(prefix="newsproof-bench-") as directory:
        settings = offline_settings(Path(directory), max_open_cases=2000).model_copy(
            # No case is open, so ClickHouse is not used.
            update={"metrics_port": 0, "clickhouse_url": "http://127.0.0.1:9", "topic_partitions": PARTITIONS}
        )
        async with servers(settings, clickhouse=False, prepare={"kafka": prepare_topics}) as running:
            at = running.applied_to(settings)
            listener_key(at)
            began = time.perf_counter()
            records = await fill(address_of(at), topics_of(at), cases, partitions=PARTITIONS)
            took = time.perf_counter() - began
            print(f"  {records:,} records written in {took:.0f} s", file=sys.stderr, flush=True)
            return await _started(at), await _started(at)


async def _started(settings: Settings) -> Start:
    """Start a worker process, wait until it has read everything, and shut it down cleanly."""
    directory = settings.newsproof_data_dir
    for former in (directory / "metrics").glob("*.json"):
        former.unlink()
    command = [sys.executable, "-P", "-m", "newsproof", "worker", "--take-over"]
    env = {**os.environ, **environment_of(settings), "PYTHONPATH": str(ROOT)}
    child = ChildProcess("the worker", command, log_file=directory / "worker.log", env=env, cwd=directory)
    began = time.perf_counter()
    child.start()
    try:
        process = psutil.Process(child.pid)
        while not await asyncio.to_thread(_is_ready, directory):
            _refuse_ended(child, began)
            await asyncio.sleep(_LOOK_S)
        ready_s, ready_cpu_s = time.perf_counter() - began, _cpu_s(process)
        cpu_s, before = ready_cpu_s, -1.0
        while cpu_s - before > _QUIET_S * _QUIET_SHARE:
            _refuse_ended(child, began)
            await asyncio.sleep(_QUIET_S)
            cpu_s, before = _cpu_s(process), cpu_s
        mib, stall_ms = process.memory_info().rss / 2**20, await asyncio.to_thread(_stall_ms, directory)
    finally:
        await child.stop(timeout_s=60)
    return Start(ready_s=ready_s, ready_cpu_s=ready_cpu_s, settled_cpu_s=before, mib=mib, stall_ms=stall_ms)


def _refuse_ended(child: ChildProcess, began: float) -> None:
    if not child.running or time.perf_counter() - began > _GIVE_UP_S:
        raise AssertionError(f"the worker did not get ready: {child.log_tail(20)}")


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _is_ready(directory: Path) -> bool:
    try:
        with urlopen(f"{targets_in(directory)[0].url}/readyz") as response:
            return bool(response.status == 200)
    except (IndexError, URLError, ConnectionError):
        return False


def _stall_ms(directory: Path) -> float:
    """Return the upper bound of the highest non-empty bucket of the stalls."""
    with urlopen(f"{targets_in(directory)[0].url}/metrics") as response:
        lines = [
            line
            for line in response.read().decode().splitlines()
            if line.startswith("newsproof_loop_stall_seconds_bucket")
        ]
    counts = [(line.split('le="')[1].split('"')[0], float(line.rpartition(" ")[2])) for line in lines]
    return next(float(bound) * 1000 for bound, count in counts if count == counts[-1][1])
