"""The ClickHouse engine (chdb) inside this process: runs one statement, returns bytes and statistics.

Every request gets a connection of its own (0.1 ms), so settings, current database, temporary tables and ``readonly`` of
one request never affect another. Connections of one process share one engine and run concurrently; the engine does its
own locking.

Differences from a server (chdb 4.4, ClickHouse 26.9), found by experiment:

- There is one user: ``CREATE USER``, ``EXECUTE AS`` and query_log do not exist. Roles exist, defined in a file, and
  also apply to ``file()``, ``url()`` or ``remote()``: see ``infra.embedded.clickhouse.access``.
- The database ``default`` is an overlay on the file system: keep tables in another database.
- Rows cannot be sent for ``INSERT ... SELECT ... FROM input()``.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import orjson
from chdb.state.sqlitelike import Connection

from infra.clickhouse.statement import Statement
from infra.embedded.clickhouse.access import AccessDeniedError, check_statement

_CODE = re.compile(r"Code: (\d+)\. DB::")
_SETTING = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_PYTHON_FORMATS = {"dataframe", "arrowtable", "debug"}
_IN_PIECE = 4 * 1024 * 1024
_OUT_PIECE = 1024 * 1024


class EngineError(Exception):
    """The engine refused a statement or failed; ``code`` is ClickHouse's error number, the text is the engine's."""

    def __init__(self, message: str) -> None:
        match = _CODE.search(message)
        # Drops the prefix that the Python bindings add to the engine's text.
        super().__init__(message[match.start() :] if match else message)
        self.code = int(match.group(1)) if match else 1001


@dataclass(frozen=True)
class Request:
    """One statement with its settings, parameters and role."""

    statement: Statement
    query_id: str
    database: str = ""
    default_format: str = "TabSeparated"
    settings: Mapping[str, str] = field(default_factory=dict)
    """In the order in which they are set; ``readonly`` must be last."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """Values of ``{name:Type}``, without the ``param_`` of the URL."""
    role: str = ""
    """Role that restricts the statement; empty: all rights."""


@dataclass(frozen=True)
class Answer:
    """A statement's result in the engine's own buffer, to be read with ``pieces``."""

    size: int = 0
    """Size of the whole result in bytes."""
    buffer: Any = None
    """The buffer's owner. A view does not keep it alive, so readers must hold this reference."""
    read_rows: int = 0
    read_bytes: int = 0
    written_rows: int = 0
    written_bytes: int = 0
    result_rows: int = 0
    elapsed_s: float = 0.0

    @property
    def summary(self) -> str:
        """The value of X-ClickHouse-Summary: a JSON object whose numbers are strings."""
        figures = {
            "read_rows": self.read_rows,
            "read_bytes": self.read_bytes,
            "written_rows": self.written_rows,
            "written_bytes": self.written_bytes,
            "total_rows_to_read": 0,
            "result_rows": self.result_rows,
            "result_bytes": self.size,
            "elapsed_ns": int(self.elapsed_s * 1e9),
        }
        return orjson.dumps({name: str(value) for name, value in figures.items()}).decode()

    def pieces(self) -> Iterator[bytes]:
        """Yield the result in copies of at most 1 MiB, which may outlive the engine's buffer."""
        if self.size:
            view = self.buffer.view()
            for at in range(0, self.size, _OUT_PIECE):
                yield bytes(view[at : at + _OUT_PIECE])


class Engine:
    """The only engine of a data directory. Thread-safe."""

    def __init__(self, directory: Path, *, memory_bytes: int, access: Path) -> None:
        """Open ``directory``, which is empty or from an earlier run. ``memory_bytes`` bounds the engine's total memory.

        A query may use three quarters of it; sorts and groupings spill to disk at a third. ``access`` is the
        configuration with a role for each restricted user (``access.write_access``).
        """
        self._directory = str(directory)
        self._root = Connection(f"{self._directory}?max_server_memory_usage={memory_bytes}&config-file={access}")
        self._limits = {
            "max_memory_usage": str(memory_bytes * 3 // 4),
            "max_bytes_before_external_group_by": str(memory_bytes // 3),
            "max_bytes_before_external_sort": str(memory_bytes // 3),
            # The whole result is in memory before it is sent, outside the engine's memory accounting.
            "max_result_bytes": str(memory_bytes // 2),
            "result_overflow_mode": "throw",
            # Otherwise the engine parses 65,409 rows at a time, however long they are.
            "input_format_max_block_size_bytes": str(_IN_PIECE),
        }

    def run(self, request: Request) -> Answer:
        """Run a statement that carries no rows. Raises EngineError."""
        shape = request.statement.format or request.default_format
        if shape.lower() in _PYTHON_FORMATS:
            raise EngineError(f"Code: 73. DB::Exception: Unknown format {shape}. (UNKNOWN_FORMAT)")
        with self._connection(request) as connection:
            sql = _checked(connection, request.statement.sql) if request.role else request.statement.sql
            result = connection.query(sql, request.default_format, params=dict(request.parameters) or None)
            return Answer(
                size=result.size(),
                buffer=result.get_memview(),
                read_rows=result.storage_rows_read(),
                read_bytes=result.storage_bytes_read(),
                written_rows=result.rows_written(),
                written_bytes=result.bytes_written(),
                result_rows=result.rows_read(),
                elapsed_s=result.elapsed(),
            )

    def insert(self, request: Request, rows: IO[bytes]) -> Answer:
        """Run an insert with the rest of ``rows``. Raises EngineError, or OSError if the disk has no room for a copy.

        The rows go through a file, because chdb's streaming insert reports rows as written even if their commit failed,
        for example on a full disk. A failed insert writes nothing of the block that failed. Earlier blocks may be kept,
        as on a server. A block has ``min_insert_block_size_rows`` rows (about a million) or, if rows are long, 100 MiB
        or more.
        """
        statement = request.statement
        with tempfile.NamedTemporaryFile() as copy, self._connection(request) as connection:
            shutil.copyfileobj(rows, copy, _IN_PIECE)
            copy.flush()
            source = f"FROM INFILE {_literal(copy.name)} COMPRESSION 'none'"
            sql = f"{statement.sql}\n{source}\n{statement.settings}\nFORMAT {statement.format}"
            written = connection.query(sql, "Null", params=dict(request.parameters) or None)
            return Answer(
                written_rows=written.rows_written(), written_bytes=written.bytes_written(), elapsed_s=written.elapsed()
            )

    def cancel(self, query_id: str | None = None) -> None:
        """Request cancellation of the running statement with that id, or of all statements. Never raises."""
        # chdb assigns its own query ids; the request's id is in ``log_comment``.
        chosen = f"Settings['log_comment'] = {_literal(query_id)}" if query_id else "query NOT LIKE 'KILL%'"
        with suppress(Exception), self._connection(None) as connection:
            connection.query(f"KILL QUERY WHERE {chosen} ASYNC", "Null")

    def close(self) -> None:
        """Close the engine: all writes are on disk, and the directory is free. Do not use the engine afterwards."""
        self._root.close()

    @contextmanager
    def _connection(self, request: Request | None) -> Iterator[Connection]:
        try:
            connection = Connection(self._directory)
            try:
                if request is not None:
                    self._prepare(connection, request)
                yield connection
            finally:
                connection.close()
        except RuntimeError as exc:  # ChdbError is one as well
            raise EngineError(str(exc)) from exc

    def _prepare(self, connection: Connection, request: Request) -> None:
        if request.database and request.database != "default":
            connection.query(f"USE {_identifier(request.database)}", "Null")
        if request.role:
            connection.query(f"SET ROLE {_identifier(request.role)}", "Null")
        settings = {**self._limits, "log_comment": request.query_id, **request.settings}
        pairs = ", ".join(f"{_name(name)} = {_literal(value)}" for name, value in settings.items())
        connection.query(f"SET {pairs}", "Null")


_OF_THE_CHECK = re.compile(
    r": In scope SELECT (?:parseQueryToJSON|formatQuerySingleLine)\(.*(?=\. \(\w+\)$)", re.DOTALL
)
"""The part of the engine's error text that describes the check's own query instead of the user's statement."""


def _checked(connection: Connection, sql: str) -> str:
    """Check a restricted user's statement; return the text to run. Raises EngineError."""

    def ask(question: str, parameters: Mapping[str, str]) -> str:
        try:
            result = connection.query(question, "TabSeparatedRaw", params=dict(parameters))
        except RuntimeError as exc:
            raise ValueError(_OF_THE_CHECK.sub("", str(exc))) from exc
        return bytes(result.get_memview().view()).decode("utf-8", "replace") if result.size() else ""

    try:
        return check_statement(sql, ask)
    except (AccessDeniedError, ValueError) as exc:
        raise EngineError(str(exc)) from exc


def _name(name: str) -> str:
    if not _SETTING.match(name):
        raise EngineError(f"Code: 115. DB::Exception: Unknown setting {name[:60]!r}. (UNKNOWN_SETTING)")
    return name


def _literal(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _identifier(name: str) -> str:
    return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"
