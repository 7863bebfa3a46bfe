"""Memory made again from the log: the same rows, whatever had become of the table, while the sink goes on."""

from __future__ import annotations

from typing import Any

import pytest

from infra.clickhouse.client import ClickHouse
from infra.clickhouse.columns import MEMORY
from newsproof.cli.operate.record import Rebuilt, rebuild
from tests.plain_graph import plain_registry
from tests.streams.sink.test_sink import close_cases, settled, sinking, tables
from tests.streams.world import World

__all__ = ["tables"]


async def remembered(client: ClickHouse) -> list[tuple[Any, ...]]:
    return (await client.query(f"SELECT {', '.join(MEMORY)} FROM memories FINAL ORDER BY run_id, case_id")).rows


async def rebuilt(world: World, client: ClickHouse) -> Rebuilt:
    return await rebuild(world.address, world.topics, client, registry=plain_registry(asks=True))


@pytest.mark.slow
async def test_what_was_damaged_is_as_the_sink_made_it_and_the_report_says_what_was_wrong(
    world: World, tables: ClickHouse
) -> None:
    await close_cases(world, *range(8))
    async with sinking(world, tables) as sink:
        await settled(world, sink)
    made = await remembered(tables)
    assert len(made) == 8
    await tables.command("INSERT INTO memories SELECT * REPLACE ('run-1' AS run_id) FROM memories LIMIT 1")
    whole = await remembered(tables)
    gone, bent = made[0][1], made[1][1]
    await tables.command(
        f"INSERT INTO memories SELECT * REPLACE ('nobody' AS case_id) FROM (SELECT * FROM memories WHERE case_id = '{gone}' AND run_id = 'live')"
    )
    await tables.command(
        f"INSERT INTO memories SELECT * REPLACE (0.99 AS confidence) FROM memories WHERE case_id = '{bent}'"
    )
    await tables.command(f"DELETE FROM memories WHERE case_id = '{gone}' AND run_id = 'live'")
    assert await remembered(tables) != whole
    done = await rebuilt(world, tables)
    assert (done.memories, done.same, done.changed, done.added, done.removed) == (8, 6, 1, 1, 1)
    assert await remembered(tables) == whole
    # What a rebuild that was broken off has left is in nobody's way.
    await tables.command("CREATE TABLE memories_rebuilt AS memories")
    await tables.command("INSERT INTO memories_rebuilt SELECT * REPLACE ('half' AS case_id) FROM memories LIMIT 1")
    again = await rebuilt(world, tables)
    assert (again.memories, again.same, again.changed, again.added, again.removed) == (8, 8, 0, 0, 0)
    assert await remembered(tables) == whole
    assert again.records == len(await world.journal())


@pytest.mark.slow
async def test_the_sink_goes_on_while_memory_is_rebuilt_and_nothing_is_missing(
    world: World, tables: ClickHouse
) -> None:
    async with sinking(world, tables) as sink:
        await close_cases(world, *range(4))
        await rebuilt(world, tables)
        await close_cases(world, *range(4, 8))
        await settled(world, sink)
    kept = await remembered(tables)
    assert len(kept) == 8
    assert (await rebuilt(world, tables)).same == 8
    assert await remembered(tables) == kept
