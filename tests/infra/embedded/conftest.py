"""A broker that tests may stop and look into, which those of other folders share."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from infra.embedded.kafka.server import EmbeddedKafka


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedKafka]:
    server = EmbeddedKafka(tmp_path_factory.mktemp("kafka data"))
    asyncio.run(server.start())
    yield server
    asyncio.run(server.stop())


@pytest.fixture
async def kafka(broker: EmbeddedKafka) -> EmbeddedKafka:
    """The broker of these tests alone, running, whatever the test before did to it."""
    if not broker.running:
        await broker.start()
    return broker
