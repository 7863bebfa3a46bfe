"""Shutdown of a worker: the one object through which any component can end it."""

from __future__ import annotations

import asyncio
from typing import Any


class Ending:
    """Set once: by a shutdown request or by a fatal error, whichever comes first."""

    def __init__(self) -> None:
        self._over = asyncio.Event()
        self.error: BaseException | None = None

    @property
    def over(self) -> bool:
        """True if the worker must end."""
        return self._over.is_set()

    def stop(self) -> None:
        """Request a clean shutdown."""
        self._over.set()

    def fail(self, exc: BaseException) -> None:
        """End with this error. Has no effect if a shutdown or an error was set before."""
        if not self._over.is_set():
            self.error = exc
            self._over.set()

    def watch(self, task: asyncio.Task[Any]) -> None:
        """End with the error that ends this task, if one does."""
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        if not task.cancelled() and (exc := task.exception()) is not None:
            self.fail(exc)

    async def wait(self) -> None:
        """Wait for a shutdown request.

        Raises:
            BaseException: the error given to :meth:`fail`.
        """
        await self._over.wait()
        if self.error is not None:
            raise self.error
