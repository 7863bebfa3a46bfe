"""What one HTTP request asks of the engine: the statement with its rows, database, format, settings and parameters."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import IO

from aiohttp import BodyPartReader, web

from infra.embedded.clickhouse_access import role_of, settings_for
from infra.embedded.clickhouse_engine import Request
from infra.embedded.clickhouse_frames import FrameDecoder
from infra.embedded.clickhouse_statement import MAX_STATEMENT_BYTES, Statement, StatementError
from infra.embedded.clickhouse_wire import NOT_SETTINGS, Decoder, EncodingError, EngineUser

__all__ = ["request_of", "says_yes", "take_in"]


_LONGEST_FORM_BYTES = 64 * 1024 * 1024
_HEAVY_BYTES = 64 * 1024


async def take_in(http: web.Request, user: EngineUser, body: IO[bytes]) -> dict[str, str]:
    """Write the statement and what follows it to ``body``; return the parameters of URL and form.

    Of a restricted user, who sends no rows, 4 MiB are taken, as they are after unpacking.

    Raises:
        StatementError: it is longer than that, or not what its headers say.
    """
    fields = dict(http.query)
    restricted = bool(user.databases)
    form = http.content_type == "multipart/form-data"
    if form:
        fields |= await _form(http, MAX_STATEMENT_BYTES if restricted else _LONGEST_FORM_BYTES)
    taken = 0
    if query := fields.get("query", "").rstrip():
        # As ClickHouse does: the text of the URL and the body are one.
        taken = body.write(query.encode("utf-8", "surrogateescape") + b"\n")
    if not form:
        try:
            async for data in _unpacked(http):
                taken += len(data)
                if restricted and taken > MAX_STATEMENT_BYTES:
                    raise _too_long()
                body.write(data)
        except EncodingError as exc:
            raise StatementError(354, "ZLIB_INFLATE_FAILED", str(exc)) from exc
    return fields


async def _unpacked(http: web.Request) -> AsyncIterator[bytes]:
    decoder = Decoder(http.headers.get("Content-Encoding", "").strip().lower())
    frames = FrameDecoder() if says_yes(http.query, "decompress") else None

    def unpacked(piece: bytes) -> Iterator[bytes]:
        for data in decoder.decode(piece):
            yield from frames.decode(data) if frames else (data,)

    packed, taken = frames is not None or "Content-Encoding" in http.headers, 0
    async for piece in http.content.iter_any():
        pieces = unpacked(piece)
        # What is long is unpacked beside the loop; a hand-over costs more than a short body does.
        while (
            data := await asyncio.to_thread(next, pieces, None)
            if packed and taken > _HEAVY_BYTES
            else next(pieces, None)
        ) is not None:
            taken += len(data)
            yield data
    decoder.finish()
    if frames:
        frames.finish()


async def _form(http: web.Request, most: int) -> dict[str, str]:
    fields: dict[str, str] = {}
    left = most
    try:
        async for part in await http.multipart():
            if not isinstance(part, BodyPartReader) or part.filename or part.name is None:
                raise StatementError(
                    48, "NOT_IMPLEMENTED", "External tables are not spoken here: insert into a table first."
                )
            value = bytearray()
            # Taken as it is: an encoding of the part's own would be unpacked without a bound.
            while chunk := await part.read_chunk():
                value += chunk
                left -= len(chunk)
                if left < 0:
                    raise _too_long()
            fields[part.name] = value.decode("utf-8", "surrogateescape")
    except StatementError:
        raise
    except ValueError as exc:
        raise StatementError(27, "CANNOT_PARSE_INPUT", f"The form cannot be read ({exc}): send it again.") from exc
    return fields


def _too_long() -> StatementError:
    return StatementError(
        229, "QUERY_IS_TOO_LARGE", "The body is longer than 4 MiB: a statement that reads is shorter."
    )


def says_yes(query: Mapping[str, str], name: str) -> bool:
    """Tell whether a parameter of the URL switches something on."""
    return query.get(name, "0") not in ("", "0", "false")


def request_of(
    http: web.Request, user: EngineUser, fields: dict[str, str], statement: Statement, query_id: str
) -> Request:
    settings = {k: v for k, v in fields.items() if k not in NOT_SETTINGS and not k.startswith("param_")}
    database = fields.get("database") or http.headers.get("X-ClickHouse-Database") or ""
    readonly = user.readonly
    if user.databases:
        readonly = 1
        _refuse_outside(user, database, statement)
        settings = settings_for(user, settings)
    else:
        settings.update(user.settings)
    # ClickHouse does the same to GET: what a link can do must not write.
    if readonly := readonly or (2 if http.method == "GET" else 0):
        settings.pop("readonly", None)
        settings["readonly"] = str(readonly)
    return Request(
        statement=statement,
        query_id=query_id,
        # A reader who names none is in the one that there is to read.
        database=database if database not in ("", "default") or not user.databases else user.databases[0],
        default_format=fields.get("default_format") or http.headers.get("X-ClickHouse-Format") or "TabSeparated",
        settings=settings,
        parameters={k[len("param_") :]: v for k, v in fields.items() if k.startswith("param_")},
        role=role_of(user) if user.databases else "",
    )


def _refuse_outside(user: EngineUser, database: str, statement: Statement) -> None:
    if database not in ("", "default", *user.databases):
        raise StatementError(497, "ACCESS_DENIED", f"Not enough privileges: this user reads {user.databases[0]} only.")
    if statement.data_at is not None or statement.verb == "INSERT":
        raise StatementError(497, "ACCESS_DENIED", "Not enough privileges: this user reads, and writes nothing.")
