"""Deadlines: every case ends in time, whatever its step does, and what has ended is not remembered."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from agents.core.case import Case, open_case
from infra.offline.simulated import Simulated
from infra.ports import Answer
from schemas import events as ev
from schemas.config import Snapshot
from schemas.errors import TransientError
from schemas.ids import uuid5
from schemas.news import News
from streams.runtime.deadlines import LIVE_GRACE, LOOK_AGAIN, Deadlines
from tests.builders import received
from tests.plain_graph import ports_of
from tests.streams.graphs import degrading
from tests.streams.world import World, news

BRIEF = Snapshot(provider_mode="simulated", case_deadline_seconds=2.5)
NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Deaf(Simulated):
    """At the recall step it does not heed its cancellation before ``wake`` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.wake = asyncio.Event()
        self.ended = asyncio.Event()

    async def perform(self, effect: Any) -> Answer:
        while effect.task == "recall" and not self.wake.is_set():
            try:
                await self.wake.wait()
            except asyncio.CancelledError:
                continue
        if effect.task == "recall":
            self.ended.set()
        return await super().perform(effect)


class Busy(Simulated):
    """At the recall step it always asks to be left alone for longer than a case may last."""

    def __init__(self, retry_after_s: float) -> None:
        super().__init__()
        self.retry_after_s = retry_after_s

    async def perform(self, effect: Any) -> Answer:
        if effect.task == "recall":
            raise TransientError("busy", kind="unavailable", retry_after_s=self.retry_after_s)
        return await super().perform(effect)


@pytest.mark.slow
async def test_a_step_that_does_not_heed_its_cancellation_holds_its_case_no_longer_than_the_deadline(
    world: World,
) -> None:
    port = Deaf()
    async with world.working(degrading(asks=True), ports=ports_of(port), snapshot=BRIEF):
        await world.publish(1)
        report = await world.until_closed(1)
        assert not port.ended.is_set(), "the step was still running when its case had ended"
        port.wake.set()
        await port.ended.wait()
    assert (report.degraded, report.failed, report.lost) == (1, 0, 0)
    [failure] = [e for e in await world.story() if isinstance(e, ev.StepFailed)]
    assert (failure.failure.kind, failure.outcome, failure.step) == ("deadline", "degrade", "recall")


@pytest.mark.slow
async def test_a_step_that_waits_for_its_retry_is_cut_off_by_the_deadline(world: World) -> None:
    """The retry is due before the deadline, but nobody comes to do it."""
    first = Snapshot(provider_mode="simulated", case_deadline_seconds=8.0)
    async with world.working(degrading(asks=True), ports=ports_of(Busy(1.0)), snapshot=first) as worker:
        worker.dispatcher._due = lambda *_: None  # type: ignore[method-assign]
        await world.publish(1)
        report = await world.until_closed(1)
    failures = [e for e in await world.story() if isinstance(e, ev.StepFailed)]
    assert [(f.failure.kind, f.outcome) for f in failures] == [("unavailable", "retry"), ("deadline", "degrade")]
    assert (report.degraded, report.failed) == (1, 0)


async def test_a_wait_that_would_pass_the_deadline_is_not_begun(world: World) -> None:
    async with world.working(degrading(asks=True), ports=ports_of(Busy(3600.0)), snapshot=BRIEF):
        await world.publish(1)
        report = await world.until_closed(1)
    [failure] = [e for e in await world.story() if isinstance(e, ev.StepFailed)]
    assert (failure.failure.kind, failure.outcome, failure.retry_at) == ("unavailable", "degrade", None)
    assert report.degraded == 1


def case(number: int, opened_at: datetime = NOW) -> Case:
    item = msgspec.convert(news(number), News)
    head = uuid5("opening", str(number))
    return open_case(
        received(item), case_id=item.case_id, event_id=head, run_id="live", at=opened_at, config=Snapshot()
    )


def test_deadlines_of_cases_that_ended_are_not_kept() -> None:
    deadlines = Deadlines()
    for number in range(5000):
        deadlines.watch(0, made := case(number))
        deadlines.forget(made.case_id)
    assert len(deadlines) < 200
    deadlines.watch(0, last := case(9999))
    late = NOW + timedelta(days=1)
    assert [entry[1:] for entry in deadlines.passed(late)] == [(last.case_id, False), (last.case_id, True)]


def test_cases_that_are_watched_again_at_every_rebalance_are_kept_once() -> None:
    deadlines = Deadlines()
    cases = [case(number) for number in range(300)]
    for _ in range(50):
        for each in cases:
            deadlines.watch(0, each)
    deadlines.forget(cases[0].case_id)
    assert len(deadlines) == 2 * (len(cases) - 1)


def test_a_case_whose_end_was_passed_by_comes_up_again_until_it_has_ended() -> None:
    deadlines = Deadlines()
    deadlines.watch(0, made := case(1))
    late = made.deadline + timedelta(seconds=1)
    for _ in range(3):
        assert (0, made.case_id, True) in list(deadlines.passed(late))
        deadlines.look_again(0, made.case_id, True, late)
        assert list(deadlines.passed(late)) == []
        late += LOOK_AGAIN
    deadlines.forget(made.case_id)
    assert list(deadlines.passed(late)) == []


def test_a_case_that_was_late_before_its_worker_came_gets_its_grace() -> None:
    deadlines = Deadlines()
    deadlines.watch(0, made := case(1))
    live = made.deadline + timedelta(hours=1)
    assert [deadlines.put_off(made, 0, last, live, live) for _, _, last in list(deadlines.passed(live))] == [True, True]
    assert list(deadlines.passed(live + LIVE_GRACE / 4)) == []
    assert [last for _, _, last in deadlines.passed(live + LIVE_GRACE)] == [False, True]
