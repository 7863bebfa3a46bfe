"""The run: embedded servers, a worker with its publisher, a sink and a subscriber; good news among hostile records.

It runs in waves. A wave is over when the subscriber has the signal of each of its good items, so a stalled partition is
found in the wave in which it stalled. In the middle the worker and the sink restart and read all hostile records so far
again. Nothing restarts a process that exited by itself: that is a finding.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import aclosing, asynccontextmanager
from random import Random
from typing import Any

import msgspec
import psutil

from infra.kafka.topics import KafkaAddress
from infra.settings import Settings
from lab.hostile.accounts import read_log, settle
from lab.hostile.generator import Generator
from lab.hostile.sender import Sender, Sent
from newsproof.app.composition import address_of, clickhouse_of, snapshot_of, topics_of
from newsproof.app.processes.supervisor import Pipeline, pipeline
from newsproof.sdk.client import publish, subscribe
from schemas.news import News, decode_news
from schemas.topics import Topics
from streams.audit.audit import audit
from streams.journal.clock import utc_now
from streams.journal.log import KafkaLog

WAVE = 2000
GOOD_PER_WAVE = 40
WAVE_WITHIN_S = 300.0
RSS_BOUND_MB = 1024
FD_SLACK = 24
"""Allowed growth of open files, for connections that come and go."""


class ResourceUse(msgspec.Struct):
    """Resources of a process: peak resident memory, and open files at the start and end of its life."""

    rss_mb: int = 0
    files_first: int = 0
    files_last: int = 0


class Outcome(msgspec.Struct, kw_only=True):
    """The figures of a run. ``unaccounted`` counts hostile records with an unexpected fate."""

    seed: int
    records: int
    good: int
    seconds: float = 0.0
    fates: dict[str, int] = {}
    kinds: dict[str, int] = {}
    unaccounted: int = 0
    wrong: dict[str, int] = {}
    good_without_signal: int = 0
    good_signals_twice: int = 0
    lost: int = 0
    duplicate_events: int = 0
    duplicate_signals: int = 0
    foreign: dict[str, int] = {}
    dead_letters: int = 0
    rows_expected: int = 0
    rows_found: int = 0
    processes_ended: int = 0
    processes: dict[str, ResourceUse] = {}
    slowest_wave_s: float = 0.0

    @property
    def findings(self) -> list[str]:
        """Return the violated expectations in words."""
        faults = [
            f"{name} is {value}, it has to be 0"
            for name in (
                "unaccounted", "good_without_signal", "good_signals_twice", "lost", "duplicate_events",
                "duplicate_signals", "processes_ended",
            )
            if (value := getattr(self, name))
        ]  # fmt: skip
        if self.rows_expected != self.rows_found:
            faults.append(f"ClickHouse holds {self.rows_found} events, the journal {self.rows_expected}")
        for name, used in self.processes.items():
            if used.rss_mb > RSS_BOUND_MB:
                faults.append(f"{name} used {used.rss_mb} MB, at most {RSS_BOUND_MB} are allowed")
            if used.files_last > used.files_first + FD_SLACK:
                faults.append(f"{name} opened {used.files_first} files at first and {used.files_last} at last")
        return faults


async def hostile_run(settings: Settings, *, records: int, seed: int, say: Callable[[str], None]) -> Outcome:
    """Send ``records`` hostile records and return the outcome.

    Raises:
        NewsproofError: a server does not start.
        TimeoutError: the pipeline stalls; the text says where.
    """
    began = time.monotonic()
    async with pipeline(settings, say=say) as running:
        outcome = await _Run(running, records=records, seed=seed, say=say).run()
    outcome.seconds = round(time.monotonic() - began, 1)
    return outcome


class _Run:
    def __init__(self, running: Pipeline, *, records: int, seed: int, say: Callable[[str], None]) -> None:
        self._running, self._say, self._seed, self._records = running, say, seed, records
        self._settings = running.settings
        self._address: KafkaAddress = address_of(self._settings)
        self._topics: Topics = topics_of(self._settings)
        partitions = self._settings.topic_partitions
        self._partitions = partitions
        config = snapshot_of(self._settings).config_hash
        self._generator = Generator(seed, partitions=partitions, config_hash=config)
        self._sent: list[Sent] = []
        self._good: list[str] = []
        self._signals: Counter[str] = Counter()
        self._lives: dict[str, int] = {}
        self.outcome = Outcome(seed=seed, records=records, good=0)

    async def run(self) -> Outcome:
        async with Sender.connected(self._address, self._topics, self._partitions) as sender, self._subscribed():
            waves = range(0, self._records, WAVE)
            for number, first in enumerate(waves):
                await self._wave(sender, number, range(first, min(first + WAVE, self._records)))
                if number == len(waves) // 2:
                    await self._restart()
            await self._wave(sender, len(waves), range(0))  # good news alone: earlier records must not block it
        await self._quiet()
        await self._settle()
        return self.outcome

    # Sending

    async def _wave(self, sender: Sender, number: int, numbers: range) -> None:
        began = time.monotonic()
        rng = Random(f"{self._seed}:wave:{number}")
        items = [self._good_item(number, n) for n in range(GOOD_PER_WAVE)]
        # Half before, half after: the last good items come after every hostile record of the wave.
        half = GOOD_PER_WAVE // 2
        await publish(items[:half], kafka=self._address, prefix=self._topics.prefix)
        for first in range(numbers.start, numbers.stop, 250):
            chunk = [self._generator.record(n) for n in range(first, min(first + 250, numbers.stop))]
            self._sent += await sender.send(chunk, rng)
        await publish(items[half:], kafka=self._address, prefix=self._topics.prefix)
        cases = [decode_news(msgspec.json.encode(item), now=utc_now()).case_id for item in items]
        self._good += cases
        await self._until(lambda: all(c in self._signals for c in cases), f"the good news of wave {number}")
        self._generator.journal.victims = cases
        self._measure()
        took = time.monotonic() - began
        self.outcome.slowest_wave_s = max(self.outcome.slowest_wave_s, round(took, 1))
        self._say(f"wave {number}: {len(self._sent)} hostile records so far, {took:.1f} s")

    def _good_item(self, wave: int, number: int) -> News:
        name = f"{self._seed}x{wave}x{number}"
        return News(
            source="good", external_id=name, published_at=utc_now(),
            text=f"Exchange number {wave * GOOD_PER_WAVE + number} lists the token T{name} for spot trading",
        )  # fmt: skip

    @asynccontextmanager
    async def _subscribed(self) -> AsyncIterator[None]:
        async def follow() -> None:
            every: dict[str, Any] = {"verdicts": None, "actions": None, "preliminary": True, "start": "earliest"}
            signals: Any = subscribe(**every, kafka=self._address, prefix=self._topics.prefix)
            async with aclosing(signals):
                async for signal in signals:
                    self._signals[signal.case_id] += 1

        following = asyncio.create_task(follow())
        self._subscriber = following
        try:
            yield
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)

    # Watching

    async def _until(self, ready: Callable[[], bool | Coroutine[Any, Any, bool]], what: str) -> None:
        give_up = time.monotonic() + WAVE_WITHIN_S
        while True:
            got = ready()
            if await got if asyncio.iscoroutine(got) else got:
                return
            ended = [s.name for s in self._running.services if not s.child.running]
            if self._subscriber.done() and not self._subscriber.cancelled():
                self._subscriber.result()
            if ended or time.monotonic() > give_up:
                logs = self._settings.newsproof_data_dir / "logs"
                raise TimeoutError(f"{what} did not arrive ({', '.join(ended) or 'nobody'} ended): look into {logs}")
            await asyncio.sleep(0.1)

    def _measure(self) -> None:
        for service in self._running.services:
            process = psutil.Process(service.child.pid)
            life = self._lives.get(service.name, 0)
            used = self.outcome.processes.setdefault(
                f"{service.name}{'' if not life else ' (restarted)'}", ResourceUse()
            )
            used.rss_mb = max(used.rss_mb, process.memory_info().rss // 2**20)
            used.files_last = process.num_fds()
            used.files_first = used.files_first or used.files_last

    async def _restart(self) -> None:
        for service in self._running.services:
            await service.stop()
            service.start(take_over=True)
            self._lives[service.name] = 1

    # Settling

    async def _quiet(self) -> None:
        async def quiet() -> bool:
            report = await audit(KafkaLog(self._address), self._topics)
            return report.open == 0 and report.lost == 0

        try:
            await self._until(quiet, "an end to every case and every hostile news item")
        except TimeoutError as exc:
            self._say(str(exc))  # the figures below say what is missing

    async def _settle(self) -> None:
        out = self.outcome
        report = await audit(KafkaLog(self._address), self._topics)
        out.lost, out.foreign, out.dead_letters = report.lost, report.foreign, report.dead_letters
        out.duplicate_events, out.duplicate_signals = report.duplicate_events, report.duplicate_signals
        log = await read_log(self._address, self._topics)
        fates, wrong = settle(log, self._sent)
        out.fates, out.wrong, out.unaccounted = dict(fates), dict(wrong), sum(wrong.values())
        out.kinds = dict(Counter(record.kind for record in self._sent))
        out.good = len(self._good)
        out.good_without_signal = sum(1 for case in self._good if not self._signals[case])
        out.good_signals_twice = sum(1 for case in self._good if self._signals[case] > 1)
        out.rows_expected = log.decodable_events
        async with clickhouse_of(self._settings) as tables:

            async def filled() -> bool:
                sql = "SELECT count(), uniqExact(event_id) FROM events FINAL"
                [row] = (await tables.query(sql)).rows
                out.rows_found = int(row[0])
                return out.rows_found >= out.rows_expected

            try:
                await self._until(filled, "the rows of every event")
            except TimeoutError as exc:
                self._say(str(exc))
        self._measure()
        out.processes_ended = sum(not s.child.running for s in self._running.services)
