"""Chaos: 2,000 cases, two workers, three SIGKILLs, and a zombie. Nothing is lost, nothing is there twice."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from infra.kafka import KafkaAddress
from schemas.events import EventReceived
from streams.audit import AuditReport, audit
from tests.streams.world import World

CHECKOUT = Path(__file__).parents[2]
CASES, SEED = 2000, 20_260_104
LATENCY_S, SESSION_S = 0.5, 6.0
MAX_OPEN = 300
"""Per worker: keeps the work spread over the whole run, so that every blow falls on calls in flight."""
MODEL_STEPS = 4


class Workers:
    """Two worker processes of the plain graph; one that ends is started again, as a supervisor would."""

    def __init__(self, world: World, logs: Path) -> None:
        self._world, self._logs = world, logs
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.killed = 0

    def start(self, slot: str) -> None:
        command = [sys.executable, "-m", "newsproof.bench.worker", "--bootstrap", self._world.address.bootstrap]
        command += ["--prefix", self._world.topics.prefix, "--partitions", str(self._world.partitions)]
        command += ["--slot", slot, "--slot-dir", str(self._world.slots), "--latency", str(LATENCY_S)]
        command += ["--max-open", str(MAX_OPEN), "--session-timeout", str(SESSION_S)]
        with (self._logs / f"worker-{slot}.log").open("ab") as log:
            env = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
            self._processes[slot] = subprocess.Popen(command, cwd=CHECKOUT, env=env, stderr=log, stdout=log)

    def kill(self, slot: str) -> None:
        """SIGKILL, and start again at once."""
        self._processes[slot].kill()
        self._processes[slot].wait()
        self.killed += 1
        self.start(slot)

    def signal(self, slot: str, number: signal.Signals) -> None:
        self._processes[slot].send_signal(number)

    def restart_ended(self) -> None:
        for slot, process in list(self._processes.items()):
            if process.poll() is not None:
                self.start(slot)

    def end(self) -> None:
        for process in self._processes.values():
            process.send_signal(signal.SIGCONT)
            process.terminate()
        for process in self._processes.values():
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def log_tail(self) -> str:
        return "\n".join(path.read_text()[-3000:] for path in sorted(self._logs.glob("worker-*.log")))


async def journal_grows_to(world: World, records: int) -> None:
    """Wait until the journal holds this many records: blows are dealt by progress, not by the clock."""

    async def there() -> bool:
        ends = await world.ends(world.topics.cases)
        return sum(ends.values()) >= records

    await world.until(there, within_s=90)


@pytest.mark.timeout(180)
async def test_three_sigkills_and_a_zombie_lose_nothing_and_double_nothing(
    address: KafkaAddress, tmp_path: Path
) -> None:
    order = random.Random(SEED)
    async with World.made(address, "chaos.", tmp_path / "slots", partitions=4) as world:
        await world.publish(*range(CASES))
        workers = Workers(world, tmp_path)
        try:
            for slot in "ab":
                workers.start(slot)
            frozen, other = order.sample("ab", 2)
            for progress in (1500, 3000):
                await journal_grows_to(world, progress)
                workers.kill(order.choice("ab"))
            await journal_grows_to(world, 4500)
            workers.signal(frozen, signal.SIGSTOP)
            await asyncio.sleep(
                SESSION_S + 2
            )  # the injected pause itself: longer than the session, so others take over
            workers.signal(frozen, signal.SIGCONT)
            await journal_grows_to(world, 8000)
            workers.kill(other)
            report = await until_quiet(world, workers)
        finally:
            workers.end()
        report = await audit(address, world.topics)
        assert (report.lost, report.duplicate_events, report.duplicate_signals) == (0, 0, 0), workers.log_tail()
        assert (report.cases, report.signals, report.failed) == (CASES, CASES, 0), workers.log_tail()
        await each_news_has_its_signal(world)
        # What may be paid again: one call of every case that a struck worker had open, per blow.
        blows = workers.killed + 1
        assert report.repeated_calls <= blows * MAX_OPEN
        # What was answered in the log is never asked again: all others are there once.
        assert report.calls == CASES * MODEL_STEPS + report.repeated_calls


async def until_quiet(world: World, workers: Workers) -> AuditReport:
    """Wait until every case has its signal, by the audit's word."""
    give_up = time.monotonic() + 90
    while True:
        workers.restart_ended()
        report = await audit(world.address, world.topics)
        if report.cases == CASES and report.open == 0 and report.signals == CASES:
            return report
        assert time.monotonic() < give_up, f"{report}\n{workers.log_tail()}"
        await asyncio.sleep(0.5)


async def each_news_has_its_signal(world: World) -> None:
    """The signals are those of the news, one each."""
    cases = {e.news.case_id for e in await world.story() if isinstance(e, EventReceived)}
    signals = await world.signals()
    assert {s.case_id for s in signals} == cases
    assert len(signals) == len(cases) == CASES
