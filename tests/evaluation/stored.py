"""Databases of their own, and prices in them, for tests that read tables."""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import Awaitable, Callable
from itertools import count

from infra.clickhouse.client import ClickHouse, connect
from infra.clickhouse.migrate import migrate
from infra.embedded.clickhouse.server import EmbeddedClickHouse
from infra.market.outcomes.bars import PriceImport, write_bars, write_import
from schemas.prices import HORIZONS_S, PriceSeries

_numbers = count()


TEMPLATE = "schema_of_tests"
MADE = f"""SELECT create_table_query FROM system.tables
WHERE database = '{TEMPLATE}' ORDER BY engine = 'View', name"""


async def copy_schema(engine: EmbeddedClickHouse, name: str) -> None:
    """Make a database with today's schema, unless it exists.

    The first test process that needs one migrates a template for all. Migrating takes ClickHouse six times as long as
    this copy.
    """
    url = f"http://{engine.host}:{engine.port}"
    async with connect(url, database=TEMPLATE) as template:
        with (engine.data_dir / "template.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            await migrate(template)
        made = [create.replace(f" {TEMPLATE}.", f" {name}.") for (create,) in (await template.query(MADE)).rows]
        await template.command(f"CREATE DATABASE IF NOT EXISTS {name}")
    async with connect(url, database=name) as tables:
        if (await tables.query("SELECT 1 FROM system.tables WHERE database = currentDatabase()")).rows:
            return
        for create in (*made, f"INSERT INTO migrations SELECT * FROM {TEMPLATE}.migrations"):
            await tables.command(create)


def new_database(
    engine: EmbeddedClickHouse, fill: Callable[[ClickHouse], Awaitable[None]] | None = None
) -> dict[str, str]:
    """Return the settings of a new database with today's schema and what ``fill`` writes."""
    url, name = f"http://{engine.host}:{engine.port}", f"evaluation{os.getpid()}_{next(_numbers)}"

    async def prepare() -> None:
        await copy_schema(engine, name)
        if fill is not None:
            async with connect(url, database=name) as tables:
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
