"""What the budget settles is what the provider bills, also when workers are killed between an answer and its settlement."""

from __future__ import annotations

import asyncio
import os
import random
import re
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from zlib import crc32

import pytest

from infra.kafka.topics import KafkaAddress, offsets_of, read_range
from schemas.budget import Reserved, Settled, decode
from schemas.topics import Topics
from tests.conformance.gemini import GeminiServer
from tests.conformance.rows import cut_short, good
from tests.infra.fakes.server import Behaviour, Received

CHECKOUT = Path(__file__).parents[2]
CALLS = 10_000
KILLS = 8
WORKERS = 2
_CASE = re.compile(rb"case (w\d+-\d+):")


def case_of(body: bytes) -> str:
    found = _CASE.search(body)
    assert found is not None, body
    return found[1].decode()


def answer(server: GeminiServer, request: Received) -> Behaviour:
    """Answer well, blocked, useless, uncounted, cut or not at all, by lot but for each case alike."""
    lot = crc32(case_of(request.body).encode()) % 100
    if lot < 3:
        return cut_short(server, request)
    if lot < 5:
        return server.error(503)
    if lot < 10:
        return server.reply(request, finish="SAFETY")
    if lot < 15:
        return server.reply(request, {"text": "Hm.", "thought": True})
    if lot < 18:
        return server.reply(request, {"text": "Yes."}, usageMetadata=None)
    if lot < 30:
        return server.reply(request, {"text": "so " * (lot * 50)})
    return good(server, request)


@dataclass
class Workers:
    """Keeps ``WORKERS`` processes paying; kills one at each of ``kill_at``, counted in requests, in the midst of them."""

    command: list[str]
    kill_at: set[int]
    alive: dict[str, asyncio.subprocess.Process] = field(default_factory=dict)
    started: int = 0
    killed: int = 0
    enough: asyncio.Event = field(default_factory=asyncio.Event)

    def situation(self, server: GeminiServer, request: Received) -> Behaviour:
        served = len(server.requests)
        if served in self.kill_at:
            # The one that asks, else another: its calls are at every stage between grant and settlement.
            asking = self.alive.get(case_of(request.body).partition("-")[0])
            (asking or next(iter(self.alive.values()))).kill()
        if served >= CALLS:
            self.enough.set()
        return answer(server, request)

    async def keep(self) -> None:
        """Replace a worker that was killed, until there were enough calls; let the last ones end in order."""
        async with asyncio.TaskGroup() as group:
            for _ in range(WORKERS):
                group.create_task(self._keep_one())

    async def _keep_one(self) -> None:
        while not self.enough.is_set():
            name = f"w{self.started}"
            self.started += 1
            worker = await asyncio.create_subprocess_exec(
                *self.command,
                name,
                stdin=asyncio.subprocess.PIPE,
                cwd=CHECKOUT,
                env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
            )
            self.alive[name] = worker
            ended, enough = asyncio.create_task(worker.wait()), asyncio.create_task(self.enough.wait())
            try:
                await asyncio.wait((ended, enough), return_when=asyncio.FIRST_COMPLETED)
                if not ended.done():
                    assert worker.stdin is not None
                    worker.stdin.close()
                status = await ended
            finally:
                enough.cancel()
                if worker.returncode is None:
                    worker.kill()
            del self.alive[name]
            self.killed += status < 0
            assert status in (0, -9), f"worker {name} ended with {status}"


@asynccontextmanager
async def paying(address: KafkaAddress, topics: Topics) -> AsyncIterator[tuple[GeminiServer, Workers]]:
    draw, between = random.Random(15), CALLS // (KILLS + 1)
    kill_at = {n * between + draw.randrange(between // 2) for n in range(1, KILLS + 1)}
    workers = Workers([], kill_at)
    async with GeminiServer(workers.situation) as server:
        where = [*address.as_environment().values(), topics.prefix, server.url]
        workers.command = [sys.executable, "-m", "tests.conformance.billed_worker", *where]
        yield server, workers


async def records_of(address: KafkaAddress, topics: Topics) -> tuple[dict[str, Reserved], dict[str, Settled]]:
    """Return the reservations by case, and the first settlement of each by its id."""
    reserved: dict[str, Reserved] = {}
    settled: dict[str, Settled] = {}
    async for _, records in read_range(address, await offsets_of(address, topics.budget)):
        for record in records:
            match decode(record.value):
                case Reserved() as asked:
                    assert asked.case_id not in reserved
                    reserved[asked.case_id] = asked
                case Settled() as paid:
                    settled.setdefault(paid.id, paid)
    return reserved, settled


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_ten_thousand_calls_with_kills_settle_to_what_was_billed(
    address: KafkaAddress, made_topics: Topics, record_property: Callable[[str, object], None]
) -> None:
    async with paying(address, made_topics) as (server, workers):
        await workers.keep()
    assert (server.refusals, server.broken) == ([], [])
    bills = {case_of(bill.request): bill.usd for bill in server.bills}
    assert len(server.requests) >= CALLS
    assert len(bills) == len(server.bills), "no call is paid twice"
    reserved, settled = await records_of(address, made_topics)
    assert set(bills) <= set(reserved), "nothing is asked without a grant"
    assert all(bills[case] <= (reserved[case].usd or 0) for case in bills), "nothing costs more than was reserved"
    said = {case: paid.usd for case, grant in reserved.items() if (paid := settled.get(grant.id)) is not None}
    exact = {case: usd for case, usd in said.items() if usd is not None}
    wrong = {case: (usd, bills.get(case)) for case, usd in exact.items() if usd != bills.get(case, 0)}
    assert wrong == {}, "settled at another amount than was billed"
    paid = sum(exact.values(), Decimal(0))
    held = sum((grant.usd or Decimal(0) for case, grant in reserved.items() if case not in exact), Decimal(0))
    assert paid + held >= server.billed_usd > paid
    lost = bills.keys() - said.keys()
    assert workers.killed == KILLS
    assert lost, "a kill came between an answer and its settlement"
    figures = {"calls": len(server.requests), "settled": len(exact), "lost": len(lost), "paid": paid, "held": held}
    for name, value in {**figures, "billed": server.billed_usd}.items():
        record_property(name, str(value))
