"""``newsproof sql`` and ``report``: the contents of ClickHouse."""

from __future__ import annotations

import asyncio
import contextlib
import csv
import sys
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from enum import StrEnum
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from newsproof.app.data_access import database
from newsproof.app.invocation import Invocation, of, raise_at_ctrl_c, run
from newsproof.app.sheet import (
    UNWRAPPED,
    Sheet,
    advise,
    are_numbers,
    json_line,
    json_lines,
    say_result,
    table,
    write_page,
)
from newsproof.cli.options import argument, command, commands, json_flag, option
from schemas.errors import ConfigError, NewsproofError, PermanentError

if TYPE_CHECKING:
    from infra.clickhouse.client import ClickHouse, Result


app = commands()
_NO_ROWS = ("INSERT", "CREATE", "ALTER", "DROP", "TRUNCATE", "OPTIMIZE", "RENAME", "SET", "USE", "SYSTEM", "DELETE")
_LEAVE = ("exit", "quit")
_PROMPT, _MORE = "sql> ", "...> "


class Format(StrEnum):
    """Output format of rows."""

    table = "table"
    csv = "csv"
    json = "json"
    markdown = "markdown"


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
    statements = list(takewhile(lambda candidate: candidate.lower() not in _LEAVE, statements))
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
        message = engine_words(exc)
        if not admin and ("(ACCESS_DENIED)" in message or "(READONLY)" in message):
            raise PermanentError(
                f"{message} (this ran as the read-only analyst; use `newsproof sql --admin` to write)"
            ) from exc
        raise PermanentError(
            f'ClickHouse refuses the statement: {message} (the tables: newsproof sql "SHOW TABLES")', kind=exc.kind
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


def print_rows(result: Result, format: Format) -> None:
    """Print rows on standard output; JSON is one object per line."""
    if format == "json":
        json_lines(result.dicts())
    elif format == "csv":
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(result.columns)
        writer.writerows(result.rows)
    elif format == "markdown":
        say_result(markdown(result))
    else:
        table(result.columns, result.rows, piped=UNWRAPPED)


def markdown(result: Result) -> str:
    """Return a Markdown table. Columns of numbers are right-aligned; Markdown and HTML in cells are escaped."""
    columns = zip(result.columns, zip(*result.rows, strict=True), strict=False)
    figures = [name for name, cells in columns if are_numbers(cells)]
    return Sheet(result.columns, result.rows, right=figures).markdown(_escaped)


def _escaped(cell: Any) -> str:
    text = "" if cell is None else str(cell)
    for mark in ("\\", "|", "`", "*", "_", "<", "[", "]"):
        text = text.replace(mark, {"<": "&lt;"}.get(mark, "\\" + mark))
    return " ".join(text.split())


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
    from evaluation.statistics.blocks import share_interval
    from newsproof.report.data import read_report
    from newsproof.report.html_report import page_of
    from newsproof.report.text_report import print_report_of

    async with database(invocation, admin=False) as client:
        answers = await read_report(client, run_id=run_id, interval=share_interval)
        more = await study_section(client, run_id) if html is not None else ""
    json_line(answers) if as_json else print_report_of(answers)
    if html is not None:
        write_page(html, lambda written_at: page_of(answers, written_at=written_at, more=more))
