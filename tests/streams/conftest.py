"""One real Kafka for all tests of the runtime, and topics of its own for each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from itertools import count
from pathlib import Path

import pytest

from infra.embedded.kafka import EmbeddedKafka
from infra.kafka import KafkaAddress
from tests.streams.world import World

_numbers = count()


@pytest.fixture(scope="session")
def kafka_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedKafka]:
    server = EmbeddedKafka(tmp_path_factory.mktemp("kafka"))
    asyncio.run(server.start())
    yield server
    asyncio.run(server.stop())


@pytest.fixture
async def world(kafka_server: EmbeddedKafka, tmp_path: Path) -> AsyncIterator[World]:
    """Two partitions of everything, empty."""
    address = KafkaAddress(bootstrap=kafka_server.bootstrap)
    async with World.made(address, f"world{next(_numbers)}.", tmp_path / "slots", partitions=2) as world:
        yield world
