"""Parser of HTTP requests: the statement with its rows, database, format, settings and parameters."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import IO

from aiohttp import BodyPartReader, web
from aiohttp.http_exceptions import HttpProcessingError

from infra.clickhouse.statement import MAX_STATEMENT_BYTES, Statement, StatementError
from infra.embedded.clickhouse.access import role_of, settings_for
from infra.embedded.clickhouse.engine import Request
from infra.embedded.clickhouse.wire import NOT_SETTINGS, EngineUser

_LONGEST_FORM_BYTES = 64 * 1024 * 1024
_FORMAT = re.compile(r"[A-Za-z]\w*\Z", re.ASCII)


async def take_in(http: web.Request, user: EngineUser, body: IO[bytes]) -> dict[str, str]:
    """Write the statement and an insert's rows to ``body``; return the parameters of URL and form.

    A restricted user, who sends no rows, may send 4 MiB.

    Raises:
        StatementError: the body is longer than that or does not match its headers, or the client wants compression.
    """
    _refuse_compression(http)
    fields = dict(http.query)
    most = MAX_STATEMENT_BYTES if user.databases else None
    form = http.content_type == "multipart/form-data"
    if form:
        fields |= await _form(http, most or _LONGEST_FORM_BYTES)
    taken = 0
    if query := fields.get("query", "").rstrip():
        # Like ClickHouse: the URL's text and the body are concatenated.
        taken = body.write(query.encode("utf-8", "surrogateescape") + b"\n")
    if not form:
        async for data in http.content.iter_any():
            taken += len(data)
            _refuse_more_than(most, taken)
            body.write(data)
    return fields


def _refuse_compression(http: web.Request) -> None:
    # On loopback it costs more than it saves, and a small body could unpack to gigabytes.
    packed = http.headers.get("Content-Encoding", "").strip().lower()
    if packed not in ("", "identity"):
        raise StatementError(
            48, "NOT_IMPLEMENTED", f"Content-Encoding {packed[:40]!r} is not supported: send the body uncompressed."
        )
    # JDBC drivers request it by default, and would take a plain response for a broken one.
    if any(http.query.get(name, "0") not in ("", "0", "false") for name in ("compress", "decompress")):
        raise StatementError(
            48, "NOT_IMPLEMENTED", "Native compression is not supported: set the connection's property compress=0."
        )


async def _form(http: web.Request, most: int) -> dict[str, str]:
    fields: dict[str, str] = {}
    taken = 0
    try:
        async for part in await http.multipart():
            if not isinstance(part, BodyPartReader) or part.filename or part.name is None:
                raise StatementError(
                    48, "NOT_IMPLEMENTED", "External tables are not supported: insert into a table first."
                )
            value = bytearray()
            # Read raw, because a part's own encoding would be decompressed without a limit.
            while chunk := await part.read_chunk():
                value += chunk
                taken += len(chunk)
                _refuse_more_than(most, taken)
            fields[part.name] = value.decode("utf-8")
    except StatementError:
        raise
    except (ValueError, HttpProcessingError) as exc:
        raise StatementError(27, "CANNOT_PARSE_INPUT", f"The form cannot be read ({exc}): send it again.") from exc
    return fields


def _refuse_more_than(most: int | None, taken: int) -> None:
    if most is not None and taken > most:
        raise StatementError(
            229, "QUERY_IS_TOO_LARGE", f"The body is longer than {most // 1024**2} MiB: send less of it."
        )


def request_of(
    http: web.Request, user: EngineUser, fields: dict[str, str], statement: Statement, query_id: str
) -> Request:
    settings = {k: v for k, v in fields.items() if k not in NOT_SETTINGS and not k.startswith("param_")}
    database = fields.get("database") or http.headers.get("X-ClickHouse-Database") or ""
    if user.databases:
        _refuse_outside(user, database, statement)
        settings = settings_for(user, settings) | {"readonly": "1"}
    elif http.method in ("GET", "HEAD"):  # like ClickHouse: following a link must not write
        settings.pop("readonly", None)
        settings["readonly"] = "2"
    shape = fields.get("default_format") or http.headers.get("X-ClickHouse-Format") or "TabSeparated"
    _refuse_bytes([database, *fields, *fields.values()])
    if not _FORMAT.match(shape):
        raise StatementError(
            73, "UNKNOWN_FORMAT", f"Unknown format {shape[:40]!r}: a format's name is a word, such as CSV."
        )
    return Request(
        statement=statement,
        query_id=query_id,
        # A restricted user who names no database gets the first one of their own.
        database=database if database not in ("", "default") or not user.databases else user.databases[0],
        default_format=shape,
        settings=settings,
        parameters={k[len("param_") :]: v for k, v in fields.items() if k.startswith("param_")},
        role=role_of(user) if user.databases else "",
    )


def _refuse_bytes(texts: Iterable[str]) -> None:
    try:
        "".join(texts).encode("utf-8")
    except UnicodeEncodeError as exc:
        raise StatementError(36, "BAD_ARGUMENTS", "A parameter or a header is not UTF-8: send text.") from exc


def _refuse_outside(user: EngineUser, database: str, statement: Statement) -> None:
    if database not in ("", "default", *user.databases):
        raise StatementError(497, "ACCESS_DENIED", f"Not enough privileges: this user reads only {user.databases[0]}.")
    if statement.data_at is not None or statement.verb == "INSERT":
        raise StatementError(497, "ACCESS_DENIED", "Not enough privileges: this user may only read.")
