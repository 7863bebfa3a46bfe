"""Databases of their own, and prices in them, for tests that read tables."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from itertools import count

from infra.clickhouse.client import ClickHouse, connect
from infra.clickhouse.migrate import migrate
from infra.embedded.clickhouse.server import EmbeddedClickHouse
from infra.market.outcomes.bars import PriceImport, write_bars, write_import
from schemas.prices import HORIZONS_S, PriceSeries
from tests.conftest import DATABASE

_numbers = count()


MADE = """SELECT create_table_query FROM system.tables
WHERE database = currentDatabase() ORDER BY engine = 'View', name"""


def new_database(
    engine: EmbeddedClickHouse, fill: Callable[[ClickHouse], Awaitable[None]] | None = None
) -> dict[str, str]:
    """Return the settings of a new database with today's schema and what ``fill`` writes.

    Its tables are copied from those of the process's shared database: ClickHouse needs six times as long to migrate.
    """
    url, name = f"http://{engine.host}:{engine.port}", f"evaluation{os.getpid()}_{next(_numbers)}"

    async def prepare() -> None:
        async with connect(url, database=DATABASE) as shared:
            await migrate(shared)
            made = [create.replace(f" {DATABASE}.", f" {name}.") for (create,) in (await shared.query(MADE)).rows]
            await shared.command(f"CREATE DATABASE {name}")
        async with connect(url, database=name) as tables:
            for create in (*made, f"INSERT INTO migrations SELECT * FROM {DATABASE}.migrations"):
                await tables.command(create)
            if fill is not None:
                await fill(tables)

    asyncio.run(prepare())
    return {"CLICKHOUSE_URL": url, "CLICKHOUSE_DATABASE": name}


async def store_prices(tables: ClickHouse, version: int, source: str, *series: PriceSeries) -> None:
    """Store bars as one import."""
    await write_bars(tables, version, series)
    times = series[0].times_ms
    await write_import(
        tables,
        PriceImport(
            version=version, source=source, imported_ms=times[0], bars=sum(len(one.opens) for one in series),
            markets=tuple(one.symbol for one in series), covers=((times[0], times[-1]),), entry_within_s=900.0,
            horizons_s=HORIZONS_S,
        ),
    )  # fmt: skip
