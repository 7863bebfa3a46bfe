"""The log, on Kafka and in memory: one suite, so that what a test shows on the one holds on the other."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import uuid4

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import KafkaConnectionError, KafkaError

from infra.embedded.kafka.server import EmbeddedKafka
from infra.kafka.topics import KafkaAddress, create_topics, known_topics
from streams.journal.log import Isolation, KafkaLog, Log, record_ends
from tests.streams.memory_log import MemoryLog

CONTENT = (("plain", b"0"), ("committed", b"1"), ("aborted", b"3"), ("plain", b"5"), ("committed", b"6"))
"""Of partition 0: a transaction's marker takes the offset behind its record, so 2, 4 and 7 are gaps and the end is 8."""
OFFSETS: dict[Isolation, list[int]] = {"read_uncommitted": [0, 1, 3, 5, 6], "read_committed": [0, 1, 5, 6]}


async def on_kafka(address: KafkaAddress, topic: str) -> Log:
    log, tp = KafkaLog(address), TopicPartition(topic, 0)
    producer = address.producer(transactional_id=f"{topic}-test")
    plain = address.producer()
    await producer.start()
    await plain.start()
    try:
        for kind, value in CONTENT:
            record: dict[str, Any] = {"partition": 0, "value": value}
            if kind == "plain":
                await plain.send_and_wait(topic, **record)
                continue
            await producer.begin_transaction()
            await producer.send_and_wait(topic, **record)
            await (producer.commit_transaction() if kind == "committed" else producer.abort_transaction())
            while (await log.bounds(topic))[tp][1] != int(value) + 2:
                pass  # the broker writes the marker after it has answered
    finally:
        await plain.stop()
        await producer.stop()
    return log


def in_memory(topic: str) -> MemoryLog:
    log = MemoryLog({topic: 2})
    for kind, value in CONTENT:
        log.append(topic, 0, value=value, timestamp=1, aborted=kind == "aborted")
        if kind != "plain":
            log.skip(topic, 0)
    return log


@pytest.fixture(scope="module")
def filled(kafka: EmbeddedKafka) -> tuple[Log, str]:
    """A log on Kafka that every test reads, and none writes."""
    topic = f"log-{uuid4().hex}"

    async def fill() -> Log:
        async with kafka.address.admin() as admin:
            await create_topics(admin, {topic: (2, {})}, 1)
            await known_topics(admin, [topic])
        return await on_kafka(kafka.address, topic)

    return asyncio.run(fill()), topic


@pytest.fixture(params=["kafka", "memory"])
def log(request: pytest.FixtureRequest) -> tuple[Log, str]:
    found: tuple[Log, str] = request.getfixturevalue("filled") if request.param == "kafka" else (in_memory("t"), "t")
    return found


async def read(log: Log, spans: dict[TopicPartition, tuple[int, int]], **how: Any) -> list[int]:
    return [record.offset async for _, records in log.replay(spans, **how) for record in records]


async def test_bounds_count_markers_and_an_unknown_topic_has_none(log: tuple[Log, str]) -> None:
    of, topic = log
    assert (await of.bounds(topic))[TopicPartition(topic, 0)] == (0, 8)
    assert await of.bounds("no-such-topic") == {}


@pytest.mark.parametrize("isolation", OFFSETS)
async def test_every_range_is_replayed_whole_over_its_gaps(log: tuple[Log, str], isolation: Isolation) -> None:
    of, topic = log
    tp = TopicPartition(topic, 0)
    for first in range(9):
        for end in range(first, 9):
            expected = [offset for offset in OFFSETS[isolation] if first <= offset < end]
            if end - first in (0, 1, 3, 8):
                assert await read(of, {tp: (first, end)}, isolation=isolation) == expected, (first, end)
    assert await read(of, {tp: (0, 8)}, isolation=isolation, batch=2) == OFFSETS[isolation]


async def test_the_end_of_the_records_is_found_before_markers(log: tuple[Log, str]) -> None:
    of, topic = log
    tp = TopicPartition(topic, 0)
    assert await record_ends(of, {tp: (0, 8)}) == {tp: 7}
    assert await record_ends(of, {tp: (7, 8)}) == {tp: 7}, "nothing but a marker"


@pytest.mark.parametrize("isolation", OFFSETS)
@pytest.mark.parametrize("start", [0, 2, 4, 7])
async def test_a_cursor_reads_on_and_passes_markers(log: tuple[Log, str], isolation: Isolation, start: int) -> None:
    of, topic = log
    tp = TopicPartition(topic, 0)
    expected = [offset for offset in OFFSETS[isolation] if offset >= start]
    got: list[int] = []
    async with of.follow({tp: start}, isolation=isolation, max_records=2) as cursor:
        assert await cursor.ends([tp]) == {tp: 8}
        while await cursor.position(tp) < 8:
            batch = (await cursor.next(0.2)).get(tp, ())
            assert len(batch) <= 2
            got += [record.offset for record in batch]
    assert got == expected


async def test_what_is_appended_later_reaches_a_cursor() -> None:
    log = in_memory("t")
    tp = TopicPartition("t", 1)
    async with log.follow({tp: 0}) as cursor:
        assert await cursor.next(0.0) == {}
        log.append("t", 1, value=b"later")
        assert [r.value for r in (await cursor.next(5.0))[tp]] == [b"later"]


async def test_a_log_in_memory_is_cut_off_at_any_record_and_mended() -> None:
    for after in range(len(CONTENT)):
        log = in_memory("t")
        tp = TopicPartition("t", 0)
        log.break_after(after)
        got: list[int] = []
        with pytest.raises(KafkaConnectionError):
            async with log.follow({tp: 0}) as cursor:
                while True:
                    got += [r.offset for r in (await cursor.next(0.0)).get(tp, ())]
        assert got == OFFSETS["read_uncommitted"][:after]
        with pytest.raises(KafkaError):
            await log.bounds("t")
        log.break_after(None)
        assert await read(log, {tp: (0, 8)}) == OFFSETS["read_uncommitted"]


async def test_the_first_offset_at_a_time_is_found(log: tuple[Log, str]) -> None:
    of, topic = log
    tps = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    found = await of.offsets_at(tps, 0)
    assert found == {tps[0]: 0, tps[1]: None}
    assert await of.offsets_at(tps, 4_000_000_000_000) == {tps[0]: None, tps[1]: None}
