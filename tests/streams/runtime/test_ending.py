"""What ends a worker: the first word counts, whoever says it. An error in a task on which cases depend is one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from infra.kafka.topics import KafkaAddress
from schemas.errors import TransientError
from schemas.topics import Topics
from streams.ending import Ending
from streams.intake.remote_partitions import RemotePartitions
from streams.journal.tombstones import Tombstones
from streams.wake import Wake
from tests.plain_graph import plain_registry
from tests.streams.memory_log import MemoryLog
from tests.streams.world import World

MOVED = TransientError("the log moved", kind="internal")


async def test_an_error_ends_a_worker_also_when_it_is_asked_to_end_afterwards() -> None:
    ending = Ending()
    waiting = asyncio.create_task(ending.wait())
    assert not ending.over
    ending.fail(MOVED)
    ending.stop()
    with pytest.raises(TransientError, match="the log moved"):
        await waiting


async def test_what_fails_after_a_worker_was_asked_to_end_makes_its_end_no_failure() -> None:
    ending = Ending()
    ending.stop()
    ending.fail(MOVED)
    await ending.wait()
    assert ending.over and ending.error is None


async def fails(*_: Any) -> None:
    raise LookupError("nobody foresaw this")


async def test_a_watched_task_ends_the_worker_by_an_error_alone() -> None:
    ending = Ending()
    for task in (asyncio.create_task(asyncio.sleep(0)), cancelled := asyncio.create_task(asyncio.sleep(60))):
        ending.watch(task)
    cancelled.cancel()
    await asyncio.wait([task, cancelled])
    assert not ending.over
    ending.watch(asyncio.create_task(fails()))
    with pytest.raises(LookupError):
        await ending.wait()


async def test_an_error_in_following_the_configurations_ends_the_worker(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_record: Any) -> None:
        raise LookupError("nobody foresaw this")

    with pytest.raises(LookupError):
        async with world.working(plain_registry(asks=False)) as worker:
            await world.until(lambda: worker.assigned)
            monkeypatch.setattr(worker.configs, "_take", refuse)
            await world.producer.send_and_wait(world.topics.configs, b"{}", key=b"another", partition=0)
            await world.until(lambda: worker.ending.over)


async def test_an_error_in_following_other_workers_partitions_ends_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RemotePartitions, "_follow", fails)
    ending, topics = Ending(), Topics()
    tombstones = Tombstones(MemoryLog({topics.cases: 2}))
    address = KafkaAddress(bootstrap="127.0.0.1:1")
    remote = RemotePartitions(address, topics.cases, "", tombstones, Wake(), ending, limit=1, partitions=2)
    remote.follow({1})
    async with asyncio.timeout(10):
        with pytest.raises(LookupError):
            await ending.wait()
