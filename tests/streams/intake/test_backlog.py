"""A backlog that is larger than every buffer on the way."""

from __future__ import annotations

import asyncio
import time

import pytest

from streams.intake import intake
from streams.intake.intake import MAX_UNCOMMITTED
from streams.worker import Worker
from tests.plain_graph import plain_registry
from tests.streams.graphs import Gate
from tests.streams.world import World, leave_at_once

HANGS_S = 20
HIGH_WATER = 2000
"""Lower than the product's, so that the backlog need not be larger still."""
FETCHED_AT_ONCE = 3000
"""``broker_max_poll_records``: what one poll brings is handed on, although its partition is held back meanwhile."""
BACKLOG = 14_000
"""More than Faust's stream buffer (16,384 / 1.25) takes before it holds a partition back."""


async def test_a_backlog_waits_in_kafka_and_not_in_memory_and_is_worked_off(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While no case ends, of 14,000 news as many are held as the marks say: counted, not weighed."""
    # Held back by a type of its own, Faust's consumer once ended in an assertion here.
    monkeypatch.setattr(intake, "HIGH_WATER", HIGH_WATER)
    gate = Gate()
    await world.publish(*range(BACKLOG))
    async with world.working(plain_registry(asks=True), ports=gate.ports(), max_open_cases=50) as worker:
        await world.until(lambda: worker.admission.full and _is_held_back(worker), within_s=60)
        for held in held_in_memory(worker):
            assert HIGH_WATER <= held <= HIGH_WATER + FETCHED_AT_ONCE < BACKLOG / world.partitions
        assert worker.projector.open_cases <= worker.admission.held == worker.admission.most_held <= 50
        gate.opened.set()
        await world.until(lambda: worker.projector.folded > 3000, within_s=60)
        leave_at_once(worker)


def held_in_memory(worker: Worker) -> list[int]:
    """News that each partition of intake holds."""
    return [len(p.waiting) for p in worker.intake._news.values()]


def _is_held_back(worker: Worker) -> bool:
    held = held_in_memory(worker)
    return len(held) == 2 and min(held) >= HIGH_WATER


@pytest.mark.timeout(HANGS_S)
async def test_intake_goes_on_when_its_oldest_append_is_done_but_not_yet_counted(world: World) -> None:
    # Awaiting a future that is done gives nobody else a turn: waiting for its callback like that never ended.
    async with world.working(plain_registry(asks=False)) as worker:
        await world.until(lambda: len(worker.intake._news) == world.partitions and _loaded(worker))
        partition = worker.intake._news[0]
        for offset in range(MAX_UNCOMMITTED):
            done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            done.set_result(None)
            partition.under_way.append([offset, done])
        began = time.monotonic()
        await world.publish(*range(20))
        await world.until_closed(20)
        assert time.monotonic() - began < HANGS_S / 2, "the event loop got no turn until the test's own alarm broke in"


def _loaded(worker: Worker) -> bool:
    return all(p.safe is not None for p in worker.intake._news.values())
