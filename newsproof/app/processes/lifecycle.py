"""Life cycle of a long-running process: start, run until a signal or until a component ends, shut down cleanly."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from schemas.errors import TransientError

Part = tuple[Callable[[], Coroutine[Any, Any, None]], Callable[[], Any] | None]
"""Functions that run and stop a component; None: it is cancelled."""


def shutdown_on_signal() -> asyncio.Event:
    """Return the event that SIGINT and SIGTERM set from now on."""
    # Called before anything is opened, so that a signal during startup also shuts down cleanly. A startup that hangs
    # must be ended with SIGKILL, which the log makes harmless.
    signalled = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, signalled.set)
    return signalled


async def run_until(signalled: asyncio.Event, *parts: Part) -> None:
    """Run the components concurrently. On a signal, or when one of them ends, stop all in the given order.

    Raises:
        NewsproofError: the error of a component that ended.
        TransientError: a component ended without a request.
    """
    running = [asyncio.create_task(run()) for run, _ in parts]
    stopped = asyncio.create_task(signalled.wait())
    unasked: list[asyncio.Task[None]] = []
    try:
        await asyncio.wait({*running, stopped}, return_when=asyncio.FIRST_COMPLETED)
        unasked = [task for task in running if task.done() and not signalled.is_set()]
    finally:
        stopped.cancel()
        for (_, end), task in zip(parts, running, strict=True):
            if not task.done():
                ended = task.cancel() if end is None else end()
                if isinstance(ended, Awaitable):
                    await ended
            with contextlib.suppress(BaseException):
                await task
    for task in running:
        if not task.cancelled():
            task.result()
    if unasked:
        which = ", ".join(task.get_coro().__qualname__ for task in unasked)  # type: ignore[union-attr]
        raise TransientError(f"{which} ended unexpectedly: start the service again", kind="internal")
