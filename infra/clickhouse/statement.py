"""Splits request bodies of ClickHouse's HTTP protocol into the statement and an insert's rows.

The body of an insert is a line with the statement, then the rows: ``INSERT INTO t (a) FORMAT Native``, a line break,
and a binary block. The tokenizer knows only as much SQL as that needs: words, quotes, comments and brackets. The engine
checks everything else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

MAX_STATEMENT_BYTES = 4 * 1024 * 1024
"""Maximum statement length in bytes, without an insert's rows. A memory guard, far above any real statement."""

_TOKEN = re.compile(
    # Non-ASCII white space of the engine: U+0085, U+00A0, U+180E, U+2000 to U+200D, U+2028 and the like.
    rb"(?P<space>(?:\s|\xc2[\x85\xa0]|\xe1\xa0\x8e|\xe2\x80[\x80-\x8d\xa8\xa9\xaf]|\xe2\x81[\x9f\xa0]|\xe3\x80\x80"
    rb"|\xef\xbb\xbf)++|(?:--|//|\#[! ])[^\n]*|/\*(?:.*?\*/|.*))"
    # Possessive, or to the end: an unclosed quote is detected in one pass.
    rb"|(?P<quoted>'(?:[^'\\]++|\\.|'')*+.?|\"(?:[^\"\\]++|\\.|\"\")*+.?|`(?:[^`\\]++|\\.|``)*+.?"
    rb"|\$(?P<tag>\w*)\$(?:.*?\$(?P=tag)\$|.*)|\xe2\x80\x98(?:.*?\xe2\x80\x99|.*)|\xe2\x80\x9c(?:.*?\xe2\x80\x9d|.*))"
    rb"|(?P<word>[A-Za-z_][A-Za-z0-9_$]*+)"
    rb"|(?P<number>[0-9][A-Za-z0-9_.]*)"
    rb"|(?P<mark>.)",
    re.DOTALL,
)
_HEAD_BYTES = 64 * 1024
_SOURCES = {b"SELECT", b"WITH", b"FROM", b"WATCH"}
_READS = {"SELECT", "WITH", "SHOW", "DESCRIBE", "DESC", "EXISTS", "EXPLAIN", "FROM", "("}


class StatementError(ValueError):
    """The statement is one that ClickHouse's HTTP interface refuses; ``code`` is ClickHouse's error number."""

    def __init__(self, code: int, name: str, message: str) -> None:
        super().__init__(f"Code: {code}. DB::Exception: {message} ({name})")
        self.code = code


@dataclass(frozen=True)
class Statement:
    """One statement for the engine to run."""

    sql: str
    """The text; for an insert with rows, up to its SETTINGS, FORMAT or VALUES."""
    verb: str
    """First word in upper case: SELECT, INSERT, CREATE…; empty for an empty statement."""
    format: str | None
    """Output format named in the text, or the input format of an insert with rows."""
    data_at: int | None = None
    """Offset in the body at which an insert's rows begin; None if the statement has none."""
    settings: str = ""
    """An insert's ``SETTINGS`` clause, up to its FORMAT or VALUES; empty if it has none, or for other statements."""

    @property
    def reads_only(self) -> bool:
        """True if the statement certainly only reads, so that it may be cancelled midway."""
        return self.verb in _READS and not (self.verb == "WITH" and "insert" in self.sql.lower())


def read_statement(body: IO[bytes]) -> Statement:
    """Read the statement at the start of ``body``, which an insert's rows may follow.

    Raises:
        StatementError: the statement is too long, or there are two; or it uses the server's own files (INTO OUTFILE,
            FROM INFILE) or variables (chdb's ``Python``). A ClickHouse server has no ``Python``, and refuses the others
            over HTTP, too.
    """
    body.seek(0)
    head = body.read(_HEAD_BYTES)
    if len(head) == _HEAD_BYTES:
        # Usually an insert: finding the start of its rows does not require reading them.
        statement = _split(head) if _verb(head) == "INSERT" else None
        if statement is None or statement.data_at is None:
            head += body.read(MAX_STATEMENT_BYTES - len(head))
            statement = _split(head)
            if statement.data_at is None and body.read(1):
                raise StatementError(229, "QUERY_IS_TOO_LARGE", "The statement is longer than 4 MiB: split it.")
    else:
        statement = _split(head)
    if "python" in statement.sql.lower():
        _refuse_python(statement.sql.encode("utf-8", "surrogateescape"))
    return statement


def split_statements(text: str) -> list[str]:
    """Return the non-empty statements of a script, separated by semicolons outside quotes, comments and brackets."""
    script = text.encode("utf-8", "surrogateescape")
    spans: list[tuple[int, int]] = []
    start: int | None = None
    end = 0
    for _, token, at, stop in _top_level_tokens(script):
        if token == b";":
            if start is not None:
                spans.append((start, at))
            start = None
            continue
        start, end = at if start is None else start, stop
    if start is not None:
        # Up to the end of the script, because tokens within brackets are not yielded.
        spans.append((start, max(end, len(script.rstrip()))))
    return [script[start:end].decode("utf-8", "surrogateescape").strip() for start, end in spans]


def _verb(head: bytes) -> str:
    return next((text.decode("latin-1").upper() for _, text, _, _ in _top_level_tokens(head)), "")


def _split(head: bytes) -> Statement:
    verb = ""
    previous = b""
    shape: str | None = None
    end = len(head)
    settings_at: int | None = None
    for kind, text, start, stop in _top_level_tokens(head):
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
            if word == b"SETTINGS" and settings_at is None:
                settings_at = start
            if word in (b"VALUES", b"FORMAT"):
                name, data_at = ("Values", stop) if word == b"VALUES" else _insert_format(head, stop)
                cut = start if settings_at is None else settings_at
                return Statement(_text(head[:cut]), verb, name, data_at, _text(head[cut:start]))
        elif word == b"OUTFILE" and previous == b"INTO":
            raise StatementError(
                358, "INTO_OUTFILE_NOT_ALLOWED", "INTO OUTFILE is not allowed: save the response's body yourself."
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


def _refuse_python(head: bytes) -> None:
    """Refuse chdb's own table function ``Python``: it reads variables of this process, and no server has it."""
    previous = b""
    for match in _TOKEN.finditer(head):
        if match.lastgroup == "space":
            continue
        text = match.group().strip(b'`"').lower()
        if text == b"(" and previous == b"python":
            raise StatementError(46, "UNKNOWN_FUNCTION", "Unknown table function Python: insert the rows instead.")
        previous = text


def _insert_format(head: bytes, at: int) -> tuple[str, int]:
    """Return the format's name and the offset of its data: after blanks and at most one line break."""
    match = re.compile(rb"\s*([A-Za-z][A-Za-z0-9_]*)[ \t\f]*\r?\n?").match(head, at)
    if match is None:
        raise StatementError(62, "SYNTAX_ERROR", "Syntax error: FORMAT in an INSERT names no format.")
    return match.group(1).decode(), match.end()


def _refuse_second_statement(head: bytes, at: int) -> None:
    if any(text != b";" for _, text, _, _ in _top_level_tokens(head[at:])):
        raise StatementError(
            62, "SYNTAX_ERROR", "Syntax error (Multi-statements are not allowed): send one statement per request."
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
    except UnicodeDecodeError as exc:
        raise StatementError(
            36, "BAD_ARGUMENTS", "The statement is not UTF-8: send other bytes as rows, or write them with unhex('…')."
        ) from exc
