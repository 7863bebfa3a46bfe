"""``newsproof sql``, ``report`` and ``export``: the contents of ClickHouse."""

from __future__ import annotations

import asyncio
import contextlib
import difflib
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from typer.core import TyperGroup

from newsproof.app.data_access import database
from newsproof.app.invocation import Invocation, of, raise_at_ctrl_c, run
from newsproof.app.sheet import Sheet, Unit, advise, json_line, say_result, show
from newsproof.app.version import VERSION
from newsproof.cli.options import argument, command, commands, json_flag, option
from newsproof.cli.output import Format, print_rows, write_page
from schemas.errors import ConfigError, NewsproofError, PermanentError
from schemas.printable import counted

if TYPE_CHECKING:
    from infra.clickhouse.client import ClickHouse, Result


app = commands()
_NO_ROWS = ("INSERT", "CREATE", "ALTER", "DROP", "TRUNCATE", "OPTIMIZE", "RENAME", "SET", "USE", "SYSTEM", "DELETE")
_LEAVE = ("exit", "quit")
_PROMPT, _MORE = "sql> ", "...> "


@app.command()
def sql(
    ctx: typer.Context,
    query: Annotated[
        str | None,
        argument(
            'Statements, such as "SELECT * FROM v_cost_by_step". Default: standard input, or a prompt on a terminal.'
        ),
    ] = None,
    file: Annotated[Path | None, option("Read statements from a file. -: standard input.", "--file", "-f")] = None,
    param: Annotated[
        list[str] | None, option("name=value for {name:Type} in a statement, bound by ClickHouse. Repeatable.")
    ] = None,
    format: Annotated[Format, option("csv: with a header line. json: one object per line.")] = Format.table,
    as_json: Annotated[bool, json_flag("Same as --format json.")] = False,
    admin: Annotated[bool, option("Connect with write access. Default: read-only analyst.", "--admin")] = False,
) -> None:
    """Query ClickHouse. `newsproof sql "SHOW TABLES"` lists the tables and the v_* views."""
    chosen, parameters = Format.json if as_json else format, _parameters(param or [])
    script = script_of(query, file)
    if script is None:
        prompt(of(ctx), chosen, parameters=parameters, admin=admin)
    else:
        run(run_script(of(ctx), script, chosen, parameters=parameters, admin=admin))


def _parameters(given: list[str]) -> dict[str, str]:
    parameters = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier():
            raise typer.BadParameter(f"{text!r}: write name=value", param_hint="--param")
        parameters[name] = value
    return parameters


async def run_script(
    invocation: Invocation, text: str, format: Format, *, parameters: Mapping[str, str], admin: bool
) -> None:
    """Run the statements in order and print the rows of each; stop at `exit`, and at the first that ClickHouse refuses.

    Raises:
        ConfigError: there is no statement, or no statement uses one of the parameters.
        PermanentError: ClickHouse refuses a statement.
    """
    from infra.clickhouse.statement import split_statements

    statements = split_statements(text)
    if not statements:
        raise ConfigError('the statement is empty: write one, such as "SELECT * FROM v_cost_by_step"')
    statements = list(takewhile(lambda one: one.lower() not in _LEAVE, statements))
    if not statements:
        return
    for name in parameters:
        if not any(_takes(statement, name) for statement in statements):
            raise ConfigError(f"--param {name}: no statement has {{{name}:Type}} in it, such as {{{name}:String}}")
    async with database(invocation, admin=admin) as client:
        for number, statement in enumerate(statements, start=1):
            try:
                result = await ask(client, statement, parameters, admin=admin)
            except PermanentError as exc:
                if len(statements) == 1:
                    raise
                raise PermanentError(f"statement {number} of {len(statements)}: {exc}", kind=exc.kind) from exc
            if result is not None:
                print_rows(result, format)


async def ask(client: ClickHouse, statement: str, parameters: Mapping[str, str], *, admin: bool) -> Result | None:
    """Run one statement; return its rows, or None for an ``admin`` statement that has none.

    Raises:
        PermanentError: ClickHouse refuses it; the text says what to do.
    """
    from infra.clickhouse.client import engine_words

    bound = {name: value for name, value in parameters.items() if _takes(statement, name)}
    try:
        if admin and statement.split(None, 1)[0].upper() in _NO_ROWS:
            await client.command(statement)
            return None
        return await client.query(statement, bound)
    except PermanentError as exc:
        said = engine_words(exc)
        if not admin and ("(ACCESS_DENIED)" in said or "(READONLY)" in said):
            raise PermanentError(
                f"{said} (this ran as the read-only analyst; use `newsproof sql --admin` to write)"
            ) from exc
        raise PermanentError(
            f'ClickHouse refuses the statement: {said} (the tables: newsproof sql "SHOW TABLES")', kind=exc.kind
        ) from exc


def _takes(statement: str, name: str) -> bool:
    return f"{{{name}:" in statement.replace(" ", "")


def script_of(query: str | None, file: Path | None) -> str | None:
    """Return the text to run: the argument, the file or standard input; None if the user is to be prompted.

    Raises:
        ConfigError: both are given, or the file cannot be read.
    """
    if query is not None and file is not None:
        raise ConfigError("give either a statement or --file")
    if query is not None:
        return query
    if file is None or str(file) == "-":
        return None if file is None and sys.stdin.isatty() else sys.stdin.read()
    try:
        return file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigError(f"{file} cannot be read: {exc}") from exc


def prompt(invocation: Invocation, format: Format, *, parameters: Mapping[str, str], admin: bool) -> None:
    """Read statements at the terminal until `exit` or Ctrl-D and print their rows. Each statement ends with a semicolon.

    Not a coroutine: reading a line blocks the event loop, and Ctrl-C must reach the read.
    """
    import asyncio

    from newsproof.app.logging_setup import configure_logs

    configure_logs("WARNING", libraries="CRITICAL")
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401 - input() then edits lines and recalls earlier ones
    raise_at_ctrl_c()
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        client = runner.run(stack.enter_async_context(database(invocation, admin=admin)))
        try:
            say_result("End each statement with a semicolon. SHOW TABLES; lists the tables. Leave with exit or Ctrl-D.")
            while (statements := _read_statements()) is not None:
                for statement in statements:
                    try:
                        result = runner.run(ask(client, statement, parameters, admin=admin))
                    except NewsproofError as exc:
                        advise(f"{exc}")
                    except (asyncio.CancelledError, KeyboardInterrupt):
                        say_result("Interrupted.")
                    else:
                        if result is not None:
                            print_rows(result, format)
        finally:
            runner.run(stack.aclose())


def _read_statements() -> Sequence[str] | None:
    """Return the statements up to a line that ends with a semicolon; None at the end, [] after Ctrl-C."""
    from infra.clickhouse.statement import split_statements

    lines: list[str] = []
    while True:
        try:
            lines.append(input(_MORE if lines else _PROMPT))
        except EOFError:
            say_result()
            return split_statements("\n".join(lines)) or None
        except KeyboardInterrupt:
            say_result()
            return []
        if len(lines) == 1 and lines[0].strip(" ;").lower() in _LEAVE:
            return None
        if not "".join(lines).strip():
            lines.clear()
        elif lines[-1].rstrip().endswith(";"):
            return split_statements("\n".join(lines))


@command(app)
async def report(
    invocation: Invocation,
    run_id: Annotated[str, option("Run id of a backtest, or `live`.", "--run")] = "live",
    html: Annotated[
        Path | None, option("Also write the report with its charts to this file, which is self-contained.", "--html")
    ] = None,
    as_json: Annotated[bool, json_flag("Print the metrics as one JSON object instead of tables.")] = False,
) -> None:
    """Show cost, latency, confidence and calibration from ClickHouse, with small charts.

    Raises:
        ConfigError: the file cannot be written.
        PermanentError: ClickHouse refuses a query.
    """
    from evaluation.prices.study_report import study_section
    from evaluation.statistics import share_interval
    from newsproof.report.data import read_report
    from newsproof.report.html_report import page_of
    from newsproof.report.text_report import print_report_of

    async with database(invocation, admin=False) as client:
        found = await read_report(client, run_id=run_id, interval=share_interval)
        more = await study_section(client, run_id) if html is not None else ""
    json_line(found) if as_json else print_report_of(found)
    if html is not None:
        write_page(html, lambda written_at: page_of(found, written_at=written_at, more=more))


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


class TablesGroup(TyperGroup):
    """A group that exports tables by default: ``export --parquet DIR`` is short for ``export tables --parquet DIR``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put ``tables`` before options."""
        if args and args[0].startswith("-") and args[0] not in ("-h", "--help"):
            args = ["tables", *args]
        return super().parse_args(ctx, args)


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
    """Export tables and v_* views as Parquet files, with a README.md that describes every column."""
    done = run(export_parquet(of(ctx), parquet, tables=table_ or (), overwrite=overwrite))
    json_line(done) if as_json else print_export(done, parquet)


@command(export, "signals")
async def export_signals(
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
    from newsproof.cli.read.signal_export import export_signals as write

    done = await write(invocation, out, point_in_time=point_in_time, overwrite=overwrite)
    show(done, f"{counted(done.rows, 'row')} in {done.file}, {done.live} of them of live news.", as_json=as_json)


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
        Sheet.of(done.tables, {"file": _quoted("file"), "rows": "rows", "bytes": "size", "holds": "comment"}).markdown(
            _escaped
        ),
    ]
    for one in done.tables:
        columns = Sheet.of(one.columns, {"column": _quoted("name"), "type": _quoted("type"), "holds": "comment"})
        lines += ["", f"## {one.file}", "", columns.markdown(_escaped)]
    return "\n".join(lines) + "\n"


def _quoted(name: str) -> tuple[str, Unit]:
    return name, Unit(lambda text: f"`{text}`", right=False)


def _escaped(cell: object) -> str:
    return " ".join(str(cell).replace("|", "\\|").replace("<", "&lt;").split())


def print_export(done: Export, directory: Path) -> None:
    Sheet.of(done.tables, {"file": "file", "rows": ("rows", ","), "bytes": ("size", ",")}).print()
    say_result(f"{counted(len(done.tables), 'file')} in {directory}; {README} says what every column holds.")
