"""Topics that were just made: whoever made them may use them at once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.client import AIOKafkaClient
from aiokafka.cluster import ClusterMetadata
from aiokafka.errors import UnknownTopicOrPartitionError
from aiokafka.protocol.metadata import MetadataRequest
from aiokafka.structs import BrokerMetadata

from evaluation.runs.topic import RunTopic
from infra.kafka import topics as module
from infra.kafka.topics import KafkaAddress, ensure_topics
from schemas.errors import TransientError
from schemas.topics import Topics


class Lagging:
    """A broker that learns of a topic only after so many questions: the only one (0), or another one beside it."""

    def __init__(self, topic: str, questions: float, monkeypatch: pytest.MonkeyPatch, *, other: int = 0) -> None:
        self.asked = 0
        send, brokers = AIOKafkaClient.send, ClusterMetadata.brokers

        async def lagging(client: AIOKafkaClient, node: int, request: Any, **more: Any) -> Any:
            response = await send(client, 1 if node == other else node, request, **more)
            if not isinstance(request, MetadataRequest) or other not in (0, node):
                return response
            self.asked += 1
            metadata = response.to_object()
            if self.asked <= questions:
                unknown = {"error_code": UnknownTopicOrPartitionError.errno, "topic": topic, "partitions": []}
                metadata["topics"] = [unknown if row["topic"] == topic else row for row in metadata["topics"]]
            return SimpleNamespace(to_object=lambda: metadata)

        monkeypatch.setattr(AIOKafkaClient, "send", lagging)
        if other:
            host = BrokerMetadata(other, "127.0.0.1", 1, None)
            monkeypatch.setattr(ClusterMetadata, "brokers", lambda cluster: {*brokers(cluster), host})


async def test_topics_are_made_when_the_broker_knows_them_all(
    address: KafkaAddress, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = Lagging(topics.publisher_lease, 2, monkeypatch)
    made = await ensure_topics(address, topics, partitions=2, replication=1)
    assert broker.asked >= 3, "a group that is joined earlier is given no partition for a minute"
    assert made[topics.publisher_lease] == 1

    others = Topics("other.")
    beside = Lagging(others.cases, 2, monkeypatch, other=2)
    await ensure_topics(address, others, partitions=2, replication=1)
    assert beside.asked >= 3, "of several brokers, each one is asked"

    run = RunTopic(address, topics, "one")
    broker = Lagging(run.name, 2, monkeypatch)
    await run.make(1)
    assert broker.asked >= 3, "its lease is joined next: without a partition of it, the run is taken for another's"


async def test_a_broker_that_never_knows_a_topic_is_an_error_that_names_it(
    address: KafkaAddress, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "KNOWN_WITHIN_S", 0.1)
    Lagging(topics.publisher_lease, float("inf"), monkeypatch)
    with pytest.raises(TransientError, match=rf"made \({topics.publisher_lease} at broker 1\).*controller"):
        await ensure_topics(address, topics, partitions=2, replication=1)
