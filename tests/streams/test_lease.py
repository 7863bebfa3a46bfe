"""Leases: whoever joins, leaves, freezes or fails, one process works, and its work is not interrupted by others."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aiokafka.errors import KafkaError, ProducerFenced

from infra.kafka.topics import members_of
from streams import lease
from streams.lease import Fence, Lease
from tests.streams.world import World

CHECKOUT = Path(__file__).parents[2]
WITHIN_S = 15.0
"""Time in which a successor works after its predecessor froze or failed."""


class Candidate:
    """A process's worth of lease and work. ``begun``: how often the work began; ``works``: it runs now."""

    def __init__(self, world: World) -> None:
        self.lease = Lease(world.address, world.topics.group("publisher-lease"), world.topics.publisher_lease)
        self.stopped = asyncio.Event()
        self.begun, self.works = 0, False

    async def work(self) -> None:
        self.begun, self.works = self.begun + 1, True
        try:
            await asyncio.Event().wait()
        finally:
            self.works = False

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Candidate]:
        leading = asyncio.create_task(self.lease.lead(self.work, self.stopped))
        try:
            yield self
        finally:
            self.stopped.set()
            await leading


@pytest.fixture(autouse=True)
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "SESSION_S", 2.5)
    monkeypatch.setattr(lease, "LOOK_EVERY_S", 0.2)


def member_of(candidate: Candidate) -> Any:
    assert candidate.lease._member is not None
    return candidate.lease._member


async def test_others_that_come_and_go_do_not_interrupt_the_holder(world: World) -> None:
    async with Candidate(world).running() as holder:
        await world.until(lambda: holder.works)
        for _ in range(5):
            async with Candidate(world).running() as other:
                await world.until(partial(getattr, other.lease, "known"))
                assert not other.lease.held
        assert (holder.begun, holder.works) == (1, True)


async def test_a_busy_event_loop_does_not_cost_the_holder_its_lease(world: World) -> None:
    async with Candidate(world).running() as holder:
        await world.until(lambda: holder.works)
        before = await members_of(world.address, world.topics.group("publisher-lease"))
        time.sleep(2 * lease.SESSION_S)  # noqa: ASYNC251  (the fault that is tested)
        assert await members_of(world.address, world.topics.group("publisher-lease")) == before != []
        assert (holder.begun, holder.works, holder.lease.lost.is_set()) == (1, True, False)


async def test_an_assignment_without_the_partition_ends_the_work(world: World) -> None:
    async with Candidate(world).running() as holder:
        await world.until(lambda: holder.works)
        await member_of(holder).on_partitions_assigned(set())
        await world.until(lambda: holder.begun == 2, within_s=WITHIN_S)  # nobody else wanted it


async def test_after_the_holder_stops_the_next_one_works(world: World) -> None:
    async with Candidate(world).running() as next_one:
        await world.until(lambda: next_one.works)
        other = Candidate(world)
        async with other.running():
            await world.until(lambda: other.lease.known)
            next_one.stopped.set()
            await world.until(lambda: other.works)


async def test_of_many_that_start_at_once_one_works(world: World) -> None:
    many = [Candidate(world) for _ in range(5)]
    async with many[0].running(), many[1].running(), many[2].running(), many[3].running(), many[4].running():
        await world.until(lambda: any(one.works for one in many))
        await world.until(lambda: all(one.lease.known for one in many))
        await world.until(lambda: sum(one.works for one in many) == 1)
        holder = next(one for one in many if one.works)
        begun = holder.begun
        for one in many:
            if one is not holder:
                one.stopped.set()
        assert (holder.begun, holder.works) == (begun, True)


async def test_of_two_that_saw_the_group_empty_the_first_one_to_join_keeps_the_partition(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def empty(*_: Any) -> list[str]:
        return []

    monkeypatch.setattr(lease, "members_of", empty)  # as where the group was looked at before the other one joined
    async with Candidate(world).running() as holder:
        await world.until(lambda: holder.works)
        for _ in range(5):
            async with Candidate(world).running() as late:
                await world.until(partial(getattr, late.lease, "known"))
            assert (holder.begun, holder.works) == (1, True)


async def test_an_unexpected_error_of_the_client_leaves_one_holder(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Candidate(world).running() as failing:
        await world.until(lambda: failing.works)
        async with Candidate(world).running() as next_one:
            await world.until(lambda: next_one.lease.known)

            def broken(*_: Any) -> bool:
                raise ValueError("an error that the client does not expect")

            coordinator = member_of(failing)._consumer._coordinator
            monkeypatch.setattr(coordinator, "need_rejoin", broken)
            member_of(failing)._loop.call_soon_threadsafe(coordinator.request_rejoin)
            begun = failing.begun + next_one.begun
            await world.until(lambda: failing.begun + next_one.begun > begun, within_s=WITHIN_S)
            await world.until(lambda: failing.works != next_one.works, within_s=WITHIN_S)


async def test_a_refusal_that_the_client_survives_is_no_loss(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Candidate(world).running() as holder:
        await world.until(lambda: holder.works)
        polls = 0
        consumer = member_of(holder)._consumer
        getmany = consumer.getmany

        async def refused_once(**more: Any) -> Any:
            nonlocal polls
            polls += 1
            if polls == 1:
                raise KafkaError("refused")
            return await getmany(**more)

        monkeypatch.setattr(consumer, "getmany", refused_once)
        await world.until(lambda: polls >= 2)
        assert (holder.begun, holder.works) == (1, True)


async def test_an_error_of_our_own_ends_the_process(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: Any) -> list[str]:
        raise ValueError("not foreseen")

    monkeypatch.setattr(lease, "members_of", broken)
    with pytest.raises(ValueError, match="not foreseen"):
        await Candidate(world).lease.lead(lambda: asyncio.sleep(0), asyncio.Event())


async def test_an_error_of_our_own_in_the_thread_of_the_member_ends_the_process(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    holder = Candidate(world)
    leading = asyncio.create_task(holder.lease.lead(holder.work, holder.stopped))
    await world.until(lambda: holder.works)

    async def broken(**_: Any) -> Any:
        raise ValueError("not foreseen")

    monkeypatch.setattr(member_of(holder)._consumer, "getmany", broken)
    with pytest.raises(ValueError, match="not foreseen"):
        async with asyncio.timeout(WITHIN_S):
            await leading
    assert not holder.works


async def test_what_ends_the_work_and_is_no_exception_ends_the_process_and_frees_the_lease(world: World) -> None:
    class KilledError(BaseException):
        pass

    async def killed() -> None:
        raise KilledError

    with pytest.raises(KilledError):
        async with asyncio.timeout(WITHIN_S):
            await Candidate(world).lease.lead(killed, asyncio.Event())
    assert await members_of(world.address, world.topics.group("publisher-lease")) == []


async def test_a_holder_whose_event_loop_hangs_leaves_the_group(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Candidate(world).running() as holder:
        await world.until(lambda: holder.works)
        monkeypatch.setattr(lease, "HUNG_S", 1.0)
        time.sleep(4)  # noqa: ASYNC251  (the fault that is tested)
        await world.until(lambda: holder.begun == 2, within_s=WITHIN_S)


async def test_a_holder_that_is_cancelled_leaves_the_group_at_once(world: World) -> None:
    holder = Candidate(world)
    leading = asyncio.create_task(holder.lease.lead(holder.work, holder.stopped))
    await world.until(lambda: holder.works)
    leading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leading
    assert (holder.works, holder.lease.held) == (False, False)
    assert await members_of(world.address, world.topics.group("publisher-lease")) == []


async def says(output: asyncio.StreamReader, word: bytes) -> None:
    """Read until the process has said the word."""
    async with asyncio.timeout(WITHIN_S):
        while (line := await output.readline()).strip() != word:
            assert line, "it ended"


@pytest.mark.slow
async def test_a_frozen_holder_is_followed_by_one_and_stands_by_when_it_wakes(world: World) -> None:
    args = (
        *world.address.as_environment().values(),
        world.topics.group("publisher-lease"),
        world.topics.publisher_lease,
    )
    frozen = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.streams.lease_process", *args, cwd=CHECKOUT, stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
    )  # fmt: skip
    assert frozen.stdout is not None
    try:
        await says(frozen.stdout, b"begins")
        frozen.send_signal(signal.SIGSTOP)
        async with Candidate(world).running() as next_one:
            await world.until(lambda: next_one.works, within_s=WITHIN_S)
            frozen.send_signal(signal.SIGCONT)
            await says(frozen.stdout, b"ends")
            assert (next_one.begun, next_one.works) == (1, True)
        await says(frozen.stdout, b"begins")
    finally:
        frozen.kill()
        await frozen.wait()


async def test_of_those_that_start_a_fence_the_last_one_passes(world: World) -> None:
    first, second = (
        Fence(world.address, world.topics.transactional_id("fenced"), world.topics.listener_lease) for _ in "ab"
    )
    await first.start()
    try:
        await first.pass_through()
        await second.start()
        await second.pass_through()
        for _ in range(2):
            with pytest.raises(ProducerFenced):
                await first.pass_through()
        await second.pass_through()
    finally:
        await first.stop()
        await second.stop()
