"""Fixtures: one embedded engine for all ClickHouse tests of a session, and a database of its own for each test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from itertools import count

import pytest

from infra.clickhouse.client import Address, ClickHouse, connect
from infra.clickhouse.columns import COLUMNS
from infra.clickhouse.migrate import migrate
from infra.embedded.clickhouse.server import EmbeddedClickHouse

_numbers = count()


@pytest.fixture(scope="session")
def clickhouse_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedClickHouse]:
    server = EmbeddedClickHouse(tmp_path_factory.mktemp("clickhouse"), memory_bytes=1024**3)
    asyncio.run(server.start())
    yield server
    asyncio.run(server.stop())


@pytest.fixture
async def empty(clickhouse_server: EmbeddedClickHouse) -> AsyncIterator[ClickHouse]:
    """A client of a database that does not exist yet."""
    address = Address(host=clickhouse_server.host, port=clickhouse_server.port)
    async with connect(address, database=f"test_{next(_numbers)}") as client:
        yield client


@pytest.fixture
async def clickhouse(clickhouse_server: EmbeddedClickHouse) -> AsyncIterator[ClickHouse]:
    """A client of a database with the newest schema and nothing in it."""
    address = Address(host=clickhouse_server.host, port=clickhouse_server.port)
    async with connect(address, database="shared") as client:
        await migrate(client)
        for table in (*COLUMNS, "bars", "price_imports", "outcomes", "outcome_drops", "runs", "run_cases", "labels"):
            await client.command(f"TRUNCATE TABLE {table}")
        yield client
