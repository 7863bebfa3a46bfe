"""Sources of news on a free port of 127.0.0.1, whose content may change at any time."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Self

import msgspec
from aiohttp import web

_ENDS_WITHIN_S = 0.1
Socket = Callable[[web.WebSocketResponse], Awaitable[None]]
"""Serves one connection; it ends with the call."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    body: bytes
    status: int = 200
    content_type: str = "application/json"
    headers: Mapping[str, str] = {}


class SourceServer:
    """Serves while it is entered. ``says(path)`` is what the path answers now, None: 404; ``sockets`` are those by path.

    Each answer of status 200 has an ETag; whoever sends it back gets 304 while the answer is the same.
    """

    def __init__(self, says: Callable[[str], Answer | None], sockets: Mapping[str, Socket] | None = None) -> None:
        self._says, self._sockets = says, sockets or {}
        self.url = ""

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_get("/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=_ENDS_WITHIN_S)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        path = request.match_info["path"]
        if path in self._sockets:
            ws = web.WebSocketResponse()
            await ws.prepare(request)
            await self._sockets[path](ws)
            await ws.close()
            return ws
        if (said := self._says(path)) is None:
            return web.Response(status=404)
        tag = f'"{hashlib.sha256(said.body).hexdigest()[:32]}"'
        if said.status != 200:
            return web.Response(
                body=said.body, status=said.status, headers=said.headers, content_type=said.content_type
            )
        if request.headers.get("If-None-Match") == tag:
            return web.Response(status=304, headers={"ETag": tag})
        return web.Response(body=said.body, headers={"ETag": tag, **said.headers}, content_type=said.content_type)
