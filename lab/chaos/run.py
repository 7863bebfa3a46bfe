"""``lab chaos``: a separate installation, a steady stream of cases, planned faults, a quiet phase, and the verdict."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec
from aiokafka.errors import KafkaError
from msgspec.structs import replace

from lab.chaos.asker import Asker
from lab.chaos.fault_injector import FaultInjector
from lab.chaos.installation import Installation, installation
from lab.chaos.outcome import Outcome
from lab.chaos.plan import Shape, plan
from lab.chaos.verdict import verdict
from lab.chaos.waits import waits
from lab.chaos.watch import Watch
from newsproof.app.servers import Say
from schemas.errors import NewsproofError, TransientError

STUCK_S = 180.0
"""Without an ended case for this long, the run records a finding and stops waiting."""
QUIET_S = 120.0
SAY_EVERY_S = 10.0
TRICKLE, TRICKLE_PER_S = 5, 25.0
"""News beyond the gate while a fault is injected: enough for every worker to have calls in flight."""
BREATHER = 0.4
"""Fraction of the planned distance between faults: at least this many cases end between two of them."""


class Run:
    """One run. ``findings`` holds the problems found before the logs are read."""

    def __init__(self, at: Installation, shape: Shape, say: Say) -> None:
        self._at, self._shape, self._say = at, shape, say
        self.watch = Watch(at.address, at.topics)
        self.injector = FaultInjector(at, self.watch, shape, say)
        self.asker = Asker(at)
        self.findings: list[str] = []
        self._backlog = 2 * shape.max_open * shape.workers
        self._gate = 0
        self._all_injected = False
        self._fed = asyncio.Event()
        self.sent = 0
        """Number of cases published: the requested number, or more if the faults took longer."""

    async def drive(self) -> None:
        """Inject every fault while cases stream, then wait for quiet."""
        await self.watch.start()
        striking = asyncio.create_task(self._strike())
        beside = [
            asyncio.create_task(work) for work in (self._at.keep(), self._report(), self._feed(), self.asker.run())
        ]
        try:
            await asyncio.wait([striking, *beside], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (striking, *beside):
                task.cancel()
            for failed in await asyncio.gather(striking, *beside, return_exceptions=True):
                if isinstance(failed, Exception):
                    self.findings.append(str(failed) if isinstance(failed, NewsproofError) else repr(failed))
            await self.watch.stop()

    async def _strike(self) -> None:
        apart = self._shape.cases / max(len(faults := plan(self._shape)), 1)
        for fault in faults:
            # Some cases must end between two faults, even if the last one took longer than planned.
            due = max(fault.at, len(self.watch.ended) + int(apart * BREATHER))
            self._gate = due + self._backlog
            await self._ended(due)
            await self.injector.inject(fault)
        await self.injector.over()
        self._all_injected, self._gate = True, max(self._shape.cases, self.sent)
        await self._fed.wait()
        await self._ended(self.sent)
        await self.asker.stop()
        await self._quiet()

    async def _ended(self, cases: int) -> None:
        """Wait until this many cases have ended."""
        held, since = -1, time.monotonic()
        while len(self.watch.ended) < cases:
            self.watch.check()
            if len(self.watch.ended) != held:
                held, since = len(self.watch.ended), time.monotonic()
            if time.monotonic() - since > STUCK_S:
                await self._say_where_everybody_waits()
                raise TransientError(f"no case has ended for {STUCK_S:g} s; {held} have", kind="internal")
            await asyncio.sleep(0.1)

    async def _say_where_everybody_waits(self) -> None:
        by_child = {child.name: await child.waits() for child in self._at.children}
        for name, lines in {**by_child, "the harness": waits()}.items():
            self._say("\n".join([f"where {name} waits:", *lines]))

    async def _quiet(self) -> None:
        """Wait until every group has committed its topics' ends: nothing is open, and all is published and inserted."""
        self._say("every case has ended and nothing more is asked; waiting for quiet")
        give_up = time.monotonic() + QUIET_S
        while True:
            known = len(self.watch.samples)
            await self.watch.sample_once()
            fresh = self.watch.samples[known:]
            behind = [s for s in fresh if s.committed != s.end]
            if not behind:
                return
            if time.monotonic() > give_up:
                raise TransientError(f"no quiet within {QUIET_S:g} s: {behind}", kind="internal")
            await asyncio.sleep(1.0)

    async def _feed(self) -> None:
        """Publish news up to the backlog ahead of the next fault, then a trickle, so that the workers are never idle."""
        while not self._is_fed():
            try:
                async with self._at.address.producer(linger_ms=5) as producer:
                    await self._feed_by(producer)
            except KafkaError:
                await asyncio.sleep(0.2)  # the broker is down, or refuses this producer; repeated news is one case
        self._fed.set()
        await asyncio.get_running_loop().create_future()  # wait for cancellation: returning would end the run

    async def _feed_by(self, producer: Any) -> None:
        while not self._is_fed():
            upto = min(self.sent + 200, self._gate)
            if upto <= self.sent:
                await asyncio.sleep(TRICKLE / TRICKLE_PER_S)
                upto = self.sent + TRICKLE if self.sent - len(self.watch.ended) < self._backlog else self.sent
            batch = map(news, range(self.sent, upto))
            await asyncio.gather(*[await producer.send(self._at.topics.news, value, key=key) for key, value in batch])
            self.sent = upto

    def _is_fed(self) -> bool:
        return self._all_injected and self.sent >= self._shape.cases

    async def _report(self) -> None:
        while True:
            await asyncio.sleep(SAY_EVERY_S)
            opened, ended = len(self.watch.opened), len(self.watch.ended)
            asked, answered = len(self.watch.asked), len(self.watch.answered)
            self._say(
                f"{ended:,} cases ended, {opened - ended:,} open, {len(self.watch.seen):,} signals seen; "
                f"{answered:,} questions and investigations ended, {asked - answered:,} open"
            )


def news(number: int) -> tuple[bytes, bytes]:
    """Return (key, value) of one news item of the stream."""
    item = {
        "source": "chaos",
        "external_id": str(number),
        "text": f"chaos news number {number}",
        "published_at": "2026-01-01T00:00:00Z",
        "language": "en",
    }
    return f"chaos:{number}".encode(), msgspec.json.encode(item)


async def chaos(shape: Shape, *, say: Say, keep: bool = False) -> Outcome:
    """Run it. The data directory is removed afterwards unless ``keep``.

    Raises:
        ConfigError: a server does not start.
    """
    directory = Path(tempfile.mkdtemp(prefix="newsproof-chaos-"))
    began = time.monotonic()
    say(f"chaos: seed {shape.seed}, {shape.cases:,} cases, {shape.workers} workers, in {directory}")

    def say_when(text: str) -> None:
        say(f"{time.monotonic() - began:6.0f} s  {text}")

    try:
        async with installation(directory, shape, say_when) as at:
            run = Run(at, shape, say_when)
            await run.drive()
            say_when("reading the logs")
            outcome = await verdict(at, run.watch, run.injector, run.asker, run.findings)
            return replace(outcome, seconds=round(time.monotonic() - began, 1))
    finally:
        if keep:
            say(f"kept: {directory}")
        else:
            shutil.rmtree(directory, ignore_errors=True)
