"""A cursor with the records of this process returns what the cursor alone returns, however acknowledgements and reads fall."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from aiokafka import TopicPartition

from streams.journal.appender import OwnRecord
from streams.journal.own_tail import OwnTail
from tests.streams.memory_log import MemoryLog

TOPIC, PARTITIONS = "journal", 2
TPS = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]


@pytest.mark.parametrize("seed", range(60))
async def test_each_record_comes_once_and_in_order_under_every_interleaving(seed: int) -> None:
    chance, log = random.Random(seed), MemoryLog({TOPIC: PARTITIONS})
    unacknowledged: list[OwnRecord] = []
    got: dict[TopicPartition, list[int]] = {tp: [] for tp in TPS}
    async with log.follow(dict.fromkeys(TPS, 0), max_records=chance.randint(1, 7)) as cursor:
        tail = OwnTail(cursor, dict.fromkeys(TPS, 0))

        def write_own() -> None:
            number, value = chance.randrange(PARTITIONS), b"own"
            offset = log.append(TOPIC, number, value=value)
            unacknowledged.append(OwnRecord(TOPIC, number, offset, None, value, []))

        def write_other() -> None:
            log.append(TOPIC, chance.randrange(PARTITIONS), value=b"other")

        def leave_a_gap() -> None:
            log.skip(TOPIC, chance.randrange(PARTITIONS))

        def acknowledge() -> None:
            if unacknowledged:  # mostly in order; a producer that was replaced acknowledges late
                record = unacknowledged.pop(0 if chance.random() < 0.9 else chance.randrange(len(unacknowledged)))
                if chance.random() < 0.95:  # else its task was cancelled
                    tail.on_appended(tail.turn, record)

        async def read() -> None:
            for tp, records in (await tail.next(0.0)).items():
                got[tp] += [record.offset for record in records]
            for tp in TPS:
                assert await tail.position(tp) >= (got[tp][-1] + 1 if got[tp] else 0)
                assert not [r for r in _of(log, tp) if r < await tail.position(tp) and r not in got[tp]]

        moves: list[Callable[[], Any]] = [
            write_own,
            write_own,
            write_other,
            leave_a_gap,
            acknowledge,
            acknowledge,
            read,
        ]
        for _ in range(200):
            if (done := chance.choice(moves)()) is not None:
                await done
        while any(_of(log, tp) != got[tp] for tp in TPS):
            before = {tp: len(offsets) for tp, offsets in got.items()}
            await read()
            assert any(len(got[tp]) > before[tp] for tp in TPS), "the rest is read"


async def test_an_own_record_ends_the_wait_for_others() -> None:
    log = MemoryLog({TOPIC: PARTITIONS})
    async with log.follow(dict.fromkeys(TPS, 0)) as cursor:
        tail = OwnTail(cursor, dict.fromkeys(TPS, 0))
        record = OwnRecord(TOPIC, 1, 0, None, b"own", [])
        tail.on_appended(tail.turn, record)
        assert await tail.next(60.0) == {TPS[1]: [record]}
        assert await tail.next(0.0) == {}


def _of(log: MemoryLog, tp: TopicPartition) -> list[int]:
    return [record.offset for record in log._of[tp].records]
