"""Where the statement ends and the data begins in what a client of ClickHouse's HTTP protocol sends.

The body of an insert is the statement's line and then the rows: ``INSERT INTO t (a) FORMAT Native``,
a line break, and a binary block. Only as much of SQL is read here as that needs: words, quotes,
comments and brackets. Everything else is the engine's to judge.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["MAX_STATEMENT_BYTES", "Statement", "StatementError", "read_statement"]

MAX_STATEMENT_BYTES = 16 * 1024 * 1024
"""Longest statement (without an insert's rows), in bytes. A guard for memory, far above any real one."""

_TOKEN = re.compile(
    rb"(?P<space>\s+|--[^\n]*|\#[! ][^\n]*|/\*.*?\*/)"
    rb"|(?P<quoted>'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\"|`(?:[^`\\]|\\.|``)*`)"
    rb"|(?P<word>[A-Za-z_][A-Za-z0-9_]*)"
    rb"|(?P<number>[0-9][A-Za-z0-9_.]*)"
    rb"|(?P<mark>.)",
    re.DOTALL,
)
_SOURCES = {b"SELECT", b"WITH", b"FROM", b"WATCH"}
_READS = {"SELECT", "WITH", "SHOW", "DESCRIBE", "DESC", "EXISTS", "EXPLAIN", "FROM", "("}


class StatementError(ValueError):
    """The statement is one that ClickHouse's HTTP interface refuses; ``code`` is ClickHouse's number."""

    def __init__(self, code: int, name: str, message: str) -> None:
        super().__init__(f"Code: {code}. DB::Exception: {message} ({name})")
        self.code = code


@dataclass(frozen=True)
class Statement:
    """One statement as the engine is to run it."""

    sql: str
    """The text; for an insert with rows, up to its FORMAT or VALUES."""
    verb: str
    """First word in upper case: SELECT, INSERT, CREATE…; empty for an empty statement."""
    format: str | None
    """Output format that the text names, or the input format of an insert with rows."""
    data_at: int | None = None
    """Offset in the read bytes at which an insert's rows begin; None when the statement has none."""

    @property
    def reads_only(self) -> bool:
        """True when the first word can only begin a reading statement: safe to cancel half way."""
        return self.verb in _READS


def read_statement(head: bytes) -> Statement:
    """Split ``head`` (the statement and perhaps the first rows of an insert).

    Raises:
        StatementError: more than one statement, or one that reads or writes the server's own files
            by INTO OUTFILE or FROM INFILE (over HTTP a ClickHouse server refuses them as well).
    """
    tokens = _top_level_tokens(head)
    verb = ""
    previous = b""
    shape: str | None = None
    end = len(head)
    for kind, text, start, stop in tokens:
        word = text.upper() if kind == "word" else b""
        if not verb:
            verb = text.decode("latin-1").upper()
        elif text == b";":
            _refuse_second_statement(head, stop)
            end = start
            break
        elif verb == "INSERT" and previous not in (b"INTO", b"TABLE", b"."):
            if word in _SOURCES:
                _refuse_files(head, start)
                return Statement(_text(head[:end]), verb, None)
            if word == b"VALUES":
                return Statement(_text(head[:start]), verb, "Values", stop)
            if word == b"FORMAT":
                name, data_at = _insert_format(head, stop)
                return Statement(_text(head[:start]), verb, name, data_at)
        elif word == b"OUTFILE" and previous == b"INTO":
            raise StatementError(
                358, "INTO_OUTFILE_NOT_ALLOWED", "INTO OUTFILE is not allowed: save the answer's body yourself."
            )
        elif previous == b"FORMAT" and kind == "word":
            shape = text.decode()
        previous = word or text
    return Statement(_text(head[:end]), verb, shape)


def _top_level_tokens(head: bytes) -> Iterator[tuple[str, bytes, int, int]]:
    depth = 0
    for match in _TOKEN.finditer(head):
        kind, text = str(match.lastgroup), match.group()
        if kind == "space":
            continue
        if text in (b")", b"]", b"}"):
            depth -= 1
        if depth <= 0:
            yield kind, text, match.start(), match.end()
        if text in (b"(", b"[", b"{"):
            depth += 1


def _insert_format(head: bytes, at: int) -> tuple[str, int]:
    """Return the format's name and where its data begins: after blanks and at most one line break."""
    match = re.compile(rb"\s*([A-Za-z][A-Za-z0-9_]*)[ \t\f]*\r?\n?").match(head, at)
    if match is None:
        raise StatementError(62, "SYNTAX_ERROR", "Syntax error: FORMAT in an INSERT names no format.")
    return match.group(1).decode(), match.end()


def _refuse_second_statement(head: bytes, at: int) -> None:
    if any(text != b";" for _, text, _, _ in _top_level_tokens(head[at:])):
        raise StatementError(
            62, "SYNTAX_ERROR", "Syntax error (Multi-statements are not allowed): send one statement a request."
        )


def _refuse_files(head: bytes, at: int) -> None:
    words = [text.upper() for kind, text, _, _ in _top_level_tokens(head[at:]) if kind == "word"]
    if words[:2] == [b"FROM", b"INFILE"]:
        raise StatementError(
            78, "UNKNOWN_TYPE_OF_QUERY", "FROM INFILE is the client's: send the file's bytes as the body."
        )


def _text(statement: bytes) -> str:
    try:
        return statement.decode("utf-8")
    except UnicodeDecodeError:
        # ClickHouse's strings are bytes; such a statement passes on unchanged as far as text can.
        return statement.decode("utf-8", "surrogateescape")
