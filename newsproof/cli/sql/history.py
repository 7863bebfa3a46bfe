"""History of ``newsproof sql``: one JSON line per statement, newest last, readable by its owner only (mode 0600)."""

from __future__ import annotations

import contextlib
import json
import os
from datetime import UTC, datetime
from pathlib import Path

MAX_STATEMENTS = 1000
"""Statements kept. The file is cut to this number when it holds more than twice as many."""
_NAME = "sql-history.jsonl"


def remember(directory: Path, statement: str) -> None:
    """Append the statement. Nothing is recorded where the directory is missing, and no write error ends a statement."""
    file = directory / _NAME
    line = json.dumps({"at": datetime.now(UTC).isoformat(timespec="seconds"), "sql": statement})
    with contextlib.suppress(OSError):
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "a", encoding="utf-8") as opened:
            opened.write(line + "\n")
        lines = file.read_bytes().splitlines(keepends=True)
        if len(lines) > 2 * MAX_STATEMENTS:
            file.write_bytes(b"".join(lines[-MAX_STATEMENTS:]))


def remembered(directory: Path) -> list[tuple[str, str]]:
    """Return (ISO 8601 time, statement) of the newest ``MAX_STATEMENTS``, oldest first."""
    found: list[tuple[str, str]] = []
    with contextlib.suppress(OSError, UnicodeDecodeError):
        for line in (directory / _NAME).read_text("utf-8").splitlines()[-MAX_STATEMENTS:]:
            # Skip a line that a full disk cut short.
            with contextlib.suppress(ValueError, KeyError, TypeError):
                entry = json.loads(line)
                found.append((str(entry["at"]), str(entry["sql"])))
    return found
