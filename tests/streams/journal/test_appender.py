"""The appender: what it was given is written, whatever becomes of the client's tasks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiokafka import TopicPartition

from streams.journal.appender import Appender
from tests.streams.world import World


@asynccontextmanager
async def spoilt(world: World, spoil: Callable[[Any, TopicPartition], None]) -> AsyncIterator[Appender]:
    """An appender that has written one dead letter, before its producer is spoilt."""
    appender = Appender(world.address)
    await appender.start()
    try:
        partition, _ = await appender.append(world.topics.dead_letters, b"0", key=b"k", partition=None)
        spoil(appender._producer, TopicPartition(world.topics.dead_letters, partition))
        yield appender
    finally:
        await appender.stop()


def its_sending_task_fails(producer: Any, _tp: TopicPartition) -> None:
    async def fails(*_args: Any) -> None:
        raise KeyError("no such luck")

    producer._sender._send_produce_req = fails


def its_sequence_has_a_gap(producer: Any, tp: TopicPartition) -> None:
    producer._txn_manager.increment_sequence_number(tp, 7)


@pytest.mark.parametrize("spoil", [its_sending_task_fails, its_sequence_has_a_gap])
async def test_a_producer_that_can_write_nothing_more_is_replaced_and_loses_nothing(
    world: World, spoil: Callable[[Any, TopicPartition], None]
) -> None:
    letters = world.topics.dead_letters
    async with spoilt(world, spoil) as appender, asyncio.timeout(60):
        first = appender._producer
        await asyncio.gather(*(appender.append(letters, b"%d" % n, key=b"k", partition=None) for n in range(1, 20)))
        assert appender._producer is not first
    assert {int(record.value) for record in await world.records(letters)} == set(range(20))
