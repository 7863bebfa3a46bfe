"""``newsproof export``: tables, views and signals as files."""

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
from newsproof.app.invocation import Invocation, of, run
from newsproof.app.sheet import Sheet, Unit, json_line, say_result, show
from newsproof.app.version import VERSION
from newsproof.cli.options import TablesGroup, command, commands, json_flag, option
from schemas.errors import ConfigError
from schemas.ids import LIVE_RUN
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


export = typer.Typer(cls=TablesGroup, add_completion=False, rich_markup_mode=None, no_args_is_help=True)
app.add_typer(export, name="export", help="Export tables, views and signals as files.")


@export.command("tables")
def export_tables(
    ctx: typer.Context,
    parquet: Annotated[Path, option("Output directory, one file per table. Created if missing.", show_default=False)],
    table_: Annotated[
        list[str] | None, option("Only this table or view. Repeatable. Default: all.", "--table", metavar="NAME")
    ] = None,
    overwrite: Annotated[bool, option("Overwrite an earlier export in a non-empty directory.", "--overwrite")] = False,
    as_json: Annotated[bool, json_flag("Print what was written as one JSON object.")] = False,
) -> None:
    """Export tables and v_* views as Parquet files.

    A README.md beside them describes every column.
    """
    done = run(export_parquet(of(ctx), parquet, tables=table_ or (), overwrite=overwrite))
    json_line(done) if as_json else print_export(done, parquet)


@command(export)
async def signals(
    invocation: Invocation,
    out: Annotated[Path, option("File to write, ending in .parquet or .csv.", show_default=False)],
    point_in_time: Annotated[
        bool,
        option(
            "One row per revision, with the time from which a bot could know it (available_at). Default: the latest "
            "revision of each signal.",
            "--point-in-time",
        ),
    ] = False,
    overwrite: Annotated[bool, option("Overwrite the file if it exists.", "--overwrite")] = False,
    as_json: Annotated[bool, json_flag("Print what was written as one JSON object.")] = False,
) -> None:
    """Export signals for a backtester, as Parquet or CSV. docs/bots.md has recipes."""
    done = await write_signals(invocation, out, point_in_time=point_in_time, overwrite=overwrite)
    show(
        done, f"Wrote {counted(done.rows, 'row')} to {done.file}; {done.live} of them from live news.", as_json=as_json
    )


class ExportedColumn(msgspec.Struct, frozen=True, kw_only=True):
    """One column. ``type``: ClickHouse's. ``comment``: its description."""

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
            written = tuple([await _write_table(client, table, final, unfinished) for table, final in wanted])
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
        raise ConfigError(f"{directory} is not empty: name another directory, or add --overwrite")
    for name in begun:
        shutil.rmtree(directory / name, ignore_errors=True)
    if MANIFEST not in held:
        return []
    try:
        earlier = msgspec.json.decode((directory / MANIFEST).read_bytes(), type=Export)
    except (msgspec.MsgspecError, OSError) as exc:
        raise ConfigError(
            f"{directory / MANIFEST} is not an export's manifest that this version can read ({exc}): name another directory"
        ) from exc
    return [table.file for table in earlier.tables if Path(table.file).name == table.file]


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


async def _write_table(client: ClickHouse, table: ExportedTable, final: bool, directory: Path) -> ExportedTable:
    # Named one by one: * leaves out columns that are computed on insert.
    from infra.clickhouse.parquet import write_parquet

    columns = ", ".join(f"`{column.name}`" for column in table.columns)
    path = directory / table.file
    rows = await write_parquet(client, f"SELECT {columns} FROM `{table.table}`{' FINAL' if final else ''}", path)
    return msgspec.structs.replace(table, rows=rows, size=path.stat().st_size)


def _publish(done: Export, unfinished: Path, directory: Path, before: Sequence[str]) -> None:
    """Move the files to their places. Meanwhile, no page describes them."""
    (unfinished / MANIFEST).write_bytes(msgspec.json.format(msgspec.json.encode(done), indent=1) + b"\n")
    (unfinished / README).write_text(readme(done), "utf-8")
    (directory / README).unlink(missing_ok=True)
    (directory / MANIFEST).unlink(missing_ok=True)
    files = [table.file for table in done.tables]
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
        f"Exported {done.exported_at:%Y-%m-%d %H:%M:%S} UTC by Newsproof {done.code_version}. Tables are read with FINAL: one row per key. Times are UTC, money is US "
        f"dollars; types are ClickHouse's. `{MANIFEST}` has this page's content as JSON.",
        "",
        Sheet.of(done.tables, {"file": _quoted("file"), "rows": "rows", "bytes": "size", "holds": "comment"}).markdown(
            _escaped
        ),
    ]
    for table in done.tables:
        columns = Sheet.of(table.columns, {"column": _quoted("name"), "type": _quoted("type"), "holds": "comment"})
        lines += ["", f"## {table.file}", "", columns.markdown(_escaped)]
    return "\n".join(lines) + "\n"


def _quoted(name: str) -> tuple[str, Unit]:
    return name, Unit(lambda text: f"`{text}`", right=False)


def _escaped(cell: object) -> str:
    return " ".join(str(cell).replace("|", "\\|").replace("<", "&lt;").split())


def print_export(done: Export, directory: Path) -> None:
    Sheet.of(done.tables, {"file": "file", "rows": ("rows", ","), "bytes": ("size", ",")}).print()
    say_result(f"{counted(len(done.tables), 'file')} in {directory}; {README} says what every column holds.")


# A revision is caused by an event of its own case, or of the case that denies or corrects it. For news that was live, nobody
# had it before it was on the topic. For news of the past it is when the causing news could be known, as for outcomes.
_REVISIONS = """
WITH received AS
(
    SELECT case_id AS news_case, argMin(knowable_at, journal_offset) AS knowable, argMin(ifNull(live, false), journal_offset) AS was_live
    FROM events WHERE run_id = {run:String} AND event_type = 'newsproof.event_received' GROUP BY case_id
),
caused AS
(
    SELECT event_id, any(case_id) AS of_case FROM events
    WHERE event_id IN (SELECT cause_id FROM signals WHERE run_id = {run:String}) GROUP BY event_id
)
SELECT max(from_then) OVER (PARTITION BY signal_id ORDER BY revision) AS available_at,
       live, signal_id, revision, stage, verdict, action, direction, asset, symbol, venue, confidence, event_type,
       if(live, until, available_at + toIntervalSecond(horizon_s)) AS valid_until, horizon_s, supporting_sources,
       arrayStringConcat(risk_flags, ' ') AS risk_flags, provider_mode, news_source, language, published_at, decided_at,
       emitted_at, case_id, summary, summary_en, summary_zh
FROM
(
    SELECT s.* EXCEPT (valid_until), s.valid_until AS until, own.was_live AS live,
           if(live OR cause.knowable IS NULL OR cause.was_live, s.emitted_at, assumeNotNull(cause.knowable)) AS from_then
    FROM (SELECT * FROM signals FINAL WHERE run_id = {run:String}) AS s
    LEFT JOIN caused AS c ON c.event_id = s.cause_id
    LEFT JOIN received AS cause ON cause.news_case = c.of_case
    LEFT JOIN received AS own ON own.news_case = s.case_id
)
"""
_EVERY = f"SELECT * FROM ({_REVISIONS}) ORDER BY available_at, signal_id, revision"
_LATEST = (
    f"SELECT * FROM (SELECT * FROM ({_REVISIONS}) ORDER BY signal_id, revision DESC LIMIT 1 BY signal_id) "
    "ORDER BY available_at, signal_id"
)
_SHAPES = {".parquet": "Parquet", ".csv": "CSVWithNames"}


class SignalExport(msgspec.Struct, frozen=True, kw_only=True):
    """What was written. ``live``: rows of news that was judged as it came in."""

    file: str
    rows: int
    live: int


async def write_signals(
    invocation: Invocation, file: Path, *, point_in_time: bool, overwrite: bool = False
) -> SignalExport:
    """Write the live run's signals to a Parquet or CSV file, whole or not at all.

    With ``point_in_time`` there is one row per revision, and a row holds nothing that was known after its
    ``available_at``; else one per signal, its latest revision.

    Raises:
        ConfigError: the file's name has another ending, or it is there and ``overwrite`` is not set, or it cannot be
            written.
    """
    shape = _SHAPES.get(file.suffix)
    if shape is None:
        raise ConfigError(f"{file}: name a file that ends in {' or '.join(_SHAPES)}")
    if await asyncio.to_thread(file.exists) and not overwrite:
        raise ConfigError(f"{file} exists: name another file, or add --overwrite")
    query, asked = _EVERY if point_in_time else _LATEST, {"run": LIVE_RUN}
    async with database(invocation, admin=True) as client:
        # One engine's memory holds it: a signal is about 2 kB.
        content = await client.raw(query, asked, shape=shape)
        counted = await client.query(f"SELECT count(), countIf(live) FROM ({query})", asked)
    await asyncio.to_thread(_write, file, content)
    rows, live = counted.rows[0]
    return SignalExport(file=str(file), rows=rows, live=live)


def _write(file: Path, content: bytes) -> None:
    unfinished = file.with_name(f".unfinished-{file.name}")
    try:
        unfinished.write_bytes(content)
        unfinished.replace(file)
    except OSError as exc:
        unfinished.unlink(missing_ok=True)
        raise ConfigError(f"{file} cannot be written ({exc.strerror}): choose another path") from exc
