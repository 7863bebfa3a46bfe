"""Descriptions of tables, views and columns, from one file. Every start writes them into the database as comments.

They are not part of the migrations, because ``CREATE OR REPLACE VIEW`` drops a view's comments. After the migrations,
only comments that differ from the file are altered.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Literal

import msgspec

from infra.clickhouse.client import ClickHouse
from schemas.errors import PermanentError

FILE = Path(__file__).with_name("descriptions.toml")
_ATTEMPTS = 3
"""More than one, because another process that starts may replace a view between reading and altering its comments."""
_COMMENTS_OF_TABLES = """
SELECT name, comment FROM system.tables WHERE database = {database:String} AND name IN {tables:Array(String)}
"""
_COMMENTS_OF_COLUMNS = """
SELECT table, name, comment FROM system.columns WHERE database = {database:String} AND table IN {tables:Array(String)}
"""


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    comment: str
    inherits: str = ""
    columns: dict[str, str] = {}


class Relation(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"of": "from"}):
    """Rows of table ``of`` belong to rows of table ``to``. ``on``: the equal columns, ``a=b`` if their names differ."""

    of: str
    to: str
    on: tuple[str, ...]
    says: str
    kind: Literal["many-to-one", "many-to-many"] = "many-to-one"

    def pairs(self) -> list[tuple[str, str]]:
        """Return the pairs of equal columns: the column of ``of``, the column of ``to``."""
        return [(left, right or left) for left, _, right in (columns.partition("=") for columns in self.on)]


class Descriptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All descriptions. ``columns``: the meaning of column names that a table does not describe. ``tables``: tables and
    views by name; an entry with ``inherits`` takes the columns that it does not describe from another entry."""

    columns: dict[str, str]
    tables: dict[str, _Table]
    relations: tuple[Relation, ...] = ()

    def of_table(self, table: str) -> str:
        """Return the description of a table or view, "" if there is none."""
        return self.tables[table].comment if table in self.tables else ""

    def of_column(self, table: str, column: str) -> str:
        """Return the description of a column, "" if there is none."""
        entry = self.tables.get(table)
        while entry is not None:
            if column in entry.columns:
                return entry.columns[column]
            entry = self.tables.get(entry.inherits)
        return self.columns.get(column, "")


def load_descriptions(file: Path = FILE) -> Descriptions:
    """Read the file.

    Raises:
        msgspec.ValidationError: the file has an unknown field, or one of the wrong type.
    """
    return msgspec.convert(tomllib.loads(file.read_text("utf-8")), Descriptions)


async def describe(client: ClickHouse, descriptions: Descriptions | None = None) -> int:
    """Write the descriptions of the tables and views in the database; return the number of tables and views changed.

    Safe to run at every start and from several processes at once.
    """
    wanted = descriptions or load_descriptions()
    changed = 0
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            for table, changes in (await _missing(client, wanted)).items():
                await client.define(f"ALTER TABLE `{table}` {', '.join(changes)}")
                changed += 1
            break
        except PermanentError:
            if attempt == _ATTEMPTS:
                raise
    return changed


async def _missing(client: ClickHouse, wanted: Descriptions) -> dict[str, list[str]]:
    """Return the necessary alterations by table."""
    asked = {"database": client.database, "tables": list(wanted.tables)}
    tables = (await client.query(_COMMENTS_OF_TABLES, asked)).rows
    columns = (await client.query(_COMMENTS_OF_COLUMNS, asked)).rows
    due: dict[str, list[str]] = {}
    for table, comment in tables:
        if comment != (text := wanted.of_table(table)):
            due.setdefault(table, []).append(f"MODIFY COMMENT {_quoted(text)}")
    for table, column, comment in columns:
        if (text := wanted.of_column(table, column)) and comment != text:
            due.setdefault(table, []).append(f"COMMENT COLUMN `{column}` {_quoted(text)}")
    return due


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
