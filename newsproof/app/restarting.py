"""Restart of embedded servers: one that dies or hangs under a running pipeline is restarted at the same address."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from infra.embedded.child import disk_is_full
from schemas.errors import ConfigError

BACKOFF_S = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
STEADY_S = 60.0
"""A process that ran this long counts as recovered: its next restart has the short delay again."""
ASK_EVERY_S = 5.0
"""Interval of the checks of a running server, and the timeout of each check."""
HANGS_AFTER = 3
"""Consecutive checks without a response after which a server counts as hung. Checks are counted and not seconds,
because this process may itself have been stopped (Ctrl-Z, a laptop that slept). Then it misses at most one check."""
_POLL_S = 0.05


class Backoff:
    """Growing delays between restarts. Short again after a long run."""

    def __init__(self) -> None:
        self._failures = 0

    def after_run_of(self, ran_s: float) -> float:
        """Return the delay, in seconds, before the restart of a process that ran this long."""
        self._failures = 0 if ran_s > STEADY_S else self._failures
        wait = BACKOFF_S[min(self._failures, len(BACKOFF_S) - 1)]
        self._failures += 1
        return wait


def for_want_of_room(directory: Path) -> str:
    """Return " because its disk is full" if it is full, which then most likely ended the process."""
    return " because its disk is full" if disk_is_full(directory) else ""


class EmbeddedServer(Protocol):
    """An embedded server that restarts at its former address."""

    data_dir: Path

    @property
    def running(self) -> bool: ...

    async def responds(self) -> bool: ...

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    def kill(self) -> None: ...


class KeptServer:
    """One embedded server of this command. ``again`` returns its successor, with the same port and directory."""

    def __init__(self, name: str, server: EmbeddedServer, again: Callable[[], EmbeddedServer] | None = None) -> None:
        self.name = name
        self.server = server
        self.restarts = 0
        self._again = again

    async def keep(self, say: Callable[[str], None]) -> None:
        """Restart it with backoff whenever it ends or hangs, until cancelled.

        Meanwhile, clients wait and find it at the same address. A restart that fails is retried without limit, and each
        reason is reported, because clients keep their work in the log.
        """
        loop = asyncio.get_running_loop()
        backoff = Backoff()
        while True:
            started = loop.time()
            why = await self._end()
            wait = backoff.after_run_of(loop.time() - started)
            say(f"the embedded {self.name} {why}; restarting it in {wait:g} s")
            await asyncio.sleep(wait)
            self.restarts += 1
            await self._start(say)

    async def _end(self) -> str:
        """Wait for its end; return the reason in words. A hung server is killed: its clients' work is in the log."""
        hanging = asyncio.create_task(self._hangs())
        try:
            # Polled: another event loop may have started the child, so its end sends no event.
            while self.server.running and not hanging.done():  # noqa: ASYNC110
                await asyncio.sleep(_POLL_S)
        finally:
            hanging.cancel()
        if not self.server.running:
            return f"ended{for_want_of_room(self.server.data_dir)}"
        hanging.result()
        self.server.kill()
        return f"did not respond for {HANGS_AFTER * ASK_EVERY_S:g} s and was killed"

    async def _hangs(self) -> None:
        """Return when several consecutive checks had no response."""
        silent = 0
        while silent < HANGS_AFTER:
            _, answered = await asyncio.gather(asyncio.sleep(ASK_EVERY_S), self._responds())
            silent = 0 if answered else silent + 1

    async def _responds(self) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(ASK_EVERY_S):
                return await self.server.responds()
        return False

    async def _start(self, say: Callable[[str], None]) -> None:
        began = asyncio.get_running_loop().time()
        self.server.kill()  # releases the dead process's resources
        if self._again is not None:
            self.server = self._again()
        try:
            await self.server.start()
        except (ConfigError, OSError) as exc:  # OSError: no space for its files on the disk
            say(f"the embedded {self.name} did not restart: {exc}")
            return
        say(f"the embedded {self.name} is running again after {asyncio.get_running_loop().time() - began:.1f} s")

    async def stop(self) -> None:
        """Shut it down cleanly."""
        await self.server.stop()
