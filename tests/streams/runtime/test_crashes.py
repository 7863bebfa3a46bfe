"""A step that kills its process is found, and the cases around it are not taken for it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from schemas import events as ev
from schemas.errors import ConfigError
from streams.runtime.worker_slot import WorkerSlot, refuse_taken_slot
from tests.plain_graph import plain_registry
from tests.streams.runtime.killer import DEADLY
from tests.streams.world import World, news

CHECKOUT = Path(__file__).parents[3]
SUSPECT_AFTER = 3
OTHERS = 12


class Supervised:
    """A worker process that is started again whenever it ends."""

    def __init__(self, world: World, where: str) -> None:
        self._command = [
            sys.executable,
            "-m",
            "tests.streams.runtime.killer",
            *world.address.as_environment().values(),
            world.topics.prefix,
        ]
        self._command += [str(world.slots), where]
        self.deaths: list[int] = []
        self._process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        env = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
        return subprocess.Popen(
            self._command, cwd=CHECKOUT, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def restart_ended(self) -> None:
        if (status := self._process.poll()) is not None:
            self.deaths.append(status)
            self._process = self._start()

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("where", ["ask", "effect"])
async def test_a_step_that_kills_its_process_is_found_and_only_its_case_degrades(world: World, where: str) -> None:
    await world.publish(*range(OTHERS), news("deadly", text=DEADLY))
    worker = Supervised(world, where)
    try:

        async def quiet() -> bool:
            worker.restart_ended()
            counted = await world.counted()
            return counted["EventReceived"] == OTHERS + 1 == counted["SignalSynthesized"] + counted["CaseFailed"]

        await world.until(quiet, within_s=90)
    finally:
        worker.end()
    assert worker.deaths == [17] * (SUSPECT_AFTER + 1), "three crashes, and one alone"
    found = await world.story(of_text=DEADLY)
    [failure] = [e for e in found if isinstance(e, ev.StepFailed)]
    assert (failure.step, failure.failure.kind, failure.outcome) == ("recall", "crash", "degrade")
    assert isinstance(found[-1], ev.SignalSynthesized) and found[-1].path == "degraded"
    for number in range(OTHERS):
        other = await world.story(of_text=f"news number {number}")
        assert not [e for e in other if isinstance(e, ev.StepFailed | ev.CaseDegraded)], f"number {number} is innocent"


async def test_a_slot_that_is_taken_on_this_machine_is_refused_and_named(world: World) -> None:
    async with world.working(plain_registry(asks=False), slot="left") as worker:
        await world.until(lambda: len(worker.projector.partitions) == world.partitions)
        with pytest.raises(ConfigError, match=r"slot 'left' is taken.*WORKER_SLOT"):
            async with world.working(plain_registry(asks=False), slot="left"):
                raise AssertionError("it must not start")


async def test_a_slot_that_is_taken_on_another_machine_is_refused_before_anything_starts(world: World) -> None:
    group = world.topics.group("worker")
    await refuse_taken_slot(world.address, group, "left")
    async with world.working(plain_registry(asks=False), slot="left") as worker:
        await world.until(lambda: len(worker.projector.partitions) == world.partitions)
        with pytest.raises(ConfigError, match="WORKER_SLOT='left'"):
            await refuse_taken_slot(world.address, group, "left")
        await refuse_taken_slot(world.address, group, "right")
        await refuse_taken_slot(world.address, group, "lef")


DIE = """
import os, sys
from pathlib import Path
from streams.runtime.worker_slot import WorkerSlot
slot = WorkerSlot(Path(sys.argv[1]), "0")
for head in ("innocent", "deadly", "beside"):
    slot.started(head)
slot.ended("innocent")
if sys.argv[2:]:
    executing = slot.executing(sys.argv[2])
    executing.__enter__()
os._exit(9)
"""


def die(slots: Path, *executing: str) -> None:
    """Let a process die that ran three heads and had ended one; ``executing`` names the one whose own code ran."""
    assert (
        subprocess.run([sys.executable, "-c", DIE, str(slots), *executing], cwd=CHECKOUT, check=False).returncode == 9
    )


def test_the_slot_file_counts_the_heads_that_ran_when_the_process_died(tmp_path: Path) -> None:
    for _ in range(SUSPECT_AFTER):
        die(tmp_path)
    slot = WorkerSlot(tmp_path, "0")
    assert slot.crashes == {"deadly": SUSPECT_AFTER, "beside": SUSPECT_AFTER}
    slot.forget("deadly")
    slot.close()
    assert WorkerSlot(tmp_path, "0").crashes == {"beside": SUSPECT_AFTER}


def test_where_a_steps_own_code_ran_no_other_head_is_counted(tmp_path: Path) -> None:
    for _ in range(SUSPECT_AFTER):
        die(tmp_path, "deadly")
    assert WorkerSlot(tmp_path, "0").crashes == {"deadly": SUSPECT_AFTER}


def test_a_clean_end_is_no_crash_of_what_was_running(tmp_path: Path) -> None:
    slot = WorkerSlot(tmp_path, "0")
    slot.started("running")
    slot.close()
    assert WorkerSlot(tmp_path, "0").crashes == {}


def test_a_damaged_count_file_is_read_as_far_as_it_makes_sense(tmp_path: Path) -> None:
    (tmp_path / "slot-0.crashes").write_bytes(b"\xff\xfe garbage\nhalf\nother two\nthird 2\nfou")
    assert WorkerSlot(tmp_path, "0").crashes == {"third": 2}
