"""Migrations against the real engine: applied once, refused when changed, safe when two processes start at once."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from infra.clickhouse.client import ClickHouse, connect
from infra.clickhouse.columns import COLUMNS
from infra.clickhouse.descriptions import describe
from infra.clickhouse.migrate import load_migrations, migrate, shorten
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


OLD, NEW = (f"CREATE OR REPLACE VIEW v AS SELECT {n}" for n in (1, 2))


@pytest.mark.parametrize(
    ("batch", "shortened"),
    [
        ([[OLD], ["DROP TABLE IF EXISTS t", NEW]], [[], ["DROP TABLE IF EXISTS t", NEW]]),
        ([[OLD, "CREATE OR REPLACE VIEW w AS SELECT * FROM v"], [NEW]], None),
        ([[OLD], ["DROP VIEW IF EXISTS v"], [NEW]], None),
        ([[OLD, "CREATE OR REPLACE VIEW v AS SELECT * FROM v", NEW]], [[NEW]]),
        (
            [
                [
                    "ALTER TABLE t ADD COLUMN a Int8",
                    "ALTER TABLE t COMMENT COLUMN a 'x'",
                    "ALTER TABLE u ADD COLUMN a Int8",
                ]
            ],
            [["ALTER TABLE t ADD COLUMN a Int8\n, COMMENT COLUMN a 'x'", "ALTER TABLE u ADD COLUMN a Int8"]],
        ),
        ([["ALTER TABLE t ADD COLUMN a Int8", "DROP TABLE u", "ALTER TABLE t ADD COLUMN b Int8"]], None),
        ([["ALTER TABLE t ADD COLUMN a Int8"], ["ALTER TABLE t ADD COLUMN b Int8"]], None),
    ],
)
def test_only_what_nothing_reads_is_left_out_of_a_new_database(
    batch: list[list[str]], shortened: list[list[str]] | None
) -> None:
    assert shorten(batch) == (shortened or batch)


async def schema(client: ClickHouse) -> dict[str, list[tuple[str, ...]]]:
    tables = "SELECT name, replaceAll(create_table_query, currentDatabase(), 'here') FROM system.tables"
    columns = "SELECT table, name, type, default_kind, default_expression, comment FROM system.columns"
    ours = "WHERE database = currentDatabase() AND {0} != 'migrations' ORDER BY {0}"
    return {
        "tables": (await client.query(f"{tables} {ours.format('name')}")).rows,
        "columns": (await client.query(f"{columns} {ours.format('table')}, position")).rows,
    }


@pytest.mark.slow
async def test_a_new_database_has_the_schema_that_the_migrations_make_one_statement_after_the_other(
    clickhouse: ClickHouse, empty: ClickHouse
) -> None:
    async with connect(empty.address, database="default") as outside:
        await outside.define(f"CREATE DATABASE {empty.database}")
    batch = [migration.statements for migration in load_migrations()]
    assert sum(map(len, shorten(batch))) < 0.7 * sum(map(len, batch))
    for statements in batch:
        for statement in statements:
            await empty.define(statement)
    await describe(empty)
    assert await schema(clickhouse) == await schema(empty)


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
