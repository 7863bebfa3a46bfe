"""The circuit breaker on a clock of its own: when it opens and for how long, one probe at a time, what it tells."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from schemas.effects import Failure, ModelReply, Reply
from schemas.errors import FailureKind
from streams.effects.breakers import Breaker, BreakerPolicy, Breakers, Permit
from streams.wake import Wake

START = datetime(2026, 1, 1, tzinfo=UTC)
FINE = ModelReply(text="fine")
POLICY = BreakerPolicy()


class Clock:
    def __init__(self) -> None:
        self.s = 1000.0

    def __call__(self) -> float:
        return self.s

    def now(self) -> datetime:
        return START + timedelta(seconds=self.s - 1000.0)


def made(clock: Clock, *, draw: float = 0.0, wake: Wake | None = None) -> tuple[Breakers, Breaker]:
    every = Breakers(POLICY, wake=wake, clock=clock, now=clock.now, draw=lambda: draw)
    return every, every.of("model", "gemini", "flash")


def failure(kind: FailureKind, after: float | None = None) -> Failure:
    return Failure(kind=kind, message=f"it was {kind}", retryable=True, retry_after_s=after)


async def ask(breaker: Breaker, reply: Reply) -> Permit | Failure:
    """One call, if it is let through."""
    permit = await breaker.enter(wait=False)
    if isinstance(permit, Permit):
        breaker.record_result(permit, reply)
    return permit


async def opened(breaker: Breaker, kind: FailureKind = "unavailable", after: float | None = None) -> None:
    while breaker.view().state == "closed":
        await ask(breaker, failure(kind, after))


@pytest.mark.parametrize("kind", ["timeout", "network", "unavailable"])
async def test_it_opens_after_so_many_failures_in_a_row_and_a_success_begins_the_count_anew(kind: FailureKind) -> None:
    _, breaker = made(Clock())
    for _ in range(POLICY.failures_in_a_row - 1):
        await ask(breaker, failure(kind))
    await ask(breaker, FINE)
    for _ in range(POLICY.failures_in_a_row - 1):
        await ask(breaker, failure(kind))
    assert breaker.view().state == "closed"
    await ask(breaker, failure(kind))
    state = breaker.view()
    assert (state.state, state.reason, state.failures, state.opened) == ("open", kind, POLICY.failures_in_a_row, 1)


async def test_it_opens_when_half_of_the_calls_fail_although_never_many_in_a_row() -> None:
    _, breaker = made(Clock())
    asked = 0
    while breaker.view().state == "closed":
        await ask(breaker, failure("timeout") if asked % 2 else FINE)
        asked += 1
    assert asked == POLICY.window_calls


async def test_failures_that_are_long_past_count_for_nothing() -> None:
    clock = Clock()
    _, breaker = made(clock)
    for n in range(10 * POLICY.window_calls):
        await ask(breaker, failure("timeout") if n % 2 else FINE)
        clock.s += POLICY.window_s / 10
    assert breaker.view().state == "closed"


@pytest.mark.parametrize("kind", ["invalid_output", "refused", "too_large", "invalid_request", "budget", "blocked"])
async def test_failures_that_say_nothing_of_the_provider_never_open_it(kind: FailureKind) -> None:
    _, breaker = made(Clock())
    for _ in range(100):
        await ask(breaker, failure(kind))
    assert breaker.view().state == "closed"


@pytest.mark.parametrize("kind", ["auth", "plan_limit", "not_open"])
async def test_a_refused_key_or_plan_opens_it_at_once_and_for_long(kind: FailureKind) -> None:
    clock = Clock()
    _, breaker = made(clock)
    await ask(breaker, failure(kind))
    clock.s += POLICY.refused_s - 1
    assert isinstance(await ask(breaker, FINE), Failure)
    clock.s += 1
    assert isinstance(await ask(breaker, failure(kind)), Permit)
    assert breaker.view().next_probe == clock.now() + timedelta(seconds=2 * POLICY.refused_s)


@pytest.mark.parametrize("draw", [0.0, 0.999])
async def test_after_a_429_nothing_is_asked_before_the_time_that_it_named(draw: float) -> None:
    clock = Clock()
    _, breaker = made(clock, draw=draw)
    await ask(breaker, failure("rate_limit", 34.5))
    clock.s += 34.4
    refusal = await ask(breaker, FINE)
    assert isinstance(refusal, Failure) and refusal.kind == "breaker_open" and refusal.retryable
    assert refusal.retry_after_s is not None and refusal.retry_after_s > 0
    clock.s += refusal.retry_after_s + 0.01
    assert isinstance(await ask(breaker, FINE), Permit) and breaker.view().state == "closed"


async def test_a_wait_for_the_next_day_is_not_spread_over_hours() -> None:
    clock = Clock()
    _, breaker = made(clock, draw=0.999)
    await ask(breaker, failure("rate_limit", 20 * 3600))
    next_probe = breaker.view().next_probe
    assert next_probe is not None
    late_s = (next_probe - clock.now()).total_seconds() - 20 * 3600
    assert 0 < late_s <= POLICY.jitter * POLICY.refused_max_s


async def test_a_longer_wish_that_comes_late_is_heeded_and_other_late_failures_change_nothing() -> None:
    clock = Clock()
    _, breaker = made(clock)
    late = [await breaker.enter(wait=False) for _ in range(3)]
    assert all(isinstance(p, Permit) for p in late)
    await ask(breaker, failure("rate_limit", 10))
    before = breaker.view()
    replies: tuple[Reply, ...] = (failure("timeout"), FINE, failure("rate_limit", 60))
    for permit, reply in zip(late, replies, strict=True):
        assert isinstance(permit, Permit)
        assert breaker.view().next_probe == before.next_probe
        breaker.record_result(permit, reply)
    state = breaker.view()
    assert (state.opened, state.next_probe) == (1, clock.now() + timedelta(seconds=60))


async def test_each_failed_probe_doubles_the_time_up_to_the_most_and_a_good_one_starts_over() -> None:
    clock = Clock()
    _, breaker = made(clock)
    await opened(breaker)
    waits = []
    for _ in range(6):
        refusal = await breaker.enter(wait=False)
        assert isinstance(refusal, Failure) and refusal.retry_after_s is not None
        waits.append(refusal.retry_after_s)
        clock.s += refusal.retry_after_s
        await ask(breaker, failure("timeout"))
    assert waits == [5.0, 10.0, 20.0, 30.0, 30.0, 30.0]
    clock.s += 30.0
    await ask(breaker, FINE)
    await opened(breaker)
    assert breaker.view().next_probe == clock.now() + timedelta(seconds=5)


async def test_half_open_lets_exactly_one_through_and_its_outcome_decides_for_all_who_wait() -> None:
    clock = Clock()
    _, breaker = made(clock)
    await opened(breaker)
    clock.s += 5.0
    probe = await breaker.enter(wait=False)
    assert isinstance(probe, Permit) and probe.probe and breaker.view().state == "half_open"
    assert isinstance(await breaker.enter(wait=False), Failure), "who has another provider to ask does not wait"
    waiting = [asyncio.ensure_future(breaker.enter(wait=True)) for _ in range(50)]
    await asyncio.sleep(0)
    assert not any(w.done() for w in waiting)
    waiting[0].cancel()
    breaker.record_result(probe, FINE)
    got = await asyncio.gather(*waiting, return_exceptions=True)
    assert isinstance(got[0], asyncio.CancelledError) and all(isinstance(g, Permit) for g in got[1:])
    assert breaker.view().state == "closed"


async def test_who_waits_for_a_probe_that_fails_is_refused() -> None:
    clock = Clock()
    _, breaker = made(clock)
    await opened(breaker)
    clock.s += 5.0
    probe = await breaker.enter(wait=True)
    waiting = [asyncio.ensure_future(breaker.enter(wait=True)) for _ in range(5)]
    await asyncio.sleep(0)
    assert isinstance(probe, Permit)
    breaker.record_result(probe, failure("unavailable"))
    assert all(isinstance(r, Failure) and r.kind == "breaker_open" for r in await asyncio.gather(*waiting))


async def test_a_probe_that_was_given_up_leaves_its_place_to_one_of_those_who_wait() -> None:
    clock = Clock()
    _, breaker = made(clock)
    await opened(breaker)
    clock.s += 5.0
    probe = await breaker.enter(wait=True)
    waiting = [asyncio.ensure_future(breaker.enter(wait=True)) for _ in range(3)]
    await asyncio.sleep(0)
    assert isinstance(probe, Permit)
    breaker.abandoned(probe)
    done, still = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    [second] = [d.result() for d in done]
    assert isinstance(second, Permit) and second.probe and len(still) == 2
    breaker.record_result(second, FINE)
    assert all(isinstance(w, Permit) and not w.probe for w in await asyncio.gather(*still))


async def test_its_state_is_told_to_whoever_asks_and_each_change_to_its_owner() -> None:
    clock = Clock()
    wake, changes = Wake(), list[str]()
    every, breaker = made(clock, wake=wake)
    wake.subscribe(lambda: changes.append(breaker.view().state))
    assert every.of("model", "gemini", "flash") is breaker
    assert every.of("model", "gemini", "pro") is not breaker, "one model may be overloaded while its siblings answer"
    await opened(breaker)
    [state, other] = every.states()
    assert (state.kind, state.provider, state.model, state.state) == ("model", "gemini", "flash", "open")
    assert (state.since, state.next_probe) == (clock.now(), clock.now() + timedelta(seconds=5))
    assert (other.state, other.next_probe, other.reason) == ("closed", None, None)
    clock.s += 5.0
    await ask(breaker, FINE)
    assert changes == ["open", "half_open", "closed"]
