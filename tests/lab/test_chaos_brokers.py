"""Several brokers of one quorum: what coordinates a group is killed, and every record is in three places again."""

from __future__ import annotations

from pathlib import Path

import pytest
from aiokafka import TopicPartition
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from infra.kafka.topics import KafkaAddress, committed_by, ensure_topics
from lab.chaos import brokers
from lab.chaos.brokers import Brokers
from schemas.topics import Topics


@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_three_brokers_keep_what_was_acknowledged_while_a_coordinator_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(brokers, "AWAY_S", 0.0)
    topics, said = Topics("three."), list[str]()
    three = Brokers(tmp_path, 3, said.append)
    await three.start()
    try:
        address = KafkaAddress.embedded(three.bootstrap, three.password_file)
        await ensure_topics(address, topics, partitions=3, replication=three.copies)
        async with address.admin() as admin:
            (described,) = await admin.describe_topics([topics.cases])
            assert [len(partition["replicas"]) for partition in described["partitions"]] == [3, 3, 3]
            (configs,) = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topics.cases)])
            assert {entry[0]: entry[1] for entry in configs.resources[0][4]}["min.insync.replicas"] == "2"
        tp, group = TopicPartition(topics.cases, 0), topics.group("worker")
        async with address.producer() as producer, address.reading(group_id=group) as consumer:
            consumer.assign([tp])
            await consumer.commit({tp: 0})
            await producer.send_and_wait(topics.cases, b"before", partition=0)
            await three.kill_one(address, topics)
            await producer.send_and_wait(topics.cases, b"after", partition=0)
            assert [(await consumer.getone(tp)).value for _ in range(2)] == [b"before", b"after"]
            await consumer.commit({tp: 2})
        assert (await committed_by(address, group))[tp].offset == 2
        assert three.coordinator_kills == {"the group worker": 1} and len(three.return_s) == 1
    finally:
        await three.stop()
