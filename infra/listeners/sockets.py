"""Connections to sources that send their news over a WebSocket."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from infra.http import quoted, tls_context
from infra.listeners.failures import NotReadError, of_status
from infra.listeners.source import Source
from infra.pages.guard import Guard
from schemas.errors import PermanentError, TransientError

MAX_MESSAGE_BYTES = 1024 * 1024
CONNECT_WITHIN_S = 20.0
HEARTBEAT_S = 30.0
"""Interval of our pings. A connection without a pong is dropped after half of this time."""


class _GuardedResolver(AbstractResolver):
    """Returns only addresses that the guard allows; aiohttp uses no others. IP literals are checked with the URL."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard

    async def resolve(self, host: str, port: int = 0, family: int = socket.AF_INET) -> list[ResolveResult]:
        found = await self._guard.numbers(host, port)
        return [
            ResolveResult(
                hostname=host, host=str(one), port=port, proto=0, flags=socket.AI_NUMERICHOST,
                family=socket.AF_INET6 if one.version == 6 else socket.AF_INET,
            )
            for one in found
        ]  # fmt: skip

    async def close(self) -> None: ...


async def _refuse_redirect(*_: object) -> None:
    # No resolver checks literal addresses, and a row's headers may contain a key.
    raise NotReadError("it redirects, and sockets follow no redirects", "not_opened")


@asynccontextmanager
async def connected(source: Source, guard: Guard) -> AsyncIterator[AsyncIterator[bytes]]:
    """Yield the messages of one connection, until it ends.

    Raises:
        NotReadError: there is no connection, it breaks, or the server redirects.
    """
    trace = aiohttp.TraceConfig()
    trace.on_request_redirect.append(_refuse_redirect)
    try:
        guard.target(source.url.replace("ws", "http", 1))
        connector = aiohttp.TCPConnector(resolver=_GuardedResolver(guard), ssl=tls_context())
        timeout = aiohttp.ClientTimeout(total=None, connect=CONNECT_WITHIN_S)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout, trace_configs=[trace]) as session:
            async with asyncio.timeout(CONNECT_WITHIN_S):
                ws = await session.ws_connect(
                    source.url, headers=source.headers, heartbeat=HEARTBEAT_S, max_msg_size=MAX_MESSAGE_BYTES
                )
            async with ws:
                if source.subscribe:
                    await ws.send_str(source.subscribe)
                yield _messages(ws, source)
    except PermanentError as exc:
        raise NotReadError(str(exc), "not_opened") from exc
    except aiohttp.WSServerHandshakeError as exc:
        raise NotReadError(
            f"it answers with status {exc.status}", of_status(exc.status, has_key=bool(source.key))
        ) from exc
    except (TransientError, aiohttp.ClientError, OSError, TimeoutError) as exc:
        said = quoted(f"{type(exc).__name__}: {exc}".rstrip(": "))
        raise NotReadError(f"no connection to {urlsplit(source.url).netloc} ({said})", "no_connection") from exc


async def _messages(ws: aiohttp.ClientWebSocketResponse, source: Source) -> AsyncIterator[bytes]:
    async for message in ws:
        if message.type not in (aiohttp.WSMsgType.TEXT, aiohttp.WSMsgType.BINARY):
            break
        body = message.data.encode("utf-8", "replace") if isinstance(message.data, str) else message.data
        if source.ping and body.strip() == source.ping.encode():
            await ws.send_str(source.pong)
        else:
            yield body
