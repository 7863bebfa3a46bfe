"""A step that kills its process is found, and the cases around it are not taken for it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from schemas import events as ev
from schemas.errors import ConfigError
from streams.runtime.worker_slot import WorkerSlot, refuse_taken_slot
from tests.plain_graph import plain_registry
from tests.streams.forked import exit_of, forked
from tests.streams.runtime.killer import DEADLY, work_and_die
from tests.streams.world import World, news

SUSPECT_AFTER = 3
OTHERS = 12


@asynccontextmanager
async def supervised(world: World, where: str) -> AsyncIterator[list[int]]:
    """Run a worker process that is started again whenever it ends. Yields the statuses with which it ended."""
    deaths: list[int] = []
    process = forked(work_and_die, world.address, world.topics, world.slots, where)

    async def restart() -> None:
        nonlocal process
        while True:
            deaths.append(await exit_of(process))
            process = forked(work_and_die, world.address, world.topics, world.slots, where)

    restarting = asyncio.create_task(restart())
    try:
        yield deaths
    finally:
        restarting.cancel()
        process.kill()
        process.join()


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("where", ["ask", "effect"])
async def test_a_step_that_kills_its_process_is_found_and_only_its_case_degrades(world: World, where: str) -> None:
    await world.publish(*range(OTHERS), news("deadly", text=DEADLY))
    async with supervised(world, where) as deaths:
        await world.until_closed(OTHERS + 1, within_s=90)
    assert deaths == [17] * (SUSPECT_AFTER + 1), "three crashes, and one alone"
    counted = await world.counted()
    assert counted["EventReceived"] == OTHERS + 1 == counted["SignalSynthesized"]
    found = await world.story(of_text=DEADLY)
    [failure] = [e for e in found if isinstance(e, ev.StepFailed)]
    assert (failure.step, failure.failure.kind, failure.outcome) == ("recall", "crash", "degrade")
    assert isinstance(found[-1], ev.SignalSynthesized) and found[-1].path == "degraded"
    for number in range(OTHERS):
        other = await world.story(of_text=f"news number {number}")
        assert not [e for e in other if isinstance(e, ev.StepFailed | ev.CaseDegraded)], f"number {number} is innocent"


async def test_a_slot_that_is_taken_on_this_machine_or_on_another_is_refused_and_named(world: World) -> None:
    group = world.topics.group("worker")
    await refuse_taken_slot(world.address, group, "left")
    async with world.working(plain_registry(asks=False), slot="left") as worker:
        await world.until(lambda: len(worker.projector.partitions) == world.partitions)
        with pytest.raises(ConfigError, match=r"slot 'left' is taken.*WORKER_SLOT"):
            async with world.working(plain_registry(asks=False), slot="left"):
                raise AssertionError("it must not start")
        with pytest.raises(ConfigError, match="WORKER_SLOT='left'"):
            await refuse_taken_slot(world.address, group, "left")
        await refuse_taken_slot(world.address, group, "right")
        await refuse_taken_slot(world.address, group, "lef")


async def run_and_die(slots: Path, executing: str | None) -> None:
    slot = WorkerSlot(slots, "0")
    for head in ("innocent", "deadly", "beside"):
        slot.started(head)
    slot.ended("innocent")
    if executing is not None:
        slot.executing(executing).__enter__()
    os._exit(9)


async def die(slots: Path, executing: str | None = None) -> None:
    """Let a process die that ran three heads and had ended one; ``executing`` names the one whose own code ran."""
    assert await exit_of(forked(run_and_die, slots, executing)) == 9


async def test_the_slot_file_counts_the_heads_that_ran_when_the_process_died(tmp_path: Path) -> None:
    for _ in range(SUSPECT_AFTER):
        await die(tmp_path)
    slot = WorkerSlot(tmp_path, "0")
    assert slot.crashes == {"deadly": SUSPECT_AFTER, "beside": SUSPECT_AFTER}
    slot.forget("deadly")
    slot.close()
    assert WorkerSlot(tmp_path, "0").crashes == {"beside": SUSPECT_AFTER}


async def test_where_a_steps_own_code_ran_no_other_head_is_counted(tmp_path: Path) -> None:
    for _ in range(SUSPECT_AFTER):
        await die(tmp_path, "deadly")
    assert WorkerSlot(tmp_path, "0").crashes == {"deadly": SUSPECT_AFTER}


def test_a_clean_end_is_no_crash_of_what_was_running(tmp_path: Path) -> None:
    slot = WorkerSlot(tmp_path, "0")
    slot.started("running")
    slot.close()
    assert WorkerSlot(tmp_path, "0").crashes == {}


def test_a_damaged_count_file_is_read_as_far_as_it_makes_sense(tmp_path: Path) -> None:
    (tmp_path / "slot-0.crashes").write_bytes(b"\xff\xfe garbage\nhalf\nother two\nthird 2\nfou")
    assert WorkerSlot(tmp_path, "0").crashes == {"third": 2}
