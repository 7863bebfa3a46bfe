"""The web service as a process: built from settings, run until a signal, shut down in order."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Callable

import structlog

from infra.settings import Settings
from newsproof.app.lifecycle import run_until
from newsproof.web.app import application
from newsproof.web.backend import Backend
from newsproof.web.server import address_at, opened, server_of
from newsproof.web.tokens import opened_with, token_of

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

    ``listening`` is the socket to serve, and is closed at the end; None opens that of the settings.
    ``tell`` receives the address for a person. It holds the stored token only if standard output is a terminal.

    Raises:
        NewsproofError: the port cannot be opened, the token or certificate cannot be used, or a part failed.
        TransientError: a part ended without being asked to.
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
