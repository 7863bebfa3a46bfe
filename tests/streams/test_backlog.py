"""A backlog that is larger than every buffer on the way."""

from __future__ import annotations

import asyncio
import time

import pytest

from newsproof.bench.graph import plain_registry
from streams.intake import MAX_UNCOMMITTED
from streams.worker import Worker
from tests.streams.world import World

HANGS_S = 20
BACKLOG = 14_000
"""More than Faust's stream buffer (16,384 / 1.25) takes before it holds a partition back."""


async def test_a_backlog_larger_than_the_stream_buffer_is_held_back_and_worked_off(world: World) -> None:
    # Held back by a type of its own, Faust's consumer once ended in an assertion here.
    await world.publish(*range(BACKLOG))
    async with world.working(plain_registry(asks=False), max_open_cases=500) as worker:
        await world.until(lambda: worker.projector.folded > 3000, within_s=60)
        assert worker.projector.open_cases <= 500


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
