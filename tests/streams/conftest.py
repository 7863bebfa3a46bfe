"""An installation of its own for each test of the runtime, on the session's real Kafka."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path

import pytest

from infra.kafka.topics import KafkaAddress
from tests.streams.world import World

_numbers = count()


@pytest.fixture
async def world(address: KafkaAddress, tmp_path: Path) -> AsyncIterator[World]:
    """Two partitions of everything, empty."""
    async with World.made(address, f"world{next(_numbers)}.", tmp_path / "slots", partitions=2) as world:
        yield world
    # What died in a test leaves futures that nobody looks at; Python 3.11 breaks when their report falls into a compile.
    gc.collect()
