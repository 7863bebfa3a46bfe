"""Output formats of rows: terminal table, CSV, JSON lines, Markdown."""

from __future__ import annotations

import csv
import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from newsproof.app.invocation import json_line, say_result, table

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
        for row in result.dicts():
            json_line(row)
    elif format == "csv":
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(result.columns)
        writer.writerows(result.rows)
    elif format == "markdown":
        say_result(markdown(result))
    else:
        table(result.columns, result.rows)


def markdown(result: Result) -> str:
    """Return a GitHub-flavoured table. Columns of numbers are right-aligned; Markdown and HTML in cells are escaped."""
    numbers = [
        bool(result.rows) and all(isinstance(row[n], int | float) or row[n] is None for row in result.rows)
        for n in range(len(result.columns))
    ]
    lines = [result.columns, tuple("--:" if right else "---" for right in numbers)]
    lines += [tuple(_in_a_cell(value) for value in row) for row in result.rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in [tuple(map(_escaped, lines[0])), *lines[1:]])


def _in_a_cell(value: Any) -> str:
    return "" if value is None else _escaped(str(value))


def _escaped(text: str) -> str:
    for mark in ("\\", "|", "`", "*", "_", "<", "[", "]"):
        text = text.replace(mark, {"<": "&lt;"}.get(mark, "\\" + mark))
    return " ".join(text.split())
