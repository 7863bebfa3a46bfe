"""Output of several commands: rows in four formats, pages, the checks of ``doctor``."""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from newsproof.app.servers import say_on_stderr
from newsproof.app.sheet import UNWRAPPED, Sheet, are_numbers, json_lines, say_result, table
from schemas.errors import ConfigError

if TYPE_CHECKING:
    from infra.clickhouse.client import Result


class Format(StrEnum):
    """Output format of rows."""

    table = "table"
    csv = "csv"
    json = "json"
    markdown = "markdown"


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


def with_remedy(problem: str, remedy: str) -> str:
    """Return the cell of a problem and what to do about it."""
    return f"{problem}: {remedy}" if remedy else problem


def write_page(file: Path, page: Callable[[str], str]) -> None:
    """Write an HTML page and say so. ``page``: from the present time as text.

    Raises:
        ConfigError: the file cannot be written.
    """
    try:
        file.write_text(page(f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"), "utf-8")
    except OSError as exc:
        raise ConfigError(f"{file} cannot be written: {exc}") from exc
    say_on_stderr(f"Wrote {file}: open it in a browser.")


State = Literal["ok", "note", "missing"]


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """Result of one check. ``missing`` must be fixed; ``note`` is for information."""

    name: str
    state: State
    found: str
    do: str = ""


def ok(name: str, found: str, do: str = "") -> Check:
    return Check(name=name, state="ok", found=found, do=do)


def note(name: str, found: str, do: str = "") -> Check:
    return Check(name=name, state="note", found=found, do=do)


def missing(name: str, found: str, do: str = "") -> Check:
    return Check(name=name, state="missing", found=found, do=do)
