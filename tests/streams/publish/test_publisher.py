"""Publish: every signal once for a read_committed subscriber, whoever dies, and whoever thinks that it still leads."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import ProducerFenced

from infra.kafka.topics import offsets_of
from schemas.errors import TransientError
from streams.audit.audit import audit
from streams.journal.log import KafkaLog
from streams.publish import publisher
from streams.publish.publisher import TRANSACTION_TIMEOUT_MS, Publisher
from tests.plain_graph import plain_registry
from tests.streams.forked import exit_of, forked
from tests.streams.publish.publisher_process import publish_and_die
from tests.streams.world import World

CASES = 60


@asynccontextmanager
async def closed_cases(world: World, *numbers: int) -> AsyncIterator[None]:
    """Close a case for each number, with nobody publishing."""
    async with world.working(plain_registry(asks=False)):
        await world.publish(*numbers)
        await world.until_closed(len(numbers))
    yield


async def signals_reach(world: World, count: int) -> None:
    """Wait until a subscriber sees this many signals."""

    async def there() -> bool:
        return len(await world.signals()) >= count

    await world.until(there, within_s=40)


async def die_inside_a_transaction(world: World, timeout_ms: int = TRANSACTION_TIMEOUT_MS) -> None:
    """Run a publisher that dies with seven signals sent and not committed."""
    assert await exit_of(forked(publish_and_die, world.address, world.topics, 7, timeout_ms)) == 17


async def is_published_once(world: World, count: int) -> bool:
    """Whether a subscriber sees this many signals, none of them twice."""
    seen = Counter((s.signal_id, s.revision) for s in await world.signals())
    return len(seen) == count == seen.total()


async def holds_readers(world: World) -> bool:
    """Whether a read_committed reader cannot read to the end of the signals, for a transaction is open."""
    committed = await offsets_of(world.address, world.topics.signals, isolation_level="read_committed")
    return committed != await offsets_of(world.address, world.topics.signals)


@pytest.mark.slow
async def test_a_killed_publisher_without_a_successor_holds_readers_until_its_transaction_times_out(
    world: World,
) -> None:
    async with closed_cases(world, *range(CASES)):
        await die_inside_a_transaction(world, timeout_ms=2000)  # 10 s in earnest
        assert await holds_readers(world)

        async def released() -> bool:
            return not await holds_readers(world)

        await world.until(released, within_s=60)
    assert await world.signals() == []


@pytest.mark.slow
async def test_a_publisher_killed_inside_a_transaction_publishes_nothing_twice_and_loses_nothing(world: World) -> None:
    """The dead one's transaction would stay open for ten minutes: only the fence can have ended it."""
    async with closed_cases(world, *range(CASES)):
        await die_inside_a_transaction(world, timeout_ms=600_000)
        uncommitted = await world.records(world.topics.signals)
        assert len(uncommitted) == 7 and await holds_readers(world), "they were sent, and not committed"
        async with world.publishing():
            await signals_reach(world, CASES)
    assert not await holds_readers(world)
    assert await is_published_once(world, CASES)
    report = await audit(KafkaLog(world.address), world.topics)
    assert (report.signals, report.duplicate_signals, report.lost) == (CASES, 0, 0)


@asynccontextmanager
async def unverified_transactions(world: World) -> AsyncIterator[None]:
    """Let the broker take records of a transaction that does not know their partition."""
    check = "transaction.partition.verification.enable"
    async with world.address.admin() as admin:

        async def is_off() -> bool:
            (answer,) = await admin.describe_configs([ConfigResource(ConfigResourceType.BROKER, "1", {check: ""})])
            return {entry[0]: entry[1] for entry in answer.resources[0][4]} == {check: "false"}

        await admin.alter_configs([ConfigResource(ConfigResourceType.BROKER, "1", {check: "false"})])
        try:
            await world.until(is_off)  # the broker learns of it after its controller
            yield
        finally:
            await admin.alter_configs([ConfigResource(ConfigResourceType.BROKER, "1", {check: "true"})])


class HangingOnce:
    """The address of the world. Its first transactional producer hangs, as when Kafka 4.3 ends a transaction while it starts.

    The coordinator does not know the transaction, the partitions have its records, and no marker ends them.
    """

    def __init__(self, world: World, commit: Callable[[Any], Awaitable[None]]) -> None:
        self._world, self._commit = world, commit
        self.hung = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._world.address, name)

    def producer(self, **more: Any) -> Any:
        producer = self._world.address.producer(**more)
        if self.hung:
            return producer
        plain = producer.send

        async def send(topic: str, *args: Any, **kwargs: Any) -> Any:
            for partition in await producer.partitions_for(topic):
                producer._txn_manager._txn_partitions.add(TopicPartition(topic, partition))
            self.hung += 1
            return await plain(topic, *args, **kwargs)

        async def flush(*_args: Any) -> None:
            await producer.flush()

        producer.send, producer.send_offsets_to_transaction = send, flush
        producer.commit_transaction = partial(self._commit, producer)
        return producer


async def die(producer: Any) -> None:
    raise ProducerFenced


async def believe_it_is_committed(producer: Any) -> None:
    producer._txn_manager.committing_transaction()
    producer._txn_manager.complete_transaction()


@pytest.mark.slow
async def test_signals_that_the_broker_left_hanging_are_published_once_and_hold_nobody_up(world: World) -> None:
    hanging = Publisher(world.address, world.topics)
    hanging._address = HangingOnce(world, die)  # type: ignore[assignment]
    async with closed_cases(world, *range(CASES)):
        async with unverified_transactions(world):
            with pytest.raises(ProducerFenced):
                await hanging._publish()
        assert hanging._address.hung > 0 and await holds_readers(world)
        async with world.publishing():
            await signals_reach(world, CASES)
    assert not await holds_readers(world)
    assert await is_published_once(world, CASES)


@pytest.mark.slow
async def test_a_publisher_whose_committed_signals_stay_out_of_sight_starts_over(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher, "LOOK_S", 0.2)
    hanging = Publisher(world.address, world.topics)
    hanging._address = HangingOnce(world, believe_it_is_committed)  # type: ignore[assignment]
    async with closed_cases(world, *range(CASES)), unverified_transactions(world):
        running = asyncio.create_task(hanging.run())
        await signals_reach(world, CASES)
        hanging.stop()
        await running
    assert hanging._address.hung > 0 and not await holds_readers(world)
    assert await is_published_once(world, CASES)


@pytest.mark.slow
async def test_a_transaction_of_somebody_else_makes_a_publisher_wait_and_publish_nothing_twice(world: World) -> None:
    async with closed_cases(world, *range(5)), world.publishing():
        await signals_reach(world, 5)
    stranger = world.address.producer(transactional_id=f"{world.topics.prefix}-stranger")
    await stranger.start()
    await stranger.begin_transaction()
    for partition in await stranger.partitions_for(world.topics.signals):
        await stranger.send_and_wait(world.topics.signals, b"{}", partition=partition)
    successor = Publisher(world.address, world.topics)
    with pytest.raises(TransientError, match="allow nobody else to write there"):
        await successor._publish()
    await stranger.abort_transaction()
    await stranger.stop()
    async with world.publishing() as again, world.working(plain_registry(asks=False)):
        await world.publish(9)
        await signals_reach(world, 6)
    assert again.published == 1


@pytest.mark.slow
async def test_of_two_candidates_one_publishes_and_the_other_takes_over_when_it_ends(world: World) -> None:
    async with closed_cases(world, *range(10)), world.publishing() as second:
        async with world.publishing() as first:
            await world.until(lambda: first.active or second.active)
            await signals_reach(world, 10)
            assert first.published + second.published == 10
            assert not (first.published and second.published)
        await world.until(lambda: second.active, within_s=40)
        async with world.working(plain_registry(asks=False)):
            await world.publish(*range(10, 15))
            await signals_reach(world, 15)
    assert await is_published_once(world, 15)
    assert {s.revision for s in await world.signals()} == {1}


async def test_a_publisher_that_is_fenced_stands_by_and_writes_nothing_more(world: World) -> None:
    """Two that both believe to hold the lease: the later producer fences the earlier one."""
    async with world.working(plain_registry(asks=False)), world.publishing() as zombie:
        await world.publish(1)
        await signals_reach(world, 1)
        successor = Publisher(world.address, world.topics)
        leading = asyncio.create_task(successor._publish())  # as after a lease that the zombie has not noticed losing
        try:
            await world.until(lambda: successor.active)
            await world.publish(*range(2, 12))
            await signals_reach(world, 11)
            await world.until(lambda: not zombie.active)
        finally:
            leading.cancel()
            await asyncio.gather(leading, return_exceptions=True)
        assert (zombie.published, successor.published) == (1, 10)
    assert await is_published_once(world, 11)


@pytest.mark.slow
async def test_a_lost_commit_of_the_watermark_is_made_good_by_the_signals_themselves(world: World) -> None:
    """The group's offsets may expire; ``signals`` is what says how far publishing came."""
    async with closed_cases(world, *range(5)):
        async with world.publishing():
            await signals_reach(world, 5)
        fresh = Publisher(world.address, world.topics)
        fresh._group = world.topics.group("publisher-without-offsets")
        task = asyncio.create_task(fresh.run())
        await world.until(lambda: fresh.active, within_s=40)
        async with world.working(plain_registry(asks=False)):
            await world.publish(9)
            await signals_reach(world, 6)
        fresh.stop()
        await task
    assert fresh.published == 1
    assert await is_published_once(world, 6)
    assert len({s.signal_id for s in await world.signals()}) == 6
