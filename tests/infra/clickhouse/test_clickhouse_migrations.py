"""Migrations against the real engine: applied once, refused when changed, safe when two processes start at once."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from infra.clickhouse.client import ClickHouse, connect
from infra.clickhouse.columns import COLUMNS
from infra.clickhouse.migrate import load_migrations, migrate
from schemas.errors import ConfigError

TABLE = "CREATE TABLE IF NOT EXISTS t (n UInt8) ENGINE = MergeTree ORDER BY n;\n"


def files(directory: Path, **texts: str) -> Path:
    for name, text in texts.items():
        (directory / f"{name}.sql").write_text(text, encoding="utf-8")
    return directory


async def tables(client: ClickHouse) -> set[str]:
    return {row[0] for row in (await client.query("SHOW TABLES")).rows}


async def test_a_file_that_was_changed_after_it_was_applied_is_refused(empty: ClickHouse, tmp_path: Path) -> None:
    await migrate(empty, directory=files(tmp_path, m001_t=TABLE))
    files(tmp_path, m001_t=TABLE.replace("UInt8", "UInt16"))
    with pytest.raises(ConfigError, match=r"m001_t was changed .* put the change into a new migration"):
        await migrate(empty, directory=tmp_path)


async def test_only_the_new_migration_runs_on_an_older_database(empty: ClickHouse, tmp_path: Path) -> None:
    await migrate(empty, directory=files(tmp_path, m001_t=TABLE))
    files(tmp_path, m002_more="-- why; it is\nALTER TABLE t ADD COLUMN IF NOT EXISTS word String DEFAULT 'a;b';\n")
    assert await migrate(empty, directory=tmp_path) == ("m002_more",)
    assert [row[:2] for row in (await empty.query("DESCRIBE t")).rows] == [("n", "UInt8"), ("word", "String")]


async def test_a_database_of_newer_code_is_refused(empty: ClickHouse, tmp_path: Path) -> None:
    await migrate(empty, directory=files(tmp_path, m001_t=TABLE, m002_u=TABLE.replace(" t ", " u ")))
    (tmp_path / "m002_u.sql").unlink()
    with pytest.raises(ConfigError, match="start the newer code"):
        await migrate(empty, directory=tmp_path)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("m001_t", "CREATE TABLE t (n UInt8) ENGINE = Memory;", "may run twice"),
        ("m001_t", "INSERT INTO t VALUES (1);", "may run twice"),
        ("m001_t", TABLE + "INSERT INTO t (n) SELECT 1;", "a copy, .* into a ReplacingMergeTree"),
        ("m002_t", TABLE, "must be m001"),
        ("tables", TABLE, "name it m001"),
    ],
)
def test_a_migration_that_could_do_harm_is_refused_before_it_runs(
    tmp_path: Path, name: str, text: str, says: str
) -> None:
    with pytest.raises(ConfigError, match=says):
        load_migrations(files(tmp_path, **{name: text}))


@pytest.mark.slow
async def test_two_starts_at_once_end_in_one_schema_and_what_nobody_recorded_runs_again_without_harm(
    empty: ClickHouse,
) -> None:
    names = tuple(m.name for m in load_migrations())
    async with connect(empty.address, database=empty.database) as other:
        await asyncio.gather(migrate(empty), migrate(other))
        assert await migrate(other) == ()
    recorded = await empty.query("SELECT name FROM migrations FINAL ORDER BY number")
    assert tuple(row[0] for row in recorded.rows) == names
    made = {*COLUMNS, "outcomes", "runs", "run_cases", "migrations", "v_cost_by_step", "v_run_cases"}
    assert made <= await tables(empty)
    await empty.command("INSERT INTO runs (run_id) VALUES ('kept')")
    await empty.command("TRUNCATE TABLE migrations")
    assert await migrate(empty) == names
    assert (await empty.query("SELECT run_id FROM runs")).rows == [("kept",)]
