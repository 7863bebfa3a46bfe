"""A snapshot adopted by a running worker: new cases pin it, cases that are open keep theirs."""

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from infra.offline.simulated import Simulated
from infra.ports import Answer, Ports
from schemas.effects import CallModel
from schemas.events import EventReceived
from tests.streams.graphs import degrading
from tests.streams.world import QUICK, World

ADOPTED = replace(QUICK, search_providers=("simulated", "another"))


class Held(Simulated):
    """Answers no model call before it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.go = asyncio.Event(), asyncio.Event()

    async def perform(self, effect: object) -> Answer:
        if isinstance(effect, CallModel):
            self.asked.set()
            await self.go.wait()
        return await super().perform(effect)


async def test_new_cases_pin_what_was_adopted_and_open_ones_keep_theirs(world: World) -> None:
    held = Held()
    ports = Ports(models={"light": held, "heavy": held}, search={"simulated": held}, recall=held, earlier=held)
    async with world.working(degrading(asks=True), ports=ports) as worker:
        await world.publish("before")
        await asyncio.wait_for(held.asked.wait(), 60)
        assert await worker.adopt(ADOPTED) == ADOPTED.config_hash != QUICK.config_hash
        await world.publish("after")
        held.go.set()
        await world.until_closed(2, within_s=60)
        pinned = {e.news.external_id: e.config_hash for e in await world.story() if isinstance(e, EventReceived)}
        assert pinned == {"item-before": QUICK.config_hash, "item-after": ADOPTED.config_hash}
        assert worker.configs.get(ADOPTED.config_hash) == ADOPTED
