"""Topics that were just made: whoever made them may use them at once."""

from __future__ import annotations

from typing import Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import UnknownTopicOrPartitionError

from evaluation.runs.topic import RunTopic
from infra.kafka import topics as module
from infra.kafka.topics import KafkaAddress, ensure_topics
from schemas.errors import TransientError
from schemas.topics import Topics


class Lagging:
    """Answers as a broker that learns of the lease's topic only after so many questions."""

    def __init__(self, topic: str, questions: float, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked = 0
        describe = AIOKafkaAdminClient.describe_topics

        async def lagging(admin: AIOKafkaAdminClient, names: list[str]) -> list[dict[str, Any]]:
            self.asked += 1
            found: list[dict[str, Any]] = await describe(admin, names)
            if self.asked <= questions:
                unknown = {"error_code": UnknownTopicOrPartitionError.errno, "topic": topic, "partitions": []}
                return [unknown if one["topic"] == topic else one for one in found]
            return found

        monkeypatch.setattr(AIOKafkaAdminClient, "describe_topics", lagging)


async def test_topics_are_made_when_the_broker_knows_them_all(
    address: KafkaAddress, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = Lagging(topics.publisher_lease, 2, monkeypatch)
    made = await ensure_topics(address, topics, partitions=2, replication=1)
    assert broker.asked >= 3, "a group that is joined earlier is given no partition for a minute"
    assert made[topics.publisher_lease] == 1

    run = RunTopic(address, topics, "one")
    broker = Lagging(run.name, 2, monkeypatch)
    await run.make(1)
    assert broker.asked >= 3, "its lease is joined next: without a partition of it, the run is taken for another's"


async def test_a_broker_that_never_knows_a_topic_is_an_error_that_names_it(
    address: KafkaAddress, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "KNOWN_WITHIN_S", 0.1)
    Lagging(topics.publisher_lease, float("inf"), monkeypatch)
    with pytest.raises(TransientError, match=rf"does not know {topics.publisher_lease} .*controller"):
        await ensure_topics(address, topics, partitions=2, replication=1)
