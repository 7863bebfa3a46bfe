"""A snapshot adopted by a running worker: new cases pin it, cases that are open keep theirs."""

from __future__ import annotations

from msgspec.structs import replace

from schemas.effects import CallModel
from schemas.events import EventReceived
from tests.streams.graphs import Gate, degrading
from tests.streams.world import QUICK, World

ADOPTED = replace(QUICK, search_providers=("simulated", "another"))


async def test_new_cases_pin_what_was_adopted_and_open_ones_keep_theirs(world: World) -> None:
    gate = Gate(lambda effect: isinstance(effect, CallModel))
    async with world.working(degrading(asks=True), ports=gate.ports()) as worker:
        await world.publish("before")
        await world.until(lambda: gate.asked, within_s=60)
        assert await worker.adopt(ADOPTED) == ADOPTED.config_hash != QUICK.config_hash
        await world.publish("after")
        gate.opened.set()
        await world.until_closed(2, within_s=60)
        pinned = {e.news.external_id: e.config_hash for e in await world.story() if isinstance(e, EventReceived)}
        assert pinned == {"item-before": QUICK.config_hash, "item-after": ADOPTED.config_hash}
        assert worker.configs.get(ADOPTED.config_hash) == ADOPTED
