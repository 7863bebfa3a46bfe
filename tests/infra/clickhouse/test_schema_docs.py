"""What is written of the schema, in docs/sql.md and for dbt, is that of the database which the migrations make."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from infra.clickhouse.client import ClickHouse
from infra.clickhouse.descriptions import load_descriptions

PROJECT = Path(__file__).parents[3]
HOW = "run: ./.venv/bin/python docs/schema.py"


@pytest.fixture(scope="module")
def docs() -> ModuleType:
    spec = importlib.util.spec_from_file_location("schema_docs", PROJECT / "docs" / "schema.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


async def test_the_picture_of_the_tables_is_current(clickhouse: ClickHouse, docs: ModuleType) -> None:
    page = (PROJECT / "docs" / "sql.md").read_text("utf-8")
    schema = await docs.schema_of(clickhouse)
    assert docs.with_picture(page, docs.picture(schema, load_descriptions().relations)) == page, HOW
    with pytest.raises(LookupError, match="markers"):
        docs.with_picture("no marker", "")


async def test_dbt_is_told_of_every_table_and_column(clickhouse: ClickHouse, docs: ModuleType) -> None:
    schema = await docs.schema_of(clickhouse)
    written = (PROJECT / "docs" / "dbt" / "sources.yml").read_text("utf-8")
    assert docs.sources(schema) == written, HOW
    (source,) = yaml.safe_load(written)["sources"]
    told = {t["name"]: {c["name"]: (c["data_type"], c["description"]) for c in t["columns"]} for t in source["tables"]}
    asked = "SELECT table, name, type, comment FROM system.columns WHERE database = currentDatabase()"
    there: dict[str, dict[str, tuple[str, str]]] = {}
    for table, name, kind, comment in (await clickhouse.query(asked)).rows:
        there.setdefault(table, {})[name] = (kind, comment)
    del there["migrations"]
    assert told == there
