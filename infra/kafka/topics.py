"""Topics, bulk reads and consumer group state, with plain clients. Address and login: ``infra.kafka.address``."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

import msgspec
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import (
    KafkaConnectionError,
    KafkaError,
    LeaderNotAvailableError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)
from aiokafka.protocol.metadata import MetadataRequest

from infra.kafka.address import KafkaAddress
from infra.kafka.aiokafka_fixes import read_any_batch
from schemas.errors import ConfigError, TransientError
from schemas.topics import MAX_MESSAGE_BYTES, Topics

__all__ = ["KafkaAddress"]  # passed on; a module's own names need no list

ONE_PARTITION = 1
NEWS_DAYS = 90
"""Retention of raw news."""
ENOUGH_COPIES = 3
"""With at least this many replicas, two brokers must have a record before it is acknowledged."""
KNOWN_WITHIN_S = 30.0
"""Seconds that a broker may take to learn of a topic that its controller has created."""
DESCRIBED_WITHIN_S = 3.0
"""Seconds after which a broker that has not described its topics counts as down."""
_NOT_YET = (UnknownTopicOrPartitionError.errno, LeaderNotAvailableError.errno)
read_any_batch()


def topic_specs(topics: Topics, *, partitions: int) -> dict[str, tuple[int, dict[str, str]]]:
    """Return topic name → (partitions, configuration). Journals are kept forever and never compacted."""
    journal = {"retention.ms": "-1", "cleanup.policy": "delete", "message.timestamp.type": "LogAppendTime"}
    days = 24 * 3600 * 1000
    # Small segments: the last one is never compacted, and is read at each start.
    listened = {"cleanup.policy": "compact", "segment.bytes": str(16 * 1024 * 1024), "min.cleanable.dirty.ratio": "0.1"}
    return {
        topics.news: (partitions, journal | {"retention.ms": str(NEWS_DAYS * days)}),
        topics.cases: (partitions, journal),
        topics.signals: (partitions, journal),
        topics.budget: (ONE_PARTITION, journal | {"retention.ms": str(63 * days)}),
        topics.configs: (ONE_PARTITION, {"cleanup.policy": "compact"}),
        topics.dead_letters: (partitions, journal),
        topics.research: (partitions, journal),
        topics.watches: (ONE_PARTITION, journal),
        topics.deliveries: (ONE_PARTITION, journal),
        topics.record_roots: (ONE_PARTITION, journal),
        topics.publisher_lease: (ONE_PARTITION, {"retention.ms": "3600000"}),
        topics.listener_items: (ONE_PARTITION, listened),
        topics.listener_cursors: (ONE_PARTITION, listened),
        topics.listener_lease: (ONE_PARTITION, {"retention.ms": "3600000"}),
        topics.reputation: (ONE_PARTITION, listened),
        topics.calibration: (ONE_PARTITION, journal),
    }


async def ensure_topics(address: KafkaAddress, topics: Topics, *, partitions: int, replication: int) -> dict[str, int]:
    """Create missing topics and check existing ones; return name → partitions of the topics created now.

    Raises:
        ConfigError: a topic cannot be created, or exists with another partition count, on which ids and order depend.
        TransientError: the broker does not learn of a new topic in time.
    """
    specs = topic_specs(topics, partitions=partitions)
    async with address.admin() as admin:
        existing = set(await admin.list_topics())
        missing = {name: spec for name, spec in specs.items() if name not in existing}
        created = {name: specs[name][0] for name in await create_topics(admin, missing, replication)}
        for topic in await known_topics(admin, list(specs)):
            count, wanted = len(topic["partitions"]), specs[topic["topic"]][0]
            if topic.get("error_code") == 0 and count != wanted:
                raise ConfigError(
                    f"topic {topic['topic']} has {count} partitions, the settings say {wanted}: the count is fixed at "
                    f"creation, set TOPIC_PARTITIONS={count} or use another NEWSPROOF_TOPIC_PREFIX"
                )
    return created


async def create_topics(
    admin: AIOKafkaAdminClient, specs: dict[str, tuple[int, dict[str, str]]], replication: int
) -> list[str]:
    """Create topics, specified as by ``topic_specs``; return the names of those that no other process created first.

    One request creates all of them, in a quarter of the time that one request each would take. ``known_topics`` waits
    until the broker knows them.

    Raises:
        ConfigError: the broker refuses to create one.
    """
    defaults = {"max.message.bytes": str(MAX_MESSAGE_BYTES)}
    if replication >= ENOUGH_COPIES:
        # With Kafka's default, 1, an acknowledged record may exist on one broker only, and be lost with it.
        defaults["min.insync.replicas"] = "2"
    new = [
        NewTopic(name, partitions, replication, topic_configs=defaults | config)
        for name, (partitions, config) in specs.items()
    ]
    created = []
    for name, code, *rest in (await admin.create_topics(new)).topic_errors if new else []:
        if code not in (0, TopicAlreadyExistsError.errno):
            raise ConfigError(f"Kafka refused to create topic {name}: error {code} {rest}; check the broker's limits")
        if code == 0:
            created.append(name)
    return created


async def known_topics(admin: AIOKafkaAdminClient, names: list[str]) -> list[dict[str, Any]]:
    """Return the descriptions of created topics, as soon as every live broker knows all of them.

    A broker learns of a topic some time after the controller has created it. A consumer that joins its group earlier
    gets no partition of the topic until its metadata is refreshed, after a minute.

    Raises:
        TransientError: a broker does not learn of the topics in time.
    """
    loop = asyncio.get_running_loop()
    until = loop.time() + KNOWN_WITHIN_S
    while True:
        described = await _described_by_each(admin, names)
        unknown = [
            (node, topic["topic"])
            for node in described
            for topic in described[node]
            if topic.get("error_code") in _NOT_YET
        ]
        if described and not unknown:
            return next(iter(described.values()))
        if loop.time() > until:
            where = ", ".join(f"{topic} at broker {node}" for node, topic in unknown)
            why = (
                f"topics are unknown {KNOWN_WITHIN_S:g} s after they were made ({where}): check that the brokers reach their "
                "controller, and start again"
                if unknown
                else f"no broker described its topics within {KNOWN_WITHIN_S:g} s: check that they run, and start again"
            )
            raise TransientError(why, kind="unavailable")
        await asyncio.sleep(0.02)


async def _described_by_each(admin: AIOKafkaAdminClient, names: list[str]) -> dict[int, list[dict[str, Any]]]:
    """Return node → its descriptions. A node that does not answer is left out: it learns of the topics as it starts.

    ``admin.describe_topics`` asks one node, at random.
    """
    described: dict[int, list[dict[str, Any]]] = {}

    async def ask(node: int) -> None:
        with suppress(KafkaError, TimeoutError):
            async with asyncio.timeout(DESCRIBED_WITHIN_S):  # a host without power does not refuse
                response = await admin._client.send(node, MetadataRequest(names))
                described[node] = response.to_object()["topics"]

    await asyncio.gather(*(ask(node.nodeId) for node in admin._client.cluster.brokers()))
    return described


async def read_range(
    address: KafkaAddress, ranges: dict[TopicPartition, tuple[int, int]], *, batch: int = 1000, **more: Any
) -> AsyncIterator[tuple[TopicPartition, Sequence[Any]]]:
    """Yield (partition, records) of each half-open offset range [first, end), in offset order per partition.

    Reads in bulk without a consumer group. Ends when every range is read to its end, even if compaction or transactions
    left gaps in the offsets.
    """
    left = {tp: end for tp, (first, end) in ranges.items() if first < end}
    if not left:
        return
    async with address.reading(fetch_max_wait_ms=200, **more) as consumer:
        consumer.assign(list(left))
        for tp in left:
            consumer.seek(tp, ranges[tp][0])
        while left:
            got = await consumer.getmany(timeout_ms=500, max_records=batch)
            for tp, records in got.items():
                if tp in left:
                    inside = records if records[-1].offset < left[tp] else [r for r in records if r.offset < left[tp]]
                    if inside:
                        yield tp, inside
            for tp in [tp for tp, end in left.items() if await consumer.position(tp) >= end]:
                del left[tp]
                consumer.pause(tp)


async def offsets_of(address: KafkaAddress, topic: str, **more: Any) -> dict[TopicPartition, tuple[int, int]]:
    """Return partition → (first offset, end offset) of a topic; empty if the topic does not exist.

    Raises:
        KafkaConnectionError: no broker responded.
    """
    async with address.reading(**more) as consumer:
        tps = [TopicPartition(topic, p) for p in await partitions_of(consumer, topic)]
        if not tps:
            return {}
        first, end = await consumer.beginning_offsets(tps), await consumer.end_offsets(tps)
        return {tp: (first[tp], end[tp]) for tp in tps}


async def partitions_of(consumer: AIOKafkaConsumer, topic: str) -> list[int]:
    """Return a topic's partition numbers, ascending; empty if it does not exist. ``consumer`` must be started.

    Raises:
        KafkaConnectionError: no broker responded, so it is unknown whether the topic exists.
    """
    client = consumer._client
    answered = await client.add_topic(topic)
    if (known := client.cluster.partitions_for_topic(topic)) is None:
        # The topic is unknown to the broker, or the client has no metadata yet: only a successful request tells.
        answered = await client.force_metadata_update()
        known = client.cluster.partitions_for_topic(topic)
    if not answered:
        raise KafkaConnectionError(f"no broker says which partitions {topic} has")
    return sorted(known or ())


class CommittedOffset(msgspec.Struct, frozen=True):
    """A group's commit for one partition: the next offset to read, and the metadata stored with it."""

    offset: int
    metadata: str


async def committed_by(address: KafkaAddress, group: str) -> dict[TopicPartition, CommittedOffset]:
    """Return a group's commits by partition; empty for a group that never committed.

    Raises:
        TransientError: no coordinator responds.
    """
    offsets = await _of_coordinator(address, group, lambda admin: admin.list_consumer_group_offsets(group))
    return {
        TopicPartition(tp.topic, tp.partition): CommittedOffset(meta.offset, meta.metadata or "")
        for tp, meta in offsets.items()
        if meta.offset >= 0
    }


async def members_of(address: KafkaAddress, group: str) -> list[str]:
    """Return the member ids of a group, as assigned by the broker; empty for a group without members.

    Raises:
        TransientError: no coordinator responds.
    """
    described = await _of_coordinator(address, group, lambda admin: admin.describe_consumer_groups([group]))
    return [str(member[0]) for response in described for member_group in response.groups for member in member_group[5]]


async def _of_coordinator(
    address: KafkaAddress, group: str, ask: Callable[[AIOKafkaAdminClient], Awaitable[Any]]
) -> Any:
    # A broker that has just started has no coordinator for a moment, while its offsets topic is created.
    loop = asyncio.get_running_loop()
    until = loop.time() + 30.0
    async with address.admin() as admin:
        while True:
            try:
                return await ask(admin)
            except KafkaError as exc:
                if loop.time() > until or not exc.retriable:
                    raise TransientError(
                        f"the coordinator of group {group} does not respond: {exc!r}; check the broker",
                        kind="unavailable",
                    ) from exc
                await asyncio.sleep(0.2)
