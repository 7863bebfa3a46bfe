"""``newsproof export``: tables and views as Parquet files, with a page that describes every column."""

from __future__ import annotations

import asyncio
import difflib
import os
import shutil
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from newsproof.app.data_access import database
from newsproof.app.invocation import Invocation, json_line, markdown_table, of, run, say_result, table
from newsproof.app.version import VERSION
from newsproof.cli.options import commands, json_flag
from schemas.errors import ConfigError
from schemas.printable import counted

if TYPE_CHECKING:
    from infra.clickhouse.client import ClickHouse

app = commands()
README, MANIFEST = "README.md", "export.json"
_UNFINISHED = ".unfinished-"
_LEDGER = "migrations"
_TABLES = """
SELECT name, comment, engine LIKE '%ReplacingMergeTree' FROM system.tables
WHERE database = currentDatabase() AND NOT startsWith(name, '.') ORDER BY engine = 'View', name
"""
_COLUMNS = """
SELECT table, name, type, comment FROM system.columns
WHERE database = currentDatabase() AND default_kind NOT IN ('ALIAS', 'EPHEMERAL') ORDER BY table, position
"""


@app.command()
def export(
    ctx: typer.Context,
    parquet: Annotated[
        Path,
        typer.Option(help="Output directory, one file per table. Created if missing.", show_default=False),
    ],
    table_: Annotated[
        list[str] | None,
        typer.Option("--table", help="Only this table or view. Repeatable. Default: all.", metavar="NAME"),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Overwrite an earlier export in a non-empty directory.")
    ] = False,
    as_json: Annotated[bool, json_flag("Print what was written as one JSON object.")] = False,
) -> None:
    """Export tables and v_* views as Parquet files, with a README.md that describes every column."""
    done = run(export_parquet(of(ctx), parquet, tables=table_ or (), overwrite=overwrite))
    json_line(done) if as_json else print_export(done, parquet)


class ExportedColumn(msgspec.Struct, frozen=True, kw_only=True):
    """``type`` is ClickHouse's; ``comment`` says what it holds."""

    name: str
    type: str
    comment: str


class ExportedTable(msgspec.Struct, frozen=True, kw_only=True):
    """One file. ``rows`` are those in the file, ``size`` is in bytes."""

    table: str
    file: str
    comment: str
    rows: int
    size: int
    columns: tuple[ExportedColumn, ...]


class Export(msgspec.Struct, frozen=True, kw_only=True):
    """Content of an export's ``export.json``. ``exported_at``: UTC, when the first table was read."""

    database: str
    exported_at: datetime
    code_version: str
    tables: tuple[ExportedTable, ...]


async def export_parquet(
    invocation: Invocation, directory: Path, *, tables: Sequence[str] = (), overwrite: bool = False
) -> Export:
    """Write a file for each table and view, or for those in ``tables``, and the page that describes them.

    Tables are read as views read them: one row per key. Each file is read at its own time, so a later file may hold rows
    that an earlier one lacks. Files are complete when they appear in the directory, the page last. ``overwrite`` removes
    the files of an earlier export that this one does not write, and nothing else.

    Raises:
        ConfigError: the directory is not empty, cannot be written, or a table does not exist.
    """
    before = _checked(directory, overwrite=overwrite)
    async with database(invocation, admin=True) as client:
        wanted = await _described(client, tables)
        unfinished = _begun(directory)
        try:
            started = datetime.now(UTC)
            written = tuple([await _write(client, one, final, unfinished) for one, final in wanted])
            done = Export(database=client.database, exported_at=started, code_version=VERSION, tables=written)
            await asyncio.to_thread(_publish, done, unfinished, directory, before)
        finally:
            await asyncio.to_thread(shutil.rmtree, unfinished, ignore_errors=True)
    return done


def _checked(directory: Path, *, overwrite: bool) -> list[str]:
    """Return the files of the export in this directory. Remove what a killed export left unfinished."""
    if directory.exists() and not directory.is_dir():
        raise ConfigError(f"{directory} is a file: name a directory to write to")
    held = sorted(path.name for path in directory.iterdir()) if directory.exists() else []
    begun = [name for name in held if name.startswith(_UNFINISHED)]
    if len(held) > len(begun) and not overwrite:
        raise ConfigError(f"{directory} is not empty: name another directory, or say --overwrite")
    for name in begun:
        shutil.rmtree(directory / name, ignore_errors=True)
    if MANIFEST not in held:
        return []
    try:
        earlier = msgspec.json.decode((directory / MANIFEST).read_bytes(), type=Export)
    except (msgspec.MsgspecError, OSError) as exc:
        raise ConfigError(
            f"{directory / MANIFEST} is not of an export that this version reads ({exc}): name another directory"
        ) from exc
    return [one.file for one in earlier.tables if Path(one.file).name == one.file]


def _begun(directory: Path) -> Path:
    """Create the directory, and one inside it for incomplete files: a rename needs one file system."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=directory))
    except OSError as exc:
        raise ConfigError(f"{directory} cannot be written ({exc.strerror}): name another directory") from exc


async def _described(client: ClickHouse, names: Sequence[str]) -> list[tuple[ExportedTable, bool]]:
    """Return the tables to write, each with whether it must be read with FINAL."""
    columns: dict[str, list[ExportedColumn]] = {}
    for table_name, name, kind, comment in (await client.query(_COLUMNS)).rows:
        columns.setdefault(table_name, []).append(ExportedColumn(name=name, type=kind, comment=comment))
    known = {
        name: (
            ExportedTable(
                table=name, file=f"{name}.parquet", comment=comment, rows=0, size=0, columns=tuple(columns[name])
            ),
            bool(final),
        )
        for name, comment, final in (await client.query(_TABLES)).rows
    }
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=3) or known
            raise ConfigError(f"there is no table or view {name!r}: did you mean {', '.join(near)}?")
    chosen = dict.fromkeys(names) or (name for name in known if name != _LEDGER)
    return [known[name] for name in chosen]


async def _write(client: ClickHouse, one: ExportedTable, final: bool, directory: Path) -> ExportedTable:
    # Named one by one: * leaves out columns that are computed on insert.
    from infra.clickhouse.parquet import write_parquet

    columns = ", ".join(f"`{column.name}`" for column in one.columns)
    path = directory / one.file
    rows = await write_parquet(client, f"SELECT {columns} FROM `{one.table}`{' FINAL' if final else ''}", path)
    return msgspec.structs.replace(one, rows=rows, size=path.stat().st_size)


def _publish(done: Export, unfinished: Path, directory: Path, before: Sequence[str]) -> None:
    """Move the files to their places. Meanwhile, no page describes them."""
    (unfinished / MANIFEST).write_bytes(msgspec.json.format(msgspec.json.encode(done), indent=1) + b"\n")
    (unfinished / README).write_text(readme(done), "utf-8")
    (directory / README).unlink(missing_ok=True)
    (directory / MANIFEST).unlink(missing_ok=True)
    files = [one.file for one in done.tables]
    for name in (*files, MANIFEST, README):
        os.replace(unfinished / name, directory / name)  # noqa: PTH105 - says what it does to a file that is there
    for name in before:
        if name not in files:
            (directory / name).unlink(missing_ok=True)


def readme(done: Export) -> str:
    """Return the page of an export: a row for each file, and a table with a row for each column."""
    lines = [
        f"# Newsproof, database `{done.database}`",
        "",
        f"Exported {done.exported_at:%Y-%m-%d %H:%M:%S} UTC by Newsproof {done.code_version}. Tables are as FINAL reads them. Times are UTC, money is US "
        f"dollars; types are ClickHouse's. The same as JSON: `{MANIFEST}`.",
        "",
        markdown_table(
            ("file", "rows", "bytes", "holds"),
            [(f"`{t.file}`", t.rows, t.size, t.comment) for t in done.tables],
            right=("rows", "bytes"),
            escape=_escaped,
        ),
    ]
    for one in done.tables:
        rows = [(f"`{c.name}`", f"`{c.type}`", c.comment) for c in one.columns]
        lines += ["", f"## {one.file}", "", markdown_table(("column", "type", "holds"), rows, escape=_escaped)]
    return "\n".join(lines) + "\n"


def _escaped(cell: object) -> str:
    return " ".join(str(cell).replace("|", "\\|").replace("<", "&lt;").split())


def print_export(done: Export, directory: Path) -> None:
    rows = [(one.file, f"{one.rows:,}", f"{one.size:,}") for one in done.tables]
    table(("file", "rows", "bytes"), rows, right=("rows", "bytes"))
    say_result(f"{counted(len(rows), 'file')} in {directory}; {README} says what every column holds.")
