"""The web service as a process: built from settings, runs until a signal, shuts down cleanly."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

import structlog
from fastapi import FastAPI
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from infra.settings import Settings
from newsproof.app.processes.lifecycle import run_until
from newsproof.app.version import VERSION
from newsproof.web import pages
from newsproof.web.api import (
    analytics,
    bots,
    investigations,
    live,
    news,
    operations,
    prices,
    research,
    sources,
)
from newsproof.web.backend import Backend
from newsproof.web.guard import MCP_PATH, Guard
from newsproof.web.limits import Rates
from newsproof.web.responses import answer_errors
from newsproof.web.server import address_at, opened, server_of
from newsproof.web.tokens import Tokens, opened_with, token_of


def application(backend: Backend, token: str) -> ASGIApp:
    """Return the application over these components. Clients must present ``token``."""
    tokens = Tokens(token, Rates(backend.settings.web_requests_per_minute))
    app = unguarded(backend)
    app.state.tokens = tokens
    app.router.routes.append(Route(MCP_PATH, _Agents(app), methods=["POST"], include_in_schema=False))
    return Guard(app, backend.settings, tokens)


class _Agents:
    """The route of agents. The protocol's library loads at the first request: few pages ever need it."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app
        self._server: Any = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        protocol = await asyncio.to_thread(import_module, "newsproof.web.mcp_server")
        if self._server is None:
            self._server = protocol.server_of(self._app)
        await protocol.serve_request(self._server, scope, receive, send)


def unguarded(backend: Backend) -> FastAPI:
    """Return the API over these components, for callers in this process: nothing checks who asks."""
    app = FastAPI(
        title="Newsproof",
        version=VERSION,
        description="Trading signals from crypto news, verified by search: signals, the cases behind them, a research chat, and investigations.",
        docs_url=None,
        redoc_url=None,
    )
    app.state.backend = backend
    answer_errors(app, pages.wrong_address)
    asked = (live.router, news.router, news.verification, prices.router, research.router)
    kept = (investigations.router, investigations.watching, analytics.router, operations.router, sources.router)
    for router in (*asked, *kept, bots.router, pages.router):
        app.include_router(router)
    return app


log = structlog.get_logger(__name__)


def print_address(address: str) -> None:
    print(f"Newsproof's page: {address}", file=sys.stdout, flush=True)


async def serve(
    settings: Settings,
    ending: asyncio.Event,
    *,
    listening: socket.socket | None = None,
    tell: Callable[[str], None] = print_address,
) -> None:
    """Serve until ``ending`` is set. Then end open streams, give running requests some seconds, and close Kafka.

    ``listening`` is the socket to serve, and is closed at the end; None opens the socket of the settings.
    ``tell`` receives the address for a person. It includes the stored token only if standard output is a terminal.

    Raises:
        NewsproofError: the port cannot be opened, the token or certificate cannot be used, or a component failed.
        TransientError: a component ended without a request.
    """
    token = token_of(settings)
    backend = Backend(settings)
    server = server_of(application(backend, token), settings)
    served = opened(settings) if listening is None else listening

    async def serving() -> None:
        await server.serve(sockets=[served])

    def stop_serving() -> None:
        backend.ending.set()
        server.should_exit = True

    address = address_at(settings, served)
    tell(opened_with(address, settings, token, terminal=sys.stdout.isatty()))
    log.info("web starts", address=address, mode=settings.mode)
    try:
        await run_until(ending, (serving, stop_serving), (backend.run, backend.stop))
    finally:
        served.close()
    log.info("web ended in order")
