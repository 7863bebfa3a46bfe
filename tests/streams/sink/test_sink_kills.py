"""A sink whose process is killed at each boundary of a range: afterwards the tables hold every event once."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from infra.clickhouse.client import Address, ClickHouse, connect
from infra.clickhouse.migrate import migrate
from infra.embedded.clickhouse.server import EmbeddedClickHouse
from newsproof.app.processes.health import sink_unready
from streams.failpoints import SINK_INSERTED, SINK_PLANNED
from tests.small_disk import fill, small_disk
from tests.streams.forked import exit_of, forked
from tests.streams.sink.sink_process import BLOCK, COMMITTED, sink_until
from tests.streams.sink.test_sink import (
    CASES,
    close_cases,
    everything_is_there_once,
    rows,
    settled,
    sinking,
    tables,
)
from tests.streams.world import World

__all__ = ["small_disk", "tables"]


@pytest.mark.parametrize(
    ("where", "times"),
    [
        (SINK_INSERTED, 2),  # in the quick set: its one kill of a process that is started again
        pytest.param(SINK_PLANNED, 2, marks=pytest.mark.slow),
        pytest.param(BLOCK, 2, marks=pytest.mark.slow),
        pytest.param(COMMITTED, 5, marks=pytest.mark.slow),
    ],
)
async def test_after_kills_at_a_boundary_every_event_is_in_the_tables_once(
    world: World, tables: ClickHouse, where: str, times: int
) -> None:
    await close_cases(world, *range(CASES))
    for pieces in (45, 200):  # what was planned stays one range, however the log is cut afterwards
        sink = (world.address, world.topics, tables.address, tables.database)
        assert await exit_of(forked(sink_until, *sink, where, times, pieces)) == -signal.SIGKILL
    assert await rows(tables, "events") > 0
    async with sinking(world, tables) as successor:
        await settled(world, successor)
    await everything_is_there_once(world, tables, CASES)


@pytest.mark.slow
async def test_a_sink_catches_up_after_the_disk_of_the_engine_was_full(world: World, small_disk: Path) -> None:
    async with EmbeddedClickHouse(small_disk / "engine", memory_bytes=1024**3) as engine:
        address = Address(host=engine.host, port=engine.port)
        async with connect(address, database="full") as client:
            await migrate(client)
            async with sinking(world, client) as sink:
                await close_cases(world, *range(10))
                await settled(world, sink)
                # A merge that meets a full disk may leave a broken part: the engine's fault (docs/reliability.md), not the sink's.
                await client.command("SYSTEM STOP MERGES")
                fill(filler := small_disk / "filler")
                await close_cases(world, *range(10, CASES))
                await world.until(lambda: sink.waits_for_tables, within_s=60)
                retries = sink.retries
                await world.until(lambda: sink.retries > retries, within_s=60)
                assert "refuses" in sink_unready(sink)["clickhouse"]
                filler.unlink()
                await settled(world, sink)
                assert sink_unready(sink) == {}
            await everything_is_there_once(world, client, CASES)
