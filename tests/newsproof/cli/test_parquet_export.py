"""`newsproof export`: what is in the tables is in the files, and a directory is never left half described."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import chdb
import msgspec
import pandas as pd
import pyarrow.parquet
import pytest

from infra.clickhouse.client import ClickHouse
from infra.clickhouse.descriptions import load_descriptions
from infra.clickhouse.parquet import _rows_in, write_parquet
from newsproof.app.invocation import Invocation
from newsproof.cli.read import export as read_tables
from newsproof.cli.read.export import Export, export_parquet, print_export
from schemas import events as ev
from schemas.errors import ConfigError, PermanentError
from tests.infra.clickhouse.clickhouse_samples import (
    fill,
    fill_signals,
    model_call,
    published,
    record,
    search_call,
    signal,
)


@pytest.fixture
async def tables(clickhouse: ClickHouse, monkeypatch: pytest.MonkeyPatch) -> ClickHouse:
    """Two signals, one of them twice, a call of a model and a search, and a case of a run."""

    @asynccontextmanager
    async def found(_: Invocation, *, admin: bool) -> Any:
        yield clickhouse

    monkeypatch.setattr(read_tables, "database", found)
    one = signal(signal_id="a", case_id="a", summary="Circle 确认 | <USDC>")
    await fill_signals(clickhouse, published(one))
    await fill_signals(clickhouse, published(one), published(signal(signal_id="b", case_id="b", confidence=0.25)))
    calls = (model_call("0.012345678"), search_call(None))
    gathered = ev.ContextGathered(entries=(), memory="no_match", calls=calls)
    await fill(clickhouse, [record(gathered, case="a", step="search")])
    columns = ("run_id", "case_id", "has_signal", "signal", "started_at")
    await clickhouse.insert("run_cases", columns, [("b", "a", 1, '{"verdict":"likely"}', datetime.now(UTC))])
    return clickhouse


def held(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


@pytest.mark.slow
async def test_every_table_and_view_is_read_back_as_it_is_and_its_page_says_what_every_column_holds(
    tables: ClickHouse, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "new" / "out"
    done = await export_parquet(Invocation(), out)
    asked = await tables.query(
        "SELECT name FROM system.tables WHERE database = currentDatabase() AND name != 'migrations'"
    )
    assert {one.table for one in done.tables} == {row[0] for row in asked.rows} > {"signals", "v_spend", "v_labels"}
    for one in done.tables:
        path = out / one.file
        final = "" if one.table.startswith("v_") else " FINAL"
        counted = (await tables.query(f"SELECT count() FROM {one.table}{final}")).rows[0][0]
        file = pyarrow.parquet.read_table(path)
        assert (file.num_rows, one.rows, one.size) == (counted, counted, path.stat().st_size), one.table
        assert file.column_names == [column.name for column in one.columns], one.table
    rows = {one.table: one.rows for one in done.tables}
    # The signal that was written twice is there once.
    counted = [rows[name] for name in ("signals", "llm_calls", "tool_calls", "run_cases", "labels")]
    assert counted == [2, 1, 1, 1, 0]
    page = (out / "README.md").read_text("utf-8")
    described = load_descriptions()
    for one in done.tables:
        assert f"## {one.file}" in page
        for column in one.columns:
            assert column.comment == described.of_column(one.table, column.name) != ""
            assert f"| `{column.name}` |" in page
    assert msgspec.json.decode((out / "export.json").read_bytes(), type=Export) == done
    print_export(done, out)
    said = capsys.readouterr().out
    assert "signals.parquet" in said and f"{len(done.tables)} files in" in said


async def test_values_keep_their_types(tables: ClickHouse, tmp_path: Path) -> None:
    await export_parquet(Invocation(), tmp_path, tables=["signals", "llm_calls", "tool_calls", "run_cases"])
    signals = pd.read_parquet(tmp_path / "signals.parquet").sort_values("signal_id")
    assert signals["summary"].iloc[0] == "Circle 确认 | <USDC>"
    assert list(signals["confidence"]) == [0.75, 0.25]
    assert signals["published_at"].iloc[0].to_pydatetime() == signal().published_at
    assert str(signals["ingested_at"].dtype).startswith("datetime64")
    calls = pyarrow.parquet.read_table(tmp_path / "llm_calls.parquet")
    assert calls["cost_usd"].to_pylist() == [Decimal("0.012345678")]
    assert pyarrow.parquet.read_table(tmp_path / "tool_calls.parquet")["cost_usd"].to_pylist() == [None]
    # Computed when the row came in, which SELECT * leaves out.
    assert pyarrow.parquet.read_table(tmp_path / "run_cases.parquet")["verdict"].to_pylist() == ["likely"]


async def test_clickhouse_reads_the_files_back(tables: ClickHouse, tmp_path: Path) -> None:
    await export_parquet(Invocation(), tmp_path, tables=["v_judgements"])
    asked = (
        "SELECT signal_id, verdict, toString(knowable_at), tupleElement(evidence[1], 'url') FROM {} ORDER BY signal_id"
    )
    again = chdb.query(asked.format(f"file('{tmp_path}/v_judgements.parquet', Parquet)"), "JSONCompactEachRow")
    expected = [list(row) for row in (await tables.query(asked.format("v_judgements"))).rows]
    assert [json.loads(line) for line in str(again).splitlines()] == expected != []


async def test_a_directory_that_is_not_empty_is_refused_and_nothing_of_others_is_ever_removed(
    tables: ClickHouse, tmp_path: Path
) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(ConfigError, match="is not empty: name another directory, or add --overwrite"):
        await export_parquet(Invocation(), tmp_path)
    assert held(tmp_path) == {"mine.txt": b"mine"}
    await export_parquet(Invocation(), tmp_path, tables=["signals", "runs"], overwrite=True)
    await export_parquet(Invocation(), tmp_path, tables=["signals", "v_spend"], overwrite=True)
    left = sorted(held(tmp_path))
    assert left == ["README.md", "export.json", "mine.txt", "signals.parquet", "v_spend.parquet"]
    with pytest.raises(ConfigError, match="is a file"):
        await export_parquet(Invocation(), tmp_path / "mine.txt")
    (tmp_path / "export.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"export\.json is not an export's manifest"):
        await export_parquet(Invocation(), tmp_path, overwrite=True)


async def test_an_export_that_fails_leaves_what_was_there_as_it_was(
    tables: ClickHouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await export_parquet(Invocation(), tmp_path, tables=["signals"])
    before = held(tmp_path)
    real = write_parquet

    async def failing(client: ClickHouse, sql: str, path: Path) -> int:
        if "v_spend" in sql:
            raise PermanentError("broken")
        return await real(client, sql, path)

    monkeypatch.setattr("infra.clickhouse.parquet.write_parquet", failing)
    with pytest.raises(PermanentError):
        await export_parquet(Invocation(), tmp_path, tables=["signals", "v_spend"], overwrite=True)
    assert held(tmp_path) == before


async def test_what_a_killed_export_had_begun_is_no_obstacle(tables: ClickHouse, tmp_path: Path) -> None:
    (tmp_path / ".unfinished-x").mkdir()
    (tmp_path / ".unfinished-x" / "signals.parquet").write_bytes(b"half")
    await export_parquet(Invocation(), tmp_path, tables=["signals"])
    assert sorted(held(tmp_path)) == ["README.md", "export.json", "signals.parquet"]


async def test_a_table_that_does_not_exist_is_refused_before_anything_is_written(
    tables: ClickHouse, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="no table or view 'signal': did you mean signals"):
        await export_parquet(Invocation(), tmp_path / "out", tables=["runs", "signal"])
    assert not (tmp_path / "out").exists()


async def test_a_statement_that_breaks_off_is_told(tables: ClickHouse, tmp_path: Path) -> None:
    with pytest.raises(PermanentError):
        await write_parquet(tables, "SELECT throwIf(number = 300000) FROM numbers(1000000)", tmp_path / "x")
    (tmp_path / "y").write_bytes(b"PAR1 Code: 241. DB::Exception: memory")
    with pytest.raises(PermanentError, match="broke off: PAR1 Code: 241"):
        _rows_in(tmp_path / "y")


async def test_a_full_disk_is_not_taken_for_a_server_that_is_away(
    tables: ClickHouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Path.open

    def full(path: Path, mode: str = "r", *rest: Any) -> Any:
        return real(Path("/dev/full"), "wb") if mode == "xb" else real(path, mode, *rest)

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(ConfigError, match=r"No space left on device\): make room"):
        await write_parquet(tables, "SELECT 1 AS n", tmp_path / "x")
