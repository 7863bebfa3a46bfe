"""Output formats of rows: terminal table, CSV, JSON lines, Markdown. Cells that several tables share."""

from __future__ import annotations

import csv
import sys
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from newsproof.app.sheet import UNWRAPPED, json_lines, markdown_table, say_result, table

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
    numbers = [
        name
        for name, cells in zip(result.columns, zip(*result.rows, strict=True), strict=False)
        if all(isinstance(cell, int | float) or cell is None for cell in cells)
    ]
    return markdown_table(result.columns, result.rows, right=numbers, escape=_escaped)


def _escaped(cell: Any) -> str:
    text = "" if cell is None else str(cell)
    for mark in ("\\", "|", "`", "*", "_", "<", "[", "]"):
        text = text.replace(mark, {"<": "&lt;"}.get(mark, "\\" + mark))
    return " ".join(text.split())


def minute(at: datetime | None) -> str:
    """Return the cell of a time, to the minute; empty for None."""
    return "" if at is None else f"{at:%Y-%m-%d %H:%M}"


def with_remedy(problem: str, remedy: str) -> str:
    """Return the cell of a problem and what to do about it."""
    return f"{problem}: {remedy}" if remedy else problem
