"""The wall clock is set by an hour under open cases: nobody ends them for it, and nothing is lost."""

from __future__ import annotations

from datetime import timedelta

import pytest

from schemas import events as ev
from schemas.config import Snapshot
from streams import worker as worker_module
from streams.journal.clock import utc_now
from streams.runtime import deadlines
from tests.streams.graphs import Gate, degrading
from tests.streams.world import World

HOUR = timedelta(hours=1)


@pytest.mark.parametrize("by", [HOUR, -HOUR], ids=["ahead", "back"])
async def test_cases_that_are_open_when_the_clock_jumps_are_decided(
    world: World, monkeypatch: pytest.MonkeyPatch, by: timedelta
) -> None:
    gate, jumped = Gate(), timedelta(0)
    monkeypatch.setattr(worker_module, "utc_now", lambda: utc_now() + jumped)
    snapshot = Snapshot(provider_mode="simulated", case_deadline_seconds=60.0)
    async with world.working(degrading(asks=True), ports=gate.ports(), snapshot=snapshot) as worker:
        await world.publish(1, 2)
        await world.until(lambda: worker.projector.open_cases == 2)
        jumped = by
        swept = worker.dispatcher.sweep
        sweeps: list[object] = []
        monkeypatch.setattr(worker.dispatcher, "sweep", lambda now: (swept(now), sweeps.append(now)))
        await world.until(lambda: len(sweeps) > 1)
        gate.opened.set()
        await world.publish(3)
        report = await world.until_closed(3)
    assert (report.degraded, report.failed, report.lost, report.duplicate_events) == (0, 0, 0, 0)
    assert not [e for e in await world.story() if isinstance(e, ev.StepFailed)]


async def test_a_case_that_hangs_ends_within_the_grace_after_a_jump_ahead(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, jumped = Gate(), timedelta(0)
    monkeypatch.setattr(worker_module, "utc_now", lambda: utc_now() + jumped)
    monkeypatch.setattr(deadlines, "LIVE_GRACE", timedelta(seconds=3))
    snapshot = Snapshot(provider_mode="simulated", case_deadline_seconds=60.0)
    async with world.working(degrading(asks=True), ports=gate.ports(), snapshot=snapshot) as worker:
        await world.publish(1)
        await world.until(lambda: worker.projector.open_cases == 1)
        jumped = HOUR
        report = await world.until_closed(1)
    assert report.lost == 0
    assert {e.failure.kind for e in await world.story() if isinstance(e, ev.StepFailed)} == {"deadline"}
