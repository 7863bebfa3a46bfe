"""One rebalance must not lead to the next: commits that fall into a join are refused without asking the broker."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import CommitFailedError
from aiokafka.protocol.group import SyncGroupRequest
from aiokafka.structs import OffsetAndMetadata

from infra.kafka.topics import KafkaAddress, committed_by
from schemas.topics import Topics
from streams.faust.ledger import refuse_commits_while_joining

GROUP = "joining"


class _CommitsInJoins(ConsumerRebalanceListener):  # type: ignore[misc]
    """Commits at a revocation, and once more between the join's two requests, as a commit timer does."""

    def __init__(self, consumer: AIOKafkaConsumer) -> None:
        self._consumer = consumer
        self.at_revocation: list[str] = []
        self.in_join: list[str] = []
        self.assigned = asyncio.Event()
        coordinator = consumer._coordinator
        send = coordinator._send_req

        async def commit_before_sync(request: Any) -> Any:
            if isinstance(request, SyncGroupRequest):
                self.in_join.append(await self._commit())
            return await send(request)

        coordinator._send_req = commit_before_sync

    async def _commit(self) -> str:
        held = self._consumer.assignment()
        try:
            for tp in sorted(held)[:1]:
                await self._consumer.commit({tp: OffsetAndMetadata(0, "")})
        except CommitFailedError:
            return "refused"
        return "committed" if held else "nothing held"

    async def on_partitions_revoked(self, revoked: Any) -> None:
        self.assigned.clear()
        self.at_revocation.append(await self._commit())

    async def on_partitions_assigned(self, assigned: Any) -> None:
        self.assigned.set()


@pytest.mark.parametrize("guarded", [True, False])
async def test_a_commit_that_falls_into_a_join_brings_no_second_join(
    address: KafkaAddress, topics: Topics, made_topics: Topics, guarded: bool
) -> None:
    group = f"{topics.cases}.{GROUP}.{guarded}"

    async def joined(stack: AsyncExitStack) -> tuple[AIOKafkaConsumer, _CommitsInJoins]:
        consumer = address.consumer(group_id=group, heartbeat_interval_ms=200)
        await consumer.start()
        stack.push_async_callback(consumer.stop)
        if guarded:
            refuse_commits_while_joining(consumer)
        listener = _CommitsInJoins(consumer)
        consumer.subscribe([made_topics.cases], listener=listener)
        await asyncio.wait_for(listener.assigned.wait(), 30)
        return consumer, listener

    async with AsyncExitStack() as stack:
        first, heard = await joined(stack)
        await joined(stack)
        await asyncio.wait_for(heard.assigned.wait(), 30)
        # The first one held partitions when the second came: at its revocation it may commit, within the join it may not.
        assert heard.at_revocation[-1] == "committed"
        assert heard.in_join[-1] == "refused"
        asks_again = first._coordinator._rejoin_needed_fut.done()
        assert asks_again is not guarded
        [tp] = sorted(first.assignment())[:1]
        assert tp in {TopicPartition(made_topics.cases, n) for n in range(2)}
    assert await committed_by(address, group)
