"""The web service as a process: made from settings, run until a signal, ended in order."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable

import structlog

from infra.settings import Settings
from newsproof.services import heed_signals
from newsproof.web.app import application
from newsproof.web.backend import Backend
from newsproof.web.server import address_at, opened, server_of
from schemas.errors import TransientError

log = structlog.get_logger(__name__)


def print_address(address: str) -> None:
    """Say on standard output where the page is."""
    print(f"Newsproof's page: {address}", file=sys.stdout, flush=True)


async def run_web(settings: Settings, *, tell: Callable[[str], None] = print_address) -> None:
    """Serve the API and the page until SIGINT or SIGTERM. ``tell`` is called with the address once it is open.

    Raises:
        NewsproofError: what a person must mend.
    """
    signalled = heed_signals()
    await serve(settings, signalled, tell=tell)


async def serve(settings: Settings, ending: asyncio.Event, *, tell: Callable[[str], None] = print_address) -> None:
    """Serve until ``ending`` is set: open streams are ended, requests under way get some seconds, then Kafka is let go.

    Raises:
        NewsproofError: the port cannot be opened, or a part ended with it.
        TransientError: a part ended although nobody asked it to.
    """
    listening = opened(settings)
    backend = Backend(settings)
    server = server_of(application(backend))
    parts = [
        asyncio.create_task(backend.run(), name="backend"),
        asyncio.create_task(server.serve(sockets=[listening]), name="server"),
    ]
    asked = asyncio.create_task(ending.wait())
    tell(address_at(settings, listening))
    log.info("web starts", address=address_at(settings, listening), mode=settings.mode)
    try:
        await asyncio.wait({*parts, asked}, return_when=asyncio.FIRST_COMPLETED)
        unasked = [task for task in parts if task.done() and not ending.is_set()]
    finally:
        asked.cancel()
        backend.ending.set()
        server.should_exit = True
        with contextlib.suppress(BaseException):
            await parts[1]
        parts[0].cancel()
        with contextlib.suppress(BaseException):
            await parts[0]
        listening.close()
    for task in parts:
        if not task.cancelled() and (failed := task.exception()) is not None:
            raise _first_of(failed)
    if unasked:
        raise TransientError(f"{unasked[0].get_name()} ended although nobody asked it to: start the service again")
    log.info("web ended in order")


def _first_of(exc: BaseException) -> BaseException:
    """Return what a person can mend out of a group of parts that fell together."""
    while isinstance(exc, BaseExceptionGroup):
        exc = exc.exceptions[0]
    return exc
