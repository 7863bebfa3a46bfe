"""The appender: what it was given is written, whatever becomes of the client's tasks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.structs import RecordMetadata

from infra.kafka.topics import KafkaAddress
from streams.journal.appender import Appender, OwnRecord
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


async def test_a_place_that_the_broker_did_not_name_is_told_to_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    # DuplicateSequenceNumber: aiokafka counts from -1, and so might name the next offset of a fold by chance.
    told: list[tuple[object, int]] = []

    class Reader:
        turn = object()

        def on_appended(self, turn: object, record: OwnRecord) -> None:
            told.append((turn, record.offset))

    appender, reader, tp = Appender(KafkaAddress(bootstrap="127.0.0.1:1")), Reader(), TopicPartition("cases", 0)
    with appender.telling(tp.topic, reader):
        await _append(appender, RecordMetadata(*tp, tp, 3, 1_700_000_000_000, 0, 0), monkeypatch)
        assert told == []
        await _append(appender, RecordMetadata(*tp, tp, 7, 1_700_000_000_000, 1, 0), monkeypatch)
        assert told == [(reader.turn, 7)]
    await _append(appender, RecordMetadata(*tp, tp, 8, 1_700_000_000_000, 1, 0), monkeypatch)
    assert told == [(reader.turn, 7)]


async def _append(appender: Appender, place: RecordMetadata, monkeypatch: pytest.MonkeyPatch) -> None:
    async def queued(*_: Any) -> asyncio.Future[RecordMetadata]:
        placed: asyncio.Future[RecordMetadata] = asyncio.get_running_loop().create_future()
        placed.set_result(place)
        return placed

    monkeypatch.setattr(appender, "_queued", queued)
    await appender.append(place.topic, b"value", key=b"key", partition=place.partition)
