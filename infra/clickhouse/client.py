"""Async client of one ClickHouse database over HTTP: wraps clickhouse_connect and raises the project's errors.

The same code works with the embedded engine, a server and a cloud service: only the address differs. The client
connects at the first statement, so a process can start while ClickHouse is down, and continues when it is back.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, NoReturn
from urllib.parse import unquote, urlsplit

import clickhouse_connect
import msgspec
from clickhouse_connect.datatypes.base import ClickHouseType
from clickhouse_connect.datatypes.registry import get_from_name
from clickhouse_connect.driver.asyncclient import AsyncClient
from clickhouse_connect.driver.binding import quote_identifier
from clickhouse_connect.driver.common import write_leb128
from clickhouse_connect.driver.compression import get_compressor
from clickhouse_connect.driver.exceptions import ClickHouseError as VendorError
from clickhouse_connect.driver.exceptions import DataError, Error, OperationalError
from clickhouse_connect.driver.insert import InsertContext

from infra.clickhouse.record import Row
from schemas.errors import ConfigError, ContractError, PermanentError, TransientError


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """One insert into one table. ``body`` holds the statement, then the rows column by column."""

    table: str
    rows: int
    body: bytes


class Shape:
    """The columns of a table that rows are mapped to, in their order, with their types. Builds the bodies of inserts.

    clickhouse_connect only encodes the values of a column. Its own insert is not used, because it imports pandas to
    check whether the rows are a data frame, which adds two seconds to a process's first insert.
    """

    def __init__(self, table: str, columns: Sequence[str], types: Sequence[ClickHouseType]) -> None:
        self._table, self._columns, self._types = table, list(columns), list(types)

    def pieces(self, rows: Sequence[Row]) -> Iterator[bytearray]:
        """Yield the body of an insert, one block, column by column.

        Raises:
            Exception: a value does not fit its column; the type is whatever the library raises.
        """
        context = InsertContext(self._table, self._columns, self._types)
        names = ", ".join(quote_identifier(column) for column in self._columns)
        piece = bytearray(f"INSERT INTO {self._table} ({names}) FORMAT Native\n".encode())
        write_leb128(len(self._columns), piece)
        write_leb128(len(rows), piece)
        for name, kind, values in zip(self._columns, self._types, zip(*rows, strict=True), strict=True):
            for text in (name.encode(), kind.insert_name.encode()):
                write_leb128(len(text), piece)
                piece += text
            context.start_column(name)
            kind.write_column(values, piece, context)
            yield piece
            piece = bytearray()


def compressed(body: bytes, compression: str) -> bytes:
    """Return the body as one frame of ``compression`` (lz4)."""
    compressor = get_compressor(compression)
    return bytes(compressor.compress_block(body)) + (compressor.flush() or b"")


CONNECT_TIMEOUT_S = 5.0
SEND_RECEIVE_TIMEOUT_S = 120.0

_TRANSIENT = frozenset(
    {
        *(159, 160, 198, 202, 203, 209, 210, 212, 236, 241, 242, 243, 252, 279),
        *(285, 319, 394, 425, 439, 473, 499, 735, 745, 999),
    }
)
"""Codes of ClickHouse's ErrorCodes.cpp after which a retry may succeed: timeouts, limits on memory, parts and queries,
network and Keeper errors, a killed query."""
_AUTH = frozenset({192, 193, 194, 497, 516})
_MISSING = frozenset({60, 81})
_GATEWAY = re.compile(r"HTTP status (429|5\d\d)\b")
"""A response without a ClickHouse code comes from a load balancer or a gateway in front of it."""
_OF_AN_INSERT = {
    # Tables are partitioned by month: a block that spans many months is unusual, but must not be refused forever.
    "max_partitions_per_insert_block": 0,
    # Merges and FINAL decide which row of a key is kept; deduplicating each block costs a fifth of the engine's time.
    "optimize_on_insert": 0,
}
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """HTTP address and login of a ClickHouse server."""

    host: str
    port: int = 8123
    username: str = "default"
    password: str = ""
    secure: bool = False

    def __repr__(self) -> str:  # Never the password: addresses end up in logs.
        return f"{'https' if self.secure else 'http'}://{self.username}@{self.host}:{self.port}"


class Result(msgspec.Struct, frozen=True):
    """Result of a query: column names, and rows in that order."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]

    def dicts(self) -> list[dict[str, Any]]:
        """Return each row as a dict by column name."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


def parse_url(url: str) -> Address:
    """Parse ``CLICKHOUSE_URL``, such as ``http://user:password@host:8123``.

    Raises:
        ConfigError: the URL does not have this form.
    """
    hint = "CLICKHOUSE_URL must look like http://user:password@host:8123 (or https://…:8443)"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as exc:
        raise ConfigError(f"{hint}: {exc}") from exc
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(hint)
    secure = parts.scheme == "https"
    return Address(
        host=parts.hostname,
        port=port or (8443 if secure else 8123),
        username=unquote(parts.username or "default"),
        password=unquote(parts.password or ""),
        secure=secure,
    )


def connect(
    address: str | Address, *, database: str, settings: Mapping[str, Any] | None = None, cluster: str | None = None
) -> ClickHouse:
    """Return a client that connects at the first statement; ``address`` is a URL or an :class:`Address`.

    ``settings`` are ClickHouse settings that apply to every statement. ``cluster``: see :meth:`ClickHouse.define`.
    """
    place = parse_url(address) if isinstance(address, str) else address
    return ClickHouse(place, database=database, settings=dict(settings or {}), cluster=cluster)


class ClickHouse:
    """One database. Safe for concurrent use within one event loop; statements of one client run concurrently.

    Every method raises TransientError (unreachable, overloaded, timed out), PermanentError (the engine refuses the
    statement or the user) and, for rows that do not fit their table, ContractError.
    """

    def __init__(
        self, address: Address, *, database: str, settings: dict[str, Any], cluster: str | None = None
    ) -> None:
        self.address = address
        self.database = database
        self.cluster = cluster
        self._settings = settings
        self._client: AsyncClient | None = None
        self._connecting = asyncio.Lock()
        self._shapes: dict[tuple[str, tuple[str, ...]], Shape] = {}

    async def query(
        self, sql: str, parameters: Mapping[str, Any] | None = None, *, settings: Mapping[str, Any] | None = None
    ) -> Result:
        """Run a query. The engine binds ``parameters`` to ``{name:Type}``; they are never inserted into the text."""
        async with self._errors(sql) as client:
            result = await client.query(sql, parameters=dict(parameters or {}), settings=dict(settings or {}))
            return Result(tuple(result.column_names), [tuple(row) for row in result.result_rows])

    async def raw(self, sql: str, parameters: Mapping[str, Any] | None = None, *, shape: str) -> bytes:
        """Run a query and return its result in one of ClickHouse's formats (``shape``), such as ``RowBinary``."""
        async with self._errors(sql) as client:
            return bytes(await client.raw_query(sql, parameters=dict(parameters or {}), fmt=shape))

    async def command(self, sql: str, *, settings: Mapping[str, Any] | None = None) -> None:
        """Run a statement that returns nothing, such as CREATE."""
        async with self._errors(sql) as client:
            await client.command(sql, settings=dict(settings or {}))

    async def define(self, sql: str) -> None:
        """Run a statement that creates, alters or drops a database, table or view, on every replica of the cluster."""
        await self.command(sql if self.cluster is None else on_cluster(sql, self.cluster))

    async def insert(
        self, table: str, columns: Sequence[str], rows: Sequence[Row], *, token: str | None = None
    ) -> None:
        """Insert rows. Idempotent per ``token`` within the table's deduplication window."""
        if rows:
            await self.insert_block(await self.block(table, columns, rows), token=token)

    async def block(self, table: str, columns: Sequence[str], rows: Sequence[Row]) -> Block:
        """Return rows in the form that :meth:`insert_block` sends. Other tasks can run after each column."""
        async with self._errors(f"INSERT INTO {table}"):
            shape = self._shapes.get((table, tuple(columns))) or await self._shape(table, tuple(columns))
            pieces = []
            for piece in shape.pieces(rows):
                pieces.append(piece)
                await asyncio.sleep(0)
            body = b"".join(pieces)
            if self._compression:
                body = await asyncio.to_thread(compressed, body, self._compression)
            return Block(table=table, rows=len(rows), body=body)

    async def insert_block(self, block: Block, *, token: str | None = None) -> None:
        """Insert a block made by :meth:`block`. Idempotent per ``token``, as :meth:`insert`."""
        async with self._errors(f"INSERT INTO {block.table}") as client:
            await client.raw_insert(
                insert_block=block.body,
                compression=self._compression,
                settings=_OF_AN_INSERT | ({"insert_deduplication_token": token} if token else {}),
            )

    @property
    def _compression(self) -> str | None:
        # On loopback, compression costs more than it saves.
        return None if self.address.host in _LOOPBACK else "lz4"

    async def close(self) -> None:
        """Close connections. Idempotent; the next statement connects again."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def __aenter__(self) -> ClickHouse:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.close()

    async def _shape(self, table: str, columns: tuple[str, ...]) -> Shape:
        described = {row[0]: row[1] for row in (await self.query(f"DESCRIBE TABLE {table}")).rows}
        missing = [c for c in columns if c not in described]
        if missing:
            raise PermanentError(
                f"table {table} lacks the columns {', '.join(missing)}: run the migrations (`newsproof up` does)"
            )
        shape = Shape(table, columns, [get_from_name(described[c]) for c in columns])
        return self._shapes.setdefault((table, columns), shape)

    @asynccontextmanager
    async def _errors(self, statement: str) -> AsyncIterator[AsyncClient]:
        try:
            yield await self._connected()
        except (VendorError, OSError, TimeoutError, ValueError, TypeError, AttributeError, ArithmeticError) as exc:
            self._translate(exc, statement)

    async def _connected(self) -> AsyncClient:
        async with self._connecting:
            if self._client is None:
                a = self.address
                if a.host in _LOOPBACK:
                    _reach_without_proxy(a.host)
                self._client = await clickhouse_connect.get_async_client(
                    host=a.host,
                    port=a.port,
                    username=a.username,
                    password=a.password,
                    secure=a.secure,
                    database=self.database,
                    settings=self._settings,
                    compress=self._compression or False,
                    connect_timeout=CONNECT_TIMEOUT_S,
                    send_receive_timeout=SEND_RECEIVE_TIMEOUT_S,
                    autogenerate_session_id=False,
                    tz_mode="aware",
                    client_name="newsproof",
                )
            return self._client

    def _translate(self, exc: Exception, statement: str) -> NoReturn:
        code = exc.code if isinstance(exc, Error) else None
        detail = str(exc).strip() or type(exc).__name__
        if code in _AUTH:
            raise PermanentError(
                f"ClickHouse at {self.address!r} refuses this user: correct CLICKHOUSE_URL ({detail})", kind="auth"
            ) from exc
        if code in _MISSING:
            raise PermanentError(
                f"ClickHouse has no such table or database, run the migrations first (`newsproof up` does): {detail}"
            ) from exc
        if code in _TRANSIENT:
            raise TransientError(f"ClickHouse is overloaded or was interrupted, try again: {detail}") from exc
        if code is None and (isinstance(exc, OperationalError | OSError | TimeoutError) or _GATEWAY.search(detail)):
            raise TransientError(
                f"ClickHouse at {self.address!r} does not respond: check that it runs and CLICKHOUSE_URL ({detail})",
                kind="timeout" if isinstance(exc, TimeoutError) else "network",
            ) from exc
        if (
            statement.startswith("INSERT")
            and code is None
            and (isinstance(exc, DataError) or not isinstance(exc, Error))
        ):
            raise ContractError(
                f"{statement}: a row does not fit its table, correct the mapping or dead-letter it: {detail}",
                reason="bad_row",
            ) from exc
        raise PermanentError(f"ClickHouse refuses the statement, correct it: {detail}") from exc


def engine_words(exc: PermanentError) -> str:
    """Return the engine's own message about a statement that it refused, with its suggestions ("Maybe you meant …")."""
    message = str(exc)
    return message.partition("DB::Exception: ")[2].partition(" (for url ")[0].strip() or message


def _reach_without_proxy(host: str) -> None:
    # clickhouse_connect obeys HTTP_PROXY even for loopback addresses, which a proxy cannot reach.
    if not (os.environ.get("http_proxy") or os.environ.get("HTTP_PROXY")):
        return
    names = [n for n in (os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or "").split(",") if n]
    if host not in names and names != ["*"]:
        os.environ["no_proxy"] = ",".join([*names, host])


# Definitions for a replicated cluster: ``ON CLUSTER`` and replicated engines, derived from the definitions for one
# server.
#
# The migrations are not changed, so their checksums are the same everywhere. The cluster has one shard and any number
# of replicas. No view would show the rows of a second shard, because the views read local tables.

_DEDUPLICATION_S = 30 * 24 * 3600
"""Keeper forgets insert tokens by age too, by default after an hour. The sink may resend a batch after a longer outage."""
_OBJECT = re.compile(
    r"\s*(?:CREATE\s+(?:OR\s+REPLACE\s+)?|ALTER\s+|DROP\s+)"
    r"(?:DATABASE|TABLE|VIEW)\s+(?:IF\s+(?:NOT\s+)?EXISTS\s+)?[\w`]+",
    re.IGNORECASE,
)
_EXCHANGE = re.compile(r"\s*EXCHANGE\s+TABLES\s+\w+\s+AND\s+\w+", re.IGNORECASE)
_ENGINE = re.compile(r"\bENGINE\s*=\s*(?=\w*MergeTree\b)", re.IGNORECASE)
_WINDOW = re.compile(r"\bnon_replicated_deduplication_window\s*=\s*(\d+)")


def on_cluster(sql: str, cluster: str) -> str:
    """Return the definition for every replica of a cluster. An INSERT is returned unchanged: Keeper replicates rows.

    Replicated engines get no path: the server's ``default_replica_path`` and ``default_replica_name`` apply.

    Raises:
        ConfigError: the statement has a form that this function does not know.
    """
    if re.match(r"\s*INSERT\s", sql, re.IGNORECASE):
        return sql
    match = _EXCHANGE.match(sql) or _OBJECT.match(sql)
    if match is None:
        raise ConfigError(f"CLICKHOUSE_CLUSTER: unknown form of a definition, extend on_cluster for it: {sql[:80]}")
    body = _ENGINE.sub("ENGINE = Replicated", sql[match.end() :])
    body = _WINDOW.sub(
        rf"replicated_deduplication_window = \1, replicated_deduplication_window_seconds = {_DEDUPLICATION_S}", body
    )
    return f"{match.group()} ON CLUSTER `{cluster}`{body}"
