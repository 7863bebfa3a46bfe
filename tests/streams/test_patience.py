"""A worker whose partitions move while the broker restarts waits for it, and asks nothing of what it does not hold."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from aiokafka.errors import KafkaConnectionError, TopicAuthorizationFailedError

from infra.kafka import KafkaAddress, offsets_of
from newsproof.bench.graph import plain_registry
from schemas.errors import TransientError
from streams import patience
from streams.patience import patiently
from tests.streams.world import World


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "AGAIN_S", 0.0)


async def test_what_could_not_be_read_while_the_broker_was_away_is_read_again() -> None:
    failures = iter([KafkaConnectionError("away"), TransientError("no coordinator"), ConnectionRefusedError()])

    async def read() -> str:
        if (failure := next(failures, None)) is not None:
            raise failure
        return "there"

    assert await patiently(read, "anything") == "there"


async def test_what_another_try_would_not_mend_is_raised_as_it_comes() -> None:
    async def read() -> str:
        raise TopicAuthorizationFailedError("cases")

    with pytest.raises(TopicAuthorizationFailedError):
        await patiently(read, "anything")


async def test_a_worker_outlives_a_broker_that_is_away_while_its_partitions_are_loaded(
    address: KafkaAddress, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, real = itertools.count(), offsets_of

    async def away_at_first(*args: Any, **more: Any) -> Any:
        if next(calls) < 2:
            raise KafkaConnectionError("Unable to bootstrap")
        return await real(*args, **more)

    monkeypatch.setattr("streams.projector.offsets_of", away_at_first)
    async with World.made(address, "patience.", tmp_path, partitions=2) as world:
        await world.publish(1, 2, 3)
        async with world.working(plain_registry(asks=False)):
            await world.until_closed(3)
    assert next(calls) > 2


async def test_the_end_of_a_partition_that_the_consumer_does_not_hold_is_unknown(
    address: KafkaAddress, tmp_path: Path
) -> None:
    async with World.made(address, "highwater.", tmp_path, partitions=2) as world:
        await world.publish(1)
        async with world.working(plain_registry(asks=False)) as worker:
            await world.until_closed(1)
            ends = [worker.highwater(world.topics.cases, number) for number in range(2)]
            assert sum(end or 0 for end in ends) >= 6
            assert worker.highwater(world.topics.cases, 2) is None
