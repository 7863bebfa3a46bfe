"""A coordinator that moves or loads knows nothing of a group for a moment: its clients ask again, and believe nothing.

What it answers meanwhile is Kafka's own answer for a broker that does not lead the group's partition of the offsets topic.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.conn import AIOKafkaConnection
from aiokafka.errors import GroupAuthorizationFailedError, GroupLoadInProgressError, NotCoordinatorForGroupError
from aiokafka.protocol.admin import DescribeGroupsRequest
from aiokafka.protocol.commit import OffsetFetchRequest

from infra.kafka.topics import KafkaAddress, committed_by, members_of
from schemas.errors import TransientError
from schemas.topics import Topics


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> Callable[[type, list[Any]], None]:
    """Let the broker answer requests of this kind with these errors first, and with empty lists."""

    def refuse(kind: type, errors: list[Any]) -> None:
        send = AIOKafkaConnection.send

        async def answered(sent: Any) -> Any:
            response = await sent
            if errors and kind is OffsetFetchRequest:
                response.topics, response.error_code = [], errors.pop(0).errno
            elif errors:
                response.groups = [(errors.pop(0).errno, "group", "", "", "", [])]
            return response

        def through(self: Any, request: Any, **more: Any) -> Any:
            sent = send(self, request, **more)
            return answered(sent) if isinstance(request, kind) else sent

        monkeypatch.setattr(AIOKafkaConnection, "send", through)

    return refuse


async def test_a_group_whose_coordinator_moves_is_not_taken_for_empty(
    address: KafkaAddress, made_topics: Topics, refused: Callable[[type, list[Any]], None]
) -> None:
    async with address.reading(group_id=made_topics.group("moving")) as consumer:
        consumer.subscribe([made_topics.publisher_lease])
        await consumer.getmany(timeout_ms=5000)
        refused(DescribeGroupsRequest, [NotCoordinatorForGroupError, GroupLoadInProgressError])
        assert len(await members_of(address, made_topics.group("moving"))) == 1


async def test_a_group_that_nobody_may_see_is_an_error(
    address: KafkaAddress, refused: Callable[[type, list[Any]], None]
) -> None:
    refused(DescribeGroupsRequest, [GroupAuthorizationFailedError])
    with pytest.raises(TransientError, match="GroupAuthorizationFailed"):
        await members_of(address, "group")


async def test_what_a_group_has_committed_is_asked_again_while_its_coordinator_moves(
    address: KafkaAddress, made_topics: Topics, refused: Callable[[type, list[Any]], None]
) -> None:
    tp, group = TopicPartition(made_topics.publisher_lease, 0), made_topics.group("committing")
    async with address.reading(group_id=group) as consumer:
        consumer.assign([tp])
        await consumer.commit({tp: 7})
        refused(OffsetFetchRequest, errors := [NotCoordinatorForGroupError, GroupLoadInProgressError])
        assert (await committed_by(address, group))[tp].offset == 7
        assert not errors
    refused(OffsetFetchRequest, errors := [NotCoordinatorForGroupError, GroupLoadInProgressError])
    async with address.reading(group_id=group) as consumer:
        consumer.assign([tp])
        assert await consumer.committed(tp) == 7
        assert not errors
