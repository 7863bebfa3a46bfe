"""How a worker ends: the one object through which any of its parts can end it."""

from __future__ import annotations

import asyncio


class Ending:
    """Set once, by whatever comes first: a request to end, or the error that the worker cannot go on from."""

    def __init__(self) -> None:
        self._over = asyncio.Event()
        self.error: BaseException | None = None

    @property
    def over(self) -> bool:
        """Whether the worker is to end."""
        return self._over.is_set()

    def stop(self) -> None:
        """Ask for a clean end."""
        self._over.set()

    def fail(self, exc: BaseException) -> None:
        """End with this error, unless the end was set before."""
        if not self._over.is_set():
            self.error = exc
            self._over.set()

    async def wait(self) -> None:
        """Return when a clean end is asked for.

        Raises:
            BaseException: the error given to :meth:`fail`.
        """
        await self._over.wait()
        if self.error is not None:
            raise self.error
