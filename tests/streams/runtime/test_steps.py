"""Steps that fail, hang, lie or need several effects: what the runtime makes of them on the real log."""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest

from agents.core.case import Case, Replies
from agents.core.failures import JITTER
from agents.core.step import StepRequest
from infra.offline.simulated import Simulated
from infra.ports import Answer
from schemas import events as ev
from schemas.config import Snapshot
from schemas.effects import CallModel, ModelReply, Trusted, request_hash
from schemas.errors import PermanentError, TransientError
from tests.builders import call_model
from tests.plain_graph import ports_of
from tests.streams.graphs import asking, degrading
from tests.streams.world import QUICK, World, leave_at_once


def model_call(case: Case, task: str) -> CallModel:
    return call_model(task, Trusted(case.case_id))


class Scripted(Simulated):
    """Answers a task's n-th call by what is scripted for it: an exception to raise, an event to wait for, or plainly."""

    def __init__(self, **script: list[Any]) -> None:
        super().__init__()
        self.script = script
        self.asked: Counter[str] = Counter()

    async def perform(self, effect: Any) -> Answer:
        self.asked[effect.task] += 1
        planned = self.script.get(effect.task, [])
        now = planned[self.asked[effect.task] - 1] if self.asked[effect.task] <= len(planned) else None
        if isinstance(now, asyncio.Event):
            await now.wait()
        if isinstance(now, Exception):
            raise now
        return await super().perform(effect)


def names(story: list[Any]) -> list[str]:
    return [type(e).__name__ for e in story]


async def test_a_transient_failure_is_logged_and_retried_after_a_growing_wait_then_degrades(world: World) -> None:
    port = Scripted(triage=[TransientError("busy", kind="unavailable")] * 9)
    async with world.working(degrading(asks=True), ports=ports_of(port)):
        await world.publish(1)
        report = await world.until_closed(1)
    story = await world.story()
    failures = [e for e in story if isinstance(e, ev.StepFailed)]
    assert [(f.attempt, f.outcome) for f in failures] == [(1, "retry"), (2, "retry"), (3, "degrade")]
    assert port.asked == {"triage": QUICK.step_max_attempts}
    assert names(story)[-2:] == ["CaseDegraded", "SignalSynthesized"]
    assert (report.degraded, report.lost) == (1, 0)
    waits = [f.retry_at - f.calls[0].replied_at for f in failures if f.retry_at is not None]
    assert 2 * waits[0] / (1 + JITTER) * 0.8 <= waits[1], "the wait doubles"
    for failed, retried in pairwise(failures):
        assert failed.retry_at is not None and retried.calls[0].replied_at >= failed.retry_at


async def test_a_permanent_failure_degrades_at_once(world: World) -> None:
    port = Scripted(plan=[PermanentError("wrong key", kind="auth")])
    async with world.working(degrading(asks=True), ports=ports_of(port)):
        await world.publish(1)
        await world.until_closed(1)
    story = await world.story()
    assert names(story)[-3:] == ["StepFailed", "CaseDegraded", "SignalSynthesized"]
    assert port.asked["plan"] == 1


async def test_a_step_that_raises_fails_its_own_case_alone_and_what_it_has_paid_for_stays_in_the_log(
    world: World,
) -> None:
    def broken_ask(case: Case) -> StepRequest:
        if case.news.text == "news number 3":
            raise KeyError("a bug in the step")
        return model_call(case, "recall")

    def broken_tell(case: Case, _replies: Replies) -> ev.Event:
        if case.news.text == "news number 4":
            raise ZeroDivisionError
        return ev.ContextGathered(entries=(), memory="no_match")

    async with world.working(degrading(asks=True, recall=asking(broken_ask, broken_tell))):
        await world.publish(*range(6))
        report = await world.until_closed(6)
    assert (report.degraded, report.failed, report.lost) == (2, 0, 0)
    stories = [await world.story(of_text=f"news number {n}") for n in (3, 4)]
    asked, told = (next(e for e in story if isinstance(e, ev.StepFailed)) for story in stories)
    assert (asked.failure.kind, asked.outcome, asked.calls) == ("internal", "degrade", ())
    assert "a bug in the step" in asked.failure.message
    assert len(told.calls) == 1 and told.calls[0].paid


async def test_when_nothing_works_the_case_ends_as_failed_with_a_dead_letter(world: World) -> None:
    port = Scripted(
        triage=[PermanentError("wrong key", kind="auth")], single=[PermanentError("wrong key", kind="auth")]
    )
    single = asking(lambda c: model_call(c, "single"))
    async with world.working(degrading(asks=True, single_pass=single), ports=ports_of(port)):
        await world.publish(1)
        report = await world.until_closed(1)
    assert names(await world.story())[-3:] == ["CaseDegraded", "StepFailed", "CaseFailed"]
    [letter] = await world.letters()
    assert (letter["dl_reason"], letter["dl_consumer"]) == ("case_failed", "worker")
    assert "wrong key" in letter["dl_why"]
    assert (report.failed, report.lost) == (1, 0)


def several(case: Case) -> StepRequest:
    return tuple(model_call(case, task) for task in ("one", "two", "three"))


async def test_a_step_of_several_effects_repeats_only_what_is_missing_after_one_failure(world: World) -> None:
    def together(case: Case, replies: Replies) -> ev.Event:
        from agents.core.step import needed

        assert all(needed(replies.of(e), ModelReply) for e in several(case))  # type: ignore[union-attr]
        return ev.ContextGathered(entries=(), memory="no_match")

    port = Scripted(two=[TransientError("busy", kind="unavailable")])
    async with world.working(degrading(asks=True, recall=asking(several, together)), ports=ports_of(port)):
        await world.publish(1)
        report = await world.until_closed(1)
    assert [port.asked[t] for t in ("one", "two", "three")] == [1, 2, 1]
    story = await world.story()
    done = [e for e in story if isinstance(e, ev.EffectCompleted)]
    assert len(done) == 4 and all(e.request_hash == e.calls[0].request_hash for e in done)
    assert [type(e).__name__ for e in story if isinstance(e, ev.StepFailed | ev.ContextGathered)] == [
        "StepFailed",
        "ContextGathered",
    ]
    assert (report.repeated_calls, report.repeated_records, report.degraded) == (0, 0, 0)


async def test_replies_of_several_effects_survive_a_restart_and_only_the_missing_one_is_asked_again(
    world: World,
) -> None:
    def together(_case: Case, replies: Replies) -> ev.Event:
        assert len(replies.calls) == 3
        return ev.ContextGathered(entries=(), memory="no_match")

    registry = degrading(asks=True, recall=asking(several, together))
    held = Scripted(three=[asyncio.Event()])
    async with world.working(registry, ports=ports_of(held)) as worker:
        await world.publish(1)
        await world.until(lambda: _effects_logged(world, 2))
        leave_at_once(worker)
    port = Scripted()
    async with world.working(registry, ports=ports_of(port)):
        report = await world.until_closed(1)
    assert (held.asked["one"], held.asked["two"], held.asked["three"]) == (1, 1, 1)
    assert (port.asked["one"], port.asked["two"], port.asked["three"]) == (0, 0, 1)
    assert report.repeated_calls == 0
    effects = [e for e in await world.story() if isinstance(e, ev.EffectCompleted)]
    assert len({e.request_hash for e in effects}) == len(effects) == 3


async def _effects_logged(world: World, count: int) -> bool:
    return sum(isinstance(e, ev.EffectCompleted) for e in await world.story()) >= count


@pytest.mark.slow
async def test_a_case_whose_last_resort_hangs_ends_as_failed_at_its_deadline(world: World) -> None:
    port = Scripted(recall=[PermanentError("no", kind="invalid_request")], single=[asyncio.Event()])
    brief = Snapshot(provider_mode="simulated", case_deadline_seconds=2.5)
    single = asking(lambda c: model_call(c, "single"))
    async with world.working(degrading(asks=True, single_pass=single), ports=ports_of(port), snapshot=brief):
        await world.publish(1)
        report = await world.until_closed(1)
    story = await world.story()
    assert names(story)[-1] == "CaseFailed"
    last = story[-2]
    assert isinstance(last, ev.StepFailed) and last.failure.kind == "deadline"
    assert (report.failed, report.lost, report.dead_letters) == (1, 0, 1)


async def test_equal_requests_have_one_hash_so_a_tuple_of_equals_is_asked_once(world: World) -> None:
    twice = asking(
        lambda c: (model_call(c, "one"), model_call(c, "one")),
        lambda _c, _r: ev.ContextGathered(entries=(), memory="no_match"),
    )
    port = Scripted()
    async with world.working(degrading(asks=True, recall=twice), ports=ports_of(port)):
        await world.publish(1)
        report = await world.until_closed(1)
    assert port.asked["one"] == 1
    [effect] = [e for e in await world.story() if isinstance(e, ev.EffectCompleted)]
    case = next(e for e in await world.story() if isinstance(e, ev.EventReceived)).news.case_id
    same = CallModel(task="one", tier="light", prompt_name="one", prompt_version="1", prompt_hash="0", system="",
                     parts=(Trusted(case),))  # fmt: skip
    assert effect.request_hash == request_hash(same)
    assert report.repeated_calls == 0
