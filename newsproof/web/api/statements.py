"""Limits of slow statements: few at once, cancelled when the client disconnects, and with a timeout."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import TypeVar

from starlette.requests import Request

from newsproof.web.responses import Refused, left
from schemas.errors import TransientError

PLACE_WITHIN_S = 5.0
"""Longest wait of a statement for another one to end."""
WITHIN_S = 90.0
T = TypeVar("T")


async def with_timeout(work: Awaitable[T]) -> T:
    """Return the answer of ClickHouse.

    Raises:
        TransientError: it took longer than ``WITHIN_S``.
    """
    try:
        async with asyncio.timeout(WITHIN_S):
            return await work
    except TimeoutError as exc:
        raise TransientError(
            "ClickHouse did not respond in time: request less data, or try again", kind="timeout"
        ) from exc


@asynccontextmanager
async def held_slot(slots: asyncio.Semaphore) -> AsyncIterator[None]:
    """Hold one of the slots.

    Raises:
        Refused: no slot became free within ``PLACE_WITHIN_S``.
    """
    try:
        async with asyncio.timeout(PLACE_WITHIN_S):
            await slots.acquire()
    except TimeoutError as exc:
        do = "try again when one of them has finished"
        raise Refused(503, "other statements are running", do, retry_after=str(int(PLACE_WITHIN_S))) from exc
    try:
        yield
    finally:
        slots.release()


async def unless_disconnected(request: Request, work: Awaitable[T]) -> T:
    """Return the result of ``work``; cancel it if the client disconnects.

    Raises:
        Refused: the client has disconnected.
    """
    working, gone = asyncio.ensure_future(work), asyncio.ensure_future(left(request.receive))
    try:
        await asyncio.wait({working, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise Refused(499, "the client has disconnected", "send the request again")
        return working.result()
    finally:
        for task in (working, gone):
            task.cancel()
        await asyncio.gather(working, gone, return_exceptions=True)
