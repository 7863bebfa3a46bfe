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


class History:
    """The history of one data directory. Write errors are ignored: a statement never fails because of its history."""

    def __init__(self, directory: Path, *, create: bool = False) -> None:
        """``create`` makes a missing directory; without it, nothing is recorded there."""
        self._file = directory / _NAME
        if create:
            with contextlib.suppress(OSError):
                directory.mkdir(parents=True, exist_ok=True)

    def add(self, statement: str) -> None:
        line = json.dumps({"at": datetime.now(UTC).isoformat(timespec="seconds"), "sql": statement})
        with contextlib.suppress(OSError):
            if self._file.parent.is_dir():
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
                with os.fdopen(os.open(self._file, flags, 0o600), "a", encoding="utf-8") as file:
                    file.write(line + "\n")
                self._shorten()

    def entries(self) -> list[tuple[str, str]]:
        """Return (ISO 8601 time, statement) of the newest ``MAX_STATEMENTS``, oldest first."""
        try:
            lines = self._file.read_text("utf-8").splitlines()
        except (OSError, UnicodeDecodeError):
            return []
        found: list[tuple[str, str]] = []
        for line in lines[-MAX_STATEMENTS:]:
            # Skip a line that a full disk cut short.
            with contextlib.suppress(ValueError, KeyError, TypeError):
                entry = json.loads(line)
                found.append((str(entry["at"]), str(entry["sql"])))
        return found

    def load_into_readline(self) -> None:
        """Fill readline's history, so that the arrow keys recall statements. No effect if Python has no readline."""
        try:
            import readline
        except ImportError:
            return
        for _, statement in self.entries():
            readline.add_history(" ".join(statement.split()) + ";")

    def _shorten(self) -> None:
        lines = self._file.read_bytes().splitlines(keepends=True)
        if len(lines) > 2 * MAX_STATEMENTS:
            self._file.write_bytes(b"".join(lines[-MAX_STATEMENTS:]))
