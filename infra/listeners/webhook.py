"""News that publishers push: ``POST /hooks/SOURCE``, signed as Standard Webhooks.

https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md: the signature is the
HMAC-SHA256 of ``id.timestamp.body``. ``webhook-signature`` has several signatures, as ``v1,BASE64``, while a secret is
being changed. Each hook has a secret of its own, so a publisher of one source cannot send news for another.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler

from schemas.errors import ConfigError, ContractError
from schemas.news import MAX_RECORD_BYTES

TOLERANCE_S = 300.0
"""Maximum difference in seconds between a webhook's timestamp and our clock."""
HEAD_WITHIN_S = 10.0
"""Seconds within which a connection must send the head of its request."""
BODY_WITHIN_S = 10.0
MOST_CONNECTIONS = 64
"""Maximum number of open connections, each with a body of at most 1 MiB. Further ones are closed at once."""
_SOURCE = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
Accept = Callable[[bytes], Awaitable[None]]
"""Accepts a record for ``news``; returns once it is durable. Raises ContractError if it is not valid news."""


def keys_of_hooks(written: str) -> dict[str, bytes]:
    """Return source → key from the setting's text, such as ``desk=whsec_…,wire=whsec_…``.

    Raises:
        ConfigError: the text does not have this form. The error does not repeat a secret.
    """
    keys: dict[str, bytes] = {}
    for number, pair in enumerate(written.split(","), 1):
        source, _, secret = pair.strip().partition("=")
        if not _SOURCE.fullmatch(source) or source in keys:
            raise ConfigError(
                f"entry {number} of LISTENER_WEBHOOK_SECRET has no valid source, or repeats one: write SOURCE=whsec_…, "
                "with a comma between entries; SOURCE is 1 to 64 of a-z, 0-9, dot, underscore and hyphen"
            )
        keys[source] = key_of(secret)
    return keys


def key_of(secret: str) -> bytes:
    """Return the key of a secret such as ``whsec_…``.

    Raises:
        ConfigError: the secret does not have this form. The error does not repeat it.
    """
    try:
        key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not 24 <= len(key) <= 64:
        raise ConfigError(
            "LISTENER_WEBHOOK_SECRET has an invalid Standard Webhooks secret: write SOURCE=whsec_ and the base64 of 24 "
            "to 64 random bytes, such as from `echo SOURCE=whsec_$(openssl rand -base64 32)`"
        )
    return key


def signing_headers(key: bytes, name: str, at: datetime, body: bytes) -> dict[str, str]:
    """Return the headers of a webhook, signed as a sender does. ``name``: its ``webhook-id``."""
    stamp = str(int(at.timestamp()))
    signature = f"v1,{_signature(key, name, stamp, body).decode()}"
    return {"webhook-id": name, "webhook-timestamp": stamp, "webhook-signature": signature}


def _signature(key: bytes, name: str, at: str, body: bytes) -> bytes:
    return base64.b64encode(hmac.digest(key, f"{name}.{at}.".encode() + body, hashlib.sha256))


def why_not(key: bytes, headers: Mapping[str, str], body: bytes, now: datetime) -> str | None:
    """Return the reason to reject a webhook, None if it is authentic and recent."""
    name, at, signed = (headers.get(f"webhook-{header}", "") for header in ("id", "timestamp", "signature"))
    if not (name and at.isascii() and at.isdigit() and len(at) < 16 and signed):
        return "webhook-id, webhook-timestamp (seconds since 1970) and webhook-signature are needed"
    expected = _signature(key, name, at, body)
    given = [signature.partition(",")[2].encode() for signature in signed.split() if signature.startswith("v1,")]
    if not any(hmac.compare_digest(expected, signature) for signature in given):
        return "no signature in webhook-signature is valid"
    if abs(now.timestamp() - int(at)) > TOLERANCE_S:
        return f"webhook-timestamp differs from the server's time by more than {TOLERANCE_S:g} s"
    return None


def news_of_hook(source: str, name: str, body: bytes, now: datetime) -> bytes:
    """Return the record for ``news`` from a webhook's body: an object as `publish` accepts it, or one under ``data``.

    ``name``: the ``webhook-id``, which becomes the id of news without one. ``received_at`` is the time here.

    Raises:
        ContractError: the body contains no such object.
    """
    try:
        given: Any = json.loads(body)
    except (ValueError, RecursionError) as exc:
        raise ContractError("the body is not JSON: send an object with text", reason="not_json") from exc
    inner = given.get("data") if isinstance(given, dict) and "text" not in given else given
    if not isinstance(inner, dict):
        raise ContractError(
            "the body is not a news item: send an object with text, either directly or under data", reason="wrong_type"
        )
    fields = {n: v for n, v in inner.items() if n not in ("source", "received_at", "extra")}
    own = fields.pop("id", None)
    fields.setdefault("external_id", str(own) if isinstance(own, str | int) else name[:512])
    fields["published_at"] = fields.get("published_at") or now.isoformat()
    return json.dumps(fields | {"source": source, "received_at": now.isoformat()}).encode()


def application(keys: Mapping[str, bytes], accept: Accept) -> web.Application:
    """Return the service. ``keys``: source → the key that signs its webhooks; other sources have no hook.

    It responds with 202 once the news is durable, 401 without a valid signature by the source's key, 400 if the body is
    not valid news, 404 for an unknown hook, and 408 if the body does not arrive in time.
    """

    async def take(request: web.Request) -> web.Response:
        source = request.match_info["source"]
        if (key := keys.get(source)) is None:
            return web.Response(status=404, text="there is no such hook\n")
        try:
            async with asyncio.timeout(BODY_WITHIN_S):
                body = await request.read()
        except TimeoutError:
            return web.Response(status=408, text=f"the body did not arrive within {BODY_WITHIN_S:g} s\n")
        now = datetime.now(UTC)
        if (why := why_not(key, request.headers, body, now)) is not None:
            return web.Response(status=401, text=f"{why}\n")
        try:
            await accept(news_of_hook(source, request.headers["webhook-id"], body, now))
        except ContractError as exc:
            return web.Response(status=400, text=f"{exc}\n")
        return web.Response(status=202)

    app = web.Application(client_max_size=MAX_RECORD_BYTES)
    app.router.add_post("/hooks/{source}", take)
    return app


class HookServer:
    """Serves an application on a port. A connection has one request, and is closed if its head arrives too late."""

    def __init__(self, app: web.Application) -> None:
        self._waiting: dict[asyncio.BaseProtocol, asyncio.TimerHandle] = {}
        """Connections that have not sent a head yet, with the timer that closes them."""

        @web.middleware
        async def once(request: web.Request, handler: Handler) -> web.StreamResponse:
            if (late := self._waiting.pop(request.protocol, None)) is not None:
                late.cancel()
            try:
                response = await handler(request)
            except web.HTTPException as exc:
                response = web.Response(status=exc.status, text=f"{exc.reason}\n")
            response.force_close()
            return response

        app.middlewares.append(once)
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False)
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> int:
        """Open the port and return its number. Raises OSError if it cannot be opened."""
        await self._runner.setup()
        self._server = await asyncio.get_running_loop().create_server(self._connection, host, port)
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Close the port and the connections. Idempotent."""
        if self._server is not None:
            self._server.close()
        await self._runner.cleanup()

    def _connection(self) -> asyncio.BaseProtocol:
        server = self._runner.server
        assert server is not None
        if len(server.connections) >= MOST_CONNECTIONS:
            return _Full()
        made = server()
        self._waiting[made] = asyncio.get_running_loop().call_later(HEAD_WITHIN_S, self._cut_off, made)
        return made

    def _cut_off(self, made: Any) -> None:
        self._waiting.pop(made, None)
        if made.transport is not None:
            made.transport.abort()


class _Full(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.abort()
