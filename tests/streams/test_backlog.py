"""A backlog that is larger than every buffer on the way."""

from __future__ import annotations

from newsproof.bench.graph import plain_registry
from tests.streams.world import World

BACKLOG = 14_000
"""More than Faust's stream buffer (16,384 / 1.25) takes before it holds a partition back."""


async def test_a_backlog_larger_than_the_stream_buffer_is_held_back_and_worked_off(world: World) -> None:
    # Held back by a type of its own, Faust's consumer once ended in an assertion here.
    await world.publish(*range(BACKLOG))
    async with world.working(plain_registry(asks=False), max_open_cases=500) as worker:
        await world.until(lambda: worker.projector.folded > 3000, within_s=60)
        assert worker.projector.open_cases <= 500
