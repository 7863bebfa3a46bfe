"""The HTTP server in front of the embedded engine: ClickHouse's protocol on loopback, run by ``process.py``.

chdb lets only one process open a data directory. So the sink, the web page, analysts and BI tools share one engine over
HTTP, with the same client and code path as in production. ``wire`` contains the protocol's headers,
``request`` reads a request, ``access`` decides what a restricted user may do, ``engine`` runs the statement.

The server reads a request's body completely (rows above 64 MiB into a temporary file) before it calls the engine, and
the result is complete before its first byte is sent. So a slow client holds a socket but never the engine, and an error
always has its status. Inserts have threads of their own, so a long report does not delay the sink.

Not supported: sessions (``session_id`` is tolerated, temporary tables end with their request), external tables,
compression of either direction: on loopback it would cost more than it saves. A clickhouse-connect client that inserts
needs ``compress=False``.
"""

from __future__ import annotations

import asyncio
import errno
import re
import signal
import socket
import sys
import tempfile
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import IO

from aiohttp import web

from infra.clickhouse.statement import MAX_STATEMENT_BYTES, Statement, StatementError, read_statement
from infra.embedded.clickhouse.access import AccessDeniedError
from infra.embedded.clickhouse.engine import Answer, Engine, EngineError, Request
from infra.embedded.clickhouse.request import request_of, take_in
from infra.embedded.clickhouse.wire import EngineUser, content_type, credentials, is_loopback, matching_user, status_of

QUERY_THREADS = 8
INSERT_THREADS = 2
READER_THREADS = 4
"""Threads for all restricted users together, so that their reports do not delay the pipeline's own queries."""
_SPOOL_BYTES = 64 * 1024 * 1024
"""Larger bodies go to a file. The sink's inserts are usually smaller, which avoids needless disk writes."""
_SHUTDOWN_S = 5.0
IDLE_S = 10.0
"""Like a ClickHouse server's ``keep_alive_timeout``. Without it, half-sent heads would hold connections for an hour."""
_HEAVY_BYTES = 64 * 1024
_PING = Request(Statement("SELECT 1", "SELECT", None), query_id="ping")
_QUERY_ID = re.compile(r"[\w.-]{1,64}\Z", re.ASCII)


class Front:
    """The HTTP request handlers of one engine."""

    def __init__(self, engine: Engine, users: list[EngineUser], spool: Path) -> None:
        self._engine = engine
        self._users = {user.name: user for user in users}
        self._spool = spool
        self._queries = ThreadPoolExecutor(QUERY_THREADS, "query")
        self._inserts = ThreadPoolExecutor(INSERT_THREADS, "insert")
        self._readers = ThreadPoolExecutor(READER_THREADS, "reader")
        self._pings = ThreadPoolExecutor(1, "ping")

    def application(self) -> web.Application:
        app = web.Application(client_max_size=MAX_STATEMENT_BYTES)
        app.router.add_get("/ping", self._ping)
        app.router.add_get("/replicas_status", _ok)
        app.router.add_get("/", self._handle)
        app.router.add_post("/", self._handle)
        app.router.add_route("OPTIONS", "/", _options)
        return app

    async def close(self) -> None:
        """Cancel running statements, wait until they have ended, and close the engine."""
        pools = (self._inserts, self._queries, self._readers, self._pings)
        ends = [asyncio.to_thread(pool.shutdown, wait=True, cancel_futures=True) for pool in pools]
        ended = asyncio.gather(*ends)
        while not (await asyncio.wait({ended}, timeout=0.1))[0]:
            await asyncio.to_thread(self._engine.cancel)
        self._engine.close()

    async def _ping(self, http: web.Request) -> web.Response:
        # The engine runs it, in a thread that no report can block: no response means that the engine hangs, not that it
        # is busy.
        with suppress(EngineError):
            await asyncio.get_running_loop().run_in_executor(self._pings, self._engine.run, _PING)
        return await _ok(http)

    async def _handle(self, http: web.Request) -> web.StreamResponse:
        query_id = http.query.get("query_id") or str(uuid.uuid4())
        try:
            if not _QUERY_ID.match(query_id):
                query_id = ""
                raise StatementError(36, "BAD_ARGUMENTS", "query_id is 1 to 64 letters, digits, dots, dashes and _.")
            return await self._answer(http, query_id)
        except (EngineError, StatementError, AccessDeniedError, OSError) as exc:
            if isinstance(exc, OSError):
                if exc.errno != errno.ENOSPC:
                    raise
                exc = EngineError(f"Code: 243. DB::Exception: {exc} (NOT_ENOUGH_SPACE)")
            headers = {"X-ClickHouse-Query-Id": query_id, "X-ClickHouse-Exception-Code": str(exc.code)}
            return web.Response(status=status_of(exc.code), text=f"{exc}\n", headers=headers)

    async def _answer(self, http: web.Request, query_id: str) -> web.StreamResponse:
        user = self._authenticated(http)
        with tempfile.SpooledTemporaryFile(_SPOOL_BYTES, dir=str(self._spool)) as body:
            fields = await take_in(http, user, body)
            statement = (
                await asyncio.to_thread(read_statement, body) if body.tell() > _HEAVY_BYTES else read_statement(body)
            )
            request = request_of(http, user, fields, statement, query_id)
            if not request.statement.verb:
                return await _ok(http)
            answer = await self._run(request, body)
        return await _send(http, request, answer)

    def _authenticated(self, http: web.Request) -> EngineUser:
        # A web page in a browser on this machine must not reach the engine: neither cross-origin nor by DNS rebinding
        # (a name that resolves to 127.0.0.1).
        for name in ("Host", "Origin"):
            if name in http.headers and not is_loopback(http.headers[name]):
                raise StatementError(
                    516, "AUTHENTICATION_FAILED", f"{name} {http.headers[name][:80]!r} is not this machine."
                )
        user = matching_user(self._users, *credentials(http.headers, http.query))
        if user is None:
            raise StatementError(
                516, "AUTHENTICATION_FAILED", "Authentication failed: there is no such user, or the password is wrong."
            )
        return user

    async def _run(self, request: Request, body: IO[bytes]) -> Answer:
        loop = asyncio.get_running_loop()
        if request.statement.data_at is None:
            try:
                threads = self._readers if request.role else self._queries
                return await loop.run_in_executor(threads, self._engine.run, request)
            except asyncio.CancelledError:  # the client disconnected
                if request.statement.reads_only:
                    loop.run_in_executor(None, self._engine.cancel, request.query_id)
                raise
        body.seek(request.statement.data_at)
        insert = loop.run_in_executor(self._inserts, self._engine.insert, request, body)
        try:
            return await asyncio.shield(insert)
        except asyncio.CancelledError:
            # The file with the rows must stay open until the engine has finished.
            await asyncio.wait({insert})
            raise


async def _send(http: web.Request, request: Request, answer: Answer) -> web.StreamResponse:
    insert = request.statement.data_at is not None
    shape = request.default_format if insert else request.statement.format or request.default_format
    response = web.StreamResponse(
        headers={
            "Content-Type": content_type(shape),
            "X-ClickHouse-Format": shape,
            "X-ClickHouse-Query-Id": request.query_id,
            "X-ClickHouse-Server-Display-Name": "newsproof-embedded",
            "X-ClickHouse-Summary": answer.summary,
            "X-ClickHouse-Timezone": "UTC",
        }
    )
    response.content_length = answer.size
    await response.prepare(http)
    for piece in answer.pieces():
        await response.write(piece)
    await response.write_eof()
    return response


async def _ok(_: web.Request) -> web.Response:
    return web.Response(text="Ok.\n")


async def _options(_: web.Request) -> web.Response:
    # No Access-Control headers: pages of other origins have no access.
    return web.Response(status=204, headers={"Allow": "GET, HEAD, OPTIONS, POST"})


def runner_of(app: web.Application, *, idle_s: float = IDLE_S) -> web.AppRunner:
    """Return the server of ``app``. Clients have ``idle_s`` seconds to send a head, on new and on idle connections."""
    return web.AppRunner(
        app,
        access_log=None,
        auto_decompress=False,
        handler_cancellation=True,
        shutdown_timeout=_SHUTDOWN_S,
        keepalive_timeout=idle_s,
        read_bufsize=1024 * 1024,
        # Like a ClickHouse server's http_max_uri_size: clients put parameter values into the URL.
        max_line_size=1024 * 1024,
    )


async def serve(engine: Engine, listener: socket.socket, users: list[EngineUser], spool: Path) -> None:
    """Serve until SIGTERM or SIGINT; then give requests 5 s to end, cancel the rest, and close the engine.

    ``spool`` is the directory for bodies that are too long for memory.
    """
    loop, ending = asyncio.get_running_loop(), asyncio.Event()
    front = Front(engine, users, spool)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ending.set)
    runner = runner_of(front.application())
    await runner.setup()
    try:
        await web.SockSite(runner, listener, backlog=512).start()
        print(f"ClickHouse listens on http://127.0.0.1:{listener.getsockname()[1]}", file=sys.stderr, flush=True)
        await ending.wait()
    finally:
        await runner.cleanup()
        await front.close()
