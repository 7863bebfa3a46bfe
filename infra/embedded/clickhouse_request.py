"""What one HTTP request asks of the engine: the statement with its rows, database, format, settings and parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO

from aiohttp import BodyPartReader, web

from infra.embedded.clickhouse_access import role_of, settings_for
from infra.embedded.clickhouse_engine import Request
from infra.embedded.clickhouse_frames import FrameDecoder
from infra.embedded.clickhouse_statement import Statement, StatementError
from infra.embedded.clickhouse_wire import NOT_SETTINGS, Decoder, EncodingError, EngineUser

__all__ = ["request_of", "says_yes", "take_in"]


async def take_in(http: web.Request, body: IO[bytes]) -> dict[str, str]:
    """Write the statement and what follows it to ``body``; return the parameters of URL and form."""
    fields = dict(http.query)
    form = http.content_type == "multipart/form-data"
    if form:
        async for part in await http.multipart():
            if not isinstance(part, BodyPartReader) or part.filename or part.name is None:
                raise StatementError(
                    48, "NOT_IMPLEMENTED", "External tables are not spoken here: insert into a table first."
                )
            fields[part.name] = bytes(await part.read(decode=True)).decode("utf-8", "surrogateescape")
    if query := fields.get("query", "").rstrip():
        # As ClickHouse does: the text of the URL and the body are one.
        body.write(query.encode("utf-8", "surrogateescape") + b"\n")
    if not form:
        try:
            decoder = Decoder(http.headers.get("Content-Encoding", "").strip().lower())
            frames = FrameDecoder() if says_yes(http.query, "decompress") else None
            async for piece in http.content.iter_any():
                for data in decoder.decode(piece):
                    for row in frames.decode(data) if frames else (data,):
                        body.write(row)
            decoder.finish()
            if frames:
                frames.finish()
        except EncodingError as exc:
            raise StatementError(354, "ZLIB_INFLATE_FAILED", str(exc)) from exc
    return fields


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
