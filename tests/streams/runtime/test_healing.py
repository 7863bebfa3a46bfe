"""Healing in the real runtime: news waits while nothing can be triaged, and what one worker searched for all know."""

from __future__ import annotations

from msgspec.structs import replace

from schemas.errors import TransientError
from streams.effects.breakers import BreakerPolicy
from tests.plain_graph import ports_of
from tests.streams.effects.test_effects import Provider
from tests.streams.graphs import degrading
from tests.streams.world import World

AWAY = TransientError("away", kind="unavailable", status=503)


async def test_news_waits_while_no_model_answers_and_is_worked_when_one_does(world: World) -> None:
    model = Provider("model", AWAY, mode="simulated")
    ports = ports_of(model)
    # Waits a hundredth as long as in production: probes every 0.3 s at most, while no case comes near its deadline.
    slow = BreakerPolicy()
    quick = replace(slow, **{n: getattr(slow, n) / 100 for n in slow.__struct_fields__ if n.endswith("_s")})
    async with world.working(degrading(asks=True), ports=ports, breakers=quick) as worker:
        await world.publish(*range(10))
        await world.until(lambda: worker.effects.outage() is not None)
        await world.publish(*range(10, 30))
        await world.until(lambda: worker.intake_paused == "outage")
        assert worker.intake.opened < 30
        model.script = []
        report = await world.until_closed(30, within_s=60.0)
        assert worker.effects.outage() is None and worker.intake_paused is None
    assert (report.cases, report.failed, report.lost) == (30, 0, 0)
    [state] = worker.breakers()
    assert (state.kind, state.provider, state.state) == ("model", "model", "closed") and state.opened >= 1
