"""A topic of which no broker tells is unknown, not missing: a reader that took it for missing would begin from nothing."""

from __future__ import annotations

from typing import Any

import pytest
from aiokafka.errors import KafkaConnectionError

from infra.kafka.topics import KafkaAddress, partitions_of
from schemas.topics import Topics


async def test_a_topic_that_no_broker_tells_of_is_no_empty_topic(address: KafkaAddress, made_topics: Topics) -> None:
    async with address.reading() as consumer:
        update = consumer._client._metadata_update

        async def fails(*_args: Any) -> bool:
            return False  # as aiokafka when no broker can be reached

        consumer._client._metadata_update = fails
        for _ in range(2):
            with pytest.raises(KafkaConnectionError, match="no broker says"):
                await partitions_of(consumer, made_topics.news)
        consumer._client._metadata_update = update
        assert len(await partitions_of(consumer, made_topics.news)) > 0
        assert await partitions_of(consumer, f"{made_topics.prefix}none") == []


async def test_an_error_right_after_the_start_is_raised_and_the_client_is_closed(address: KafkaAddress) -> None:
    with pytest.raises(ZeroDivisionError):
        async with address.reading() as consumer:
            raise ZeroDivisionError
    assert not any(connection.connected() for connection in consumer._client._conns.values())
