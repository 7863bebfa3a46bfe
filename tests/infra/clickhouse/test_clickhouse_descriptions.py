"""Descriptions of tables, views and columns: none is missing, none is of what is gone, and the database has them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec
import pytest

from infra.clickhouse.client import ClickHouse
from infra.clickhouse.descriptions import Descriptions, describe, load_descriptions
from infra.clickhouse.migrate import migrate


def undescribed(columns: Mapping[str, Iterable[str]], descriptions: Descriptions) -> list[str]:
    """Return the tables and columns without a description, as ``table`` and ``table.column``."""
    found = [table for table in columns if not descriptions.of_table(table)]
    found += [f"{table}.{c}" for table, names in columns.items() for c in names if not descriptions.of_column(table, c)]
    return sorted(found)


def outdated(columns: Mapping[str, Iterable[str]], descriptions: Descriptions) -> list[str]:
    """Return the names in descriptions and relations that do not exist: tables, ``table.column``, and columns that no
    table has."""
    names = {table: set(held) for table, held in columns.items()}
    found = [table for table in descriptions.tables if table not in names]
    found += [
        f"{table}.{column}"
        for table, said in descriptions.tables.items()
        for column in said.columns
        if column not in names.get(table, ())
    ]
    found += [column for column in descriptions.columns if not any(column in held for held in names.values())]
    for relation in descriptions.relations:
        ends = [*((relation.of, a) for a, _ in relation.pairs()), *((relation.to, b) for _, b in relation.pairs())]
        found += [f"{table}.{column}" for table, column in ends if column not in names.get(table, ())]
    return sorted(found)


async def columns_of(client: ClickHouse) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for table, column in (
        await client.query("SELECT table, name FROM system.columns WHERE database = currentDatabase() ORDER BY ALL")
    ).rows:
        found.setdefault(table, []).append(column)
    return found


async def without_comment(client: ClickHouse) -> Sequence[tuple[str, ...]]:
    tables = "SELECT name, '' FROM system.tables WHERE database = currentDatabase() AND comment = ''"
    columns = "SELECT table, name FROM system.columns WHERE database = currentDatabase() AND comment = ''"
    return (await client.query(f"{tables} UNION ALL {columns}")).rows


async def test_every_table_view_and_column_is_described_and_nothing_else(clickhouse: ClickHouse) -> None:
    columns, described = await columns_of(clickhouse), load_descriptions()
    assert undescribed(columns, described) == []
    assert outdated(columns, described) == []


async def test_a_new_database_has_every_description_as_a_comment(clickhouse: ClickHouse) -> None:
    assert await without_comment(clickhouse) == []
    said = await clickhouse.query(
        "SELECT comment FROM system.columns WHERE database = currentDatabase() AND table = 'v_signals' AND name = 'cause_id'"
    )
    assert said.rows == [
        ("the journal event that this revision was published for",)
    ]  # of `signals`, which it inherits from
    assert await describe(clickhouse) == 0


async def test_a_view_that_was_replaced_and_a_comment_that_was_changed_are_described_again(empty: ClickHouse) -> None:
    await migrate(empty)
    await empty.command("CREATE OR REPLACE VIEW v_spend AS SELECT 'x' AS run_id, 'it''s \\\\ new' AS unheard_of")
    await empty.command("ALTER TABLE runs MODIFY COMMENT 'mine', COMMENT COLUMN label 'mine'")
    await empty.command("CREATE TABLE of_an_analyst (a UInt8 COMMENT 'theirs') ENGINE = Memory COMMENT 'theirs'")
    assert await migrate(empty) == ()
    assert await without_comment(empty) == [("v_spend", "unheard_of")]  # nobody says what it is
    theirs = (
        "SELECT comment FROM system.tables WHERE database = currentDatabase() AND name IN ('of_an_analyst', 'runs')"
    )
    assert sorted((await empty.query(theirs)).rows) == [(load_descriptions().of_table("runs"),), ("theirs",)]


async def test_a_description_is_written_as_it_is_whatever_is_in_it(empty: ClickHouse, tmp_path: Path) -> None:
    (tmp_path / "m001_t.sql").write_text("CREATE TABLE IF NOT EXISTS t (n UInt8) ENGINE = MergeTree ORDER BY n")
    await migrate(empty, directory=tmp_path)
    text = 'it\'s a \\ and a "quote"\n²'
    said = msgspec.convert(
        {"columns": {"n": text}, "tables": {"t": {"comment": text}, "gone": {"comment": "x"}}}, Descriptions
    )
    assert await describe(empty, said) == 1
    found = await empty.query(
        "SELECT comment FROM system.columns WHERE database = currentDatabase() AND table = 't' UNION ALL "
        "SELECT comment FROM system.tables WHERE database = currentDatabase() AND name = 't'"
    )
    assert found.rows == [(text,), (text,)]
    assert outdated({"t": ["n"]}, said) == ["gone"]
    assert undescribed({"t": ["n", "m"], "u": []}, said) == ["t.m", "u"]


def test_a_field_that_the_file_may_not_have_is_refused(tmp_path: Path) -> None:
    (tmp_path / "d.toml").write_text('[columns]\n[tables.t]\ncoment = "a slip"\n')
    with pytest.raises(msgspec.ValidationError):
        load_descriptions(tmp_path / "d.toml")
