"""A suspect that runs alone: a crash convicts it, a rebalance or an orderly end of its worker does not."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from schemas import events as ev
from schemas.ids import LIVE_RUN, uuid5
from schemas.news import News
from tests.streams.graphs import Gate, degrading
from tests.streams.world import World, leave_at_once, news

AFTER = 3
SUSPECT, OTHER = news("suspect"), news("other")


def case_of(item: dict[str, Any]) -> str:
    return msgspec.convert(item, News).case_id


def remember_crashes(world: World, slot: str) -> None:
    """As if this slot's worker had died at the suspect's opening again and again."""
    world.slots.mkdir(parents=True, exist_ok=True)
    head = uuid5("opening", LIVE_RUN, case_of(SUSPECT))
    (world.slots / f"slot-{slot}.crashes").write_text(f"{head} {AFTER}\n")


def slow() -> Gate:
    """A provider that keeps the suspect's first step waiting until it is opened."""
    return Gate(lambda effect: effect.task == "triage" and effect.parts[0].text == case_of(SUSPECT))


async def started(world: World) -> list[bool]:
    """For each ``StepStarted`` of the suspect, whether it hands back."""
    story = await world.story(of_case=case_of(SUSPECT))
    return [e.handed_back for e in story if isinstance(e, ev.StepStarted)]


async def assert_innocent(world: World, port: Gate) -> None:
    report = await world.until_closed(2)
    assert (report.degraded, report.failed, report.lost) == (0, 0, 0)
    story = await world.story(of_case=case_of(SUSPECT))
    assert not [e for e in story if isinstance(e, ev.StepFailed | ev.CaseDegraded)]
    assert [e.crashes for e in story if isinstance(e, ev.StepStarted)] == [AFTER] * 3
    assert port.asked == 2, "once for each worker that ran it"


@pytest.mark.slow
async def test_a_rebalance_hands_a_suspect_back_and_it_runs_alone_again_and_is_not_convicted(world: World) -> None:
    port = slow()
    remember_crashes(world, "a")
    async with world.working(degrading(asks=True), ports=port.ports(), slot="a") as a:
        await world.publish(SUSPECT)
        await world.until(lambda: port.asked == 1)
        leave_at_once(a)
        async with world.working(degrading(asks=True), ports=port.ports(), slot="b") as b:
            await world.until(lambda: port.asked == 2)
            assert await started(world) == [False, True, False]
            port.opened.set()
            await world.publish(OTHER)
            await assert_innocent(world, port)
            leave_at_once(b)


@pytest.mark.slow
async def test_a_worker_that_ends_in_order_hands_its_suspect_to_the_next_one(world: World) -> None:
    port = slow()
    remember_crashes(world, "a")
    async with world.working(degrading(asks=True), ports=port.ports(), slot="a") as a:
        await world.publish(SUSPECT, OTHER)
        await world.until(lambda: port.asked == 1)
        leave_at_once(a)
    assert await started(world) == [False, True]
    async with world.working(degrading(asks=True), ports=port.ports(), slot="b") as b:
        await world.until(lambda: port.asked == 2)
        assert b.places.used == 0 and b.dispatcher.running == 1, "nothing runs beside it"
        port.opened.set()
        await assert_innocent(world, port)


@pytest.mark.slow
async def test_a_worker_that_is_gone_without_a_word_convicts_its_suspect(world: World) -> None:
    port = slow()
    remember_crashes(world, "a")
    async with world.working(degrading(asks=True), ports=port.ports(), slot="a") as a:
        await world.publish(SUSPECT)
        await world.until(lambda: port.asked == 1)
        leave_at_once(a)
        a.dispatcher._crash_isolation.hand_back()  # as a SIGKILL, which says nothing either
    async with world.working(degrading(asks=True), ports=port.ports(), slot="b"):
        port.opened.set()
        report = await world.until_closed(1)
    assert report.degraded == 1
    assert await started(world) == [False]
