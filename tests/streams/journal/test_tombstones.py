"""What a start must know of the log before it is read once: a rebalance that gives back what was there reads nothing again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from aiokafka import TopicPartition

import streams.journal.log
from infra.kafka.topics import offsets_of, read_range
from streams.intake.opened_news import OpenedNewsIndex
from streams.journal.acceptance import AcceptedEvents
from streams.journal.fold import JournalFold
from streams.journal.log import KafkaLog
from streams.journal.tombstones import Tombstones
from tests.streams.records import DROPPED, after, opening, write
from tests.streams.world import World

CASES = 20


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The offsets of every record that is replayed."""
    read: list[int] = []

    async def counting(*args: Any, **more: Any) -> AsyncIterator[tuple[TopicPartition, Any]]:
        async for tp, records in read_range(*args, **more):
            read.extend(r.offset for r in records)
            yield tp, records

    monkeypatch.setattr(streams.journal.log, "read_range", counting)
    return read


async def written(world: World) -> dict[TopicPartition, tuple[int, int]]:
    """Open cases and end every second one; return the journal's bounds."""
    for n in range(CASES):
        case, head, value, headers = opening(n)
        await write(world, case, value, headers)
        if n % 2:
            await write(world, case, *after(case, head, DROPPED)[1:])
    return await offsets_of(world.address, world.topics.cases)


async def test_tombstones_are_read_once_and_are_the_same_wherever_a_reader_starts(
    world: World, counted: list[int]
) -> None:
    bounds = await written(world)
    first = {tp: low for tp, (low, _) in bounds.items()}
    kept = Tombstones(KafkaLog(world.address))
    for share in (0.5, 1.0, 0.75):
        starts = {tp: int(low + (end - low) * share) for tp, (low, end) in bounds.items()}
        counted.clear()
        again = {tp: AcceptedEvents(start) for tp, start in starts.items()}
        await kept.load(again, first, partitions=len(bounds))
        read = list(counted)
        fresh = {tp: AcceptedEvents(start) for tp, start in starts.items()}
        await Tombstones(KafkaLog(world.address)).load(fresh, first, partitions=len(bounds))
        for tp in bounds:
            assert dict(again[tp].tombstones()) == dict(fresh[tp].tombstones())
        if share == 0.75:
            assert read == [], "all of it had been read before"
    assert any(fresh[tp].tombstones() for tp in bounds)


async def test_what_was_folded_is_taken_over_and_not_read(world: World, counted: list[int]) -> None:
    bounds = await written(world)
    first = {tp: low for tp, (low, _) in bounds.items()}
    kept = Tombstones(KafkaLog(world.address))
    for tp in bounds:
        followed = JournalFold(first[tp], partitions=len(bounds))
        async for _, records in read_range(world.address, {tp: bounds[tp]}):  # not counted
            list(followed.accept(records))
        kept.keep(tp, followed.accepted)
    taken = {tp: AcceptedEvents(end) for tp, (_, end) in bounds.items()}
    await kept.load(taken, first, partitions=len(bounds))
    assert counted == []
    fresh = {tp: AcceptedEvents(end) for tp, (_, end) in bounds.items()}
    await Tombstones(KafkaLog(world.address)).load(fresh, first, partitions=len(bounds))
    assert [dict(taken[tp].tombstones()) for tp in bounds] == [dict(fresh[tp].tombstones()) for tp in bounds]
    assert sum(len(dict(fresh[tp].tombstones())) for tp in bounds) == CASES


async def test_news_that_was_indexed_is_not_read_again_and_what_intake_adds_is_not_kept(
    world: World, counted: list[int]
) -> None:
    await world.publish(*range(CASES))
    group = world.topics.group("worker")
    ends = {tp: end for tp, (_, end) in (await offsets_of(world.address, world.topics.news)).items()}
    async with world.address.reading(group_id=group) as consumer:
        consumer.assign(list(ends))
        await consumer.commit(ends)
    before = OpenedNewsIndex(
        world.address, world.topics, group, window=timedelta(days=30), authenticate=lambda _news: False
    )
    first = {tp.partition: await before.of(tp.partition) for tp in ends}
    assert sum(len(opened) for opened, _ in first.values()) == CASES
    counted.clear()
    first[0][0].add("added by intake", "a case that is not in the log", 0.0, ends[TopicPartition(world.topics.news, 0)])
    again = {tp.partition: await before.of(tp.partition) for tp in ends}
    assert counted == []
    assert "a case that is not in the log" not in again[0][0]
    assert sum(len(opened) for opened, _ in again.values()) == CASES
    assert {n: upto for n, (_, upto) in again.items()} == {tp.partition: end for tp, end in ends.items()}
