"""Fetches wait long at the broker while nothing comes, and briefly from the first record on."""

from __future__ import annotations

import asyncio

import pytest
from aiokafka import TopicPartition

from infra.kafka import fetch_waits
from infra.kafka.topics import KafkaAddress, ensure_topics
from schemas.topics import Topics


async def test_a_consumer_waits_long_while_it_is_quiet_and_briefly_from_the_first_record_on(
    address: KafkaAddress, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ensure_topics(address, topics, partitions=1, replication=1)
    async with (
        asyncio.timeout(60),
        address.reading(fetch_max_wait_ms=25) as consumer,
        address.producer() as producer,
    ):
        sent, send = list[int](), consumer._client.send

        async def recorded(node: object, request: object) -> object:
            sent.extend([request._max_wait_ms] if type(request).__name__ == "FetchRequest" else [])  # type: ignore[attr-defined]
            return await send(node, request)

        monkeypatch.setattr(consumer._client, "send", recorded)
        consumer.assign([TopicPartition(topics.news, 0)])
        while 25 not in sent:
            await consumer.getmany(timeout_ms=100)
        monkeypatch.setattr(fetch_waits, "QUIET_AFTER_S", 0.0)
        while 500 not in sent:
            await consumer.getmany(timeout_ms=100)
        monkeypatch.setattr(fetch_waits, "QUIET_AFTER_S", 60.0)
        await producer.send_and_wait(topics.news, b"news")
        while not await consumer.getmany(timeout_ms=100):
            pass
        asked = len(sent)
        while len(sent) < asked + 2:
            await consumer.getmany(timeout_ms=100)
        assert set(sent[asked:]) == {25}


async def test_a_reader_of_what_is_fetched_already_leaves_the_event_loop_to_others(
    address: KafkaAddress, made_topics: Topics
) -> None:
    tp = TopicPartition(made_topics.budget, 0)
    async with address.producer() as producer:
        for sent in [await producer.send(tp.topic, b"x", partition=0) for _ in range(1000)]:
            await sent
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with address.reading() as consumer:
        consumer.assign([tp])
        assert len(await consumer.getmany(timeout_ms=5000, max_records=1)) == 1
        beside = asyncio.create_task(others())
        for number in range(1, 50):
            await consumer.getmany(timeout_ms=5000, max_records=1)
            assert turns >= number
        beside.cancel()
