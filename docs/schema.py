"""Write the picture of the tables into docs/sql.md, and docs/dbt/sources.yml, from the schema that the migrations make.

    ./.venv/bin/python docs/schema.py        # docs/generate.py does it too

The schema is that of a database made for it in a directory of its own. ``tests/infra/clickhouse/test_schema_docs.py``
compares what stands there with what this would write.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

PROJECT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PROJECT))

from infra.clickhouse.client import Address, ClickHouse, connect  # noqa: E402 - found by the line above
from infra.clickhouse.descriptions import Relation, load_descriptions  # noqa: E402
from infra.clickhouse.migrate import migrate  # noqa: E402

PAGE = PROJECT / "docs" / "sql.md"
SOURCES = PROJECT / "docs" / "dbt" / "sources.yml"
LEDGER = "migrations"
"""The table of applied migrations: no analyst's business."""


class Column(NamedTuple):
    """``key``: part of the table's sorting key."""

    name: str
    type: str
    comment: str
    key: bool


class Table(NamedTuple):
    """A table or a view."""

    comment: str
    view: bool
    columns: list[Column]


Schema = dict[str, Table]


async def schema_of(client: ClickHouse) -> Schema:
    """Return every table and view of the client's database but the ledger, by name, tables first."""
    tables = await client.query(
        "SELECT name, comment, engine = 'View' FROM system.tables WHERE database = currentDatabase() "
        f"AND name != '{LEDGER}' AND NOT startsWith(name, '.') ORDER BY engine = 'View', name"
    )
    found = {name: Table(comment, bool(view), []) for name, comment, view in tables.rows}
    columns = await client.query(
        "SELECT table, name, type, comment, is_in_sorting_key FROM system.columns WHERE database = currentDatabase() "
        "ORDER BY table, position"
    )
    for table, name, kind, comment, key in columns.rows:
        if table in found:
            found[table].columns.append(Column(name, kind, comment, bool(key)))
    return found


def picture(schema: Schema, relations: tuple[Relation, ...]) -> str:
    """Return the tables as a Mermaid diagram: the columns of their sorting keys (PK), and those that relate them (FK)."""
    foreign = {(one.of, left) for one in relations for left, _ in one.pairs()}
    related = foreign | {(one.to, right) for one in relations for _, right in one.pairs()}
    lines = ["erDiagram"]
    for name, table in schema.items():
        if table.view:
            continue
        shown = [c for c in table.columns if c.key or (name, c.name) in related]
        lines += [f"    {name} {{", *(f"        {_entry(c, (name, c.name) in foreign)}" for c in shown), "    }"]
    for one in relations:
        on = ", ".join(left if left == right else f"{left} = {right}" for left, right in one.pairs())
        ends = "}o--||" if one.kind == "many-to-one" else "}o--o{"
        lines.append(f'    {one.of} {ends} {one.to} : "{one.says} ({on})"')
    return "\n".join(lines)


def _entry(column: Column, foreign: bool) -> str:
    kind = re.sub(r"LowCardinality\((.*)\)", r"\1", column.type)
    marks = [mark for mark, holds in (("PK", column.key), ("FK", foreign)) if holds]
    return f"{re.sub(r'[^A-Za-z0-9_]+', '_', kind).strip('_')} {column.name} {', '.join(marks)}".rstrip()


def sources(schema: Schema) -> str:
    """Return the dbt sources: every table and view with its columns, their types and what they hold."""
    lines = [
        "# Written by docs/schema.py from the schema and infra/clickhouse/descriptions.toml. Copy it into the models of a dbt",
        "# project with the adapter dbt-clickhouse; {{ source('newsproof', 'v_judgements') }} then names a relation.",
        "version: 2",
        "sources:",
        "  - name: newsproof",
        "    description: News, cases, signals, outcomes and backtests.",
        "    schema: \"{{ env_var('CLICKHOUSE_DATABASE', 'newsproof') }}\"",
        "    tables:",
    ]
    for name, table in schema.items():
        lines += [f"      - name: {name}", f"        description: {_yaml(table.comment)}", "        columns:"]
        for column in table.columns:
            lines += [
                f"          - name: {column.name}",
                f"            data_type: {_yaml(column.type)}",
                f"            description: {_yaml(column.comment)}",
            ]
    return "\n".join(lines) + "\n"


def _yaml(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)  # a JSON string is a YAML string


def with_picture(page: str, drawn: str) -> str:
    """Return the page with the picture between its markers.

    Raises:
        LookupError: when a marker is missing.
    """
    pattern = re.compile(r"(<!-- tables:begin.*?-->\n).*?(<!-- tables:end -->)", re.DOTALL)
    text, count = pattern.subn(lambda m: f"{m[1]}```mermaid\n{drawn}\n```\n{m[2]}", page)
    if count != 1:
        raise LookupError(f"docs/sql.md has {count} blocks 'tables': put one pair of markers there")
    return text


async def _schema() -> Schema:
    from infra.embedded.clickhouse.server import EmbeddedClickHouse

    with tempfile.TemporaryDirectory() as directory:
        server = EmbeddedClickHouse(Path(directory), memory_bytes=1024**3)
        await server.start()
        try:
            async with connect(Address(host=server.host, port=server.port), database="newsproof") as client:
                await migrate(client)
                return await schema_of(client)
        finally:
            await server.stop()


def main() -> None:
    """Write both."""
    schema = asyncio.run(_schema())
    drawn = picture(schema, load_descriptions().relations)
    PAGE.write_text(with_picture(PAGE.read_text("utf-8"), drawn), "utf-8")
    SOURCES.parent.mkdir(exist_ok=True)
    SOURCES.write_text(sources(schema), "utf-8")


if __name__ == "__main__":
    main()
