"""Client of the reading process: starts it at the first page, kills it if a page takes too long, and restarts it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import msgspec
import structlog

from infra.http import quoted
from infra.pages.reader_messages import (
    LENGTH,
    MAX_ANSWER_BYTES,
    Broken,
    PageAnswer,
    PageRequest,
    RulesAnswer,
    RulesRequest,
)
from schemas.errors import FailureKind, PermanentError, TransientError

MEMORY_BYTES = 1024 * 1024 * 1024
"""Address space limit of the process, if the platform supports one. A page of 4 MiB of tags takes a third of it."""
START_WITHIN_S = 60.0
_PROJECT = Path(__file__).resolve().parents[2]
_ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""The only environment variables that the process gets; none of them holds a key."""
_Answer = TypeVar("_Answer")
_PAGE: msgspec.msgpack.Decoder[PageAnswer | Broken] = msgspec.msgpack.Decoder(PageAnswer | Broken)
_RULES: msgspec.msgpack.Decoder[RulesAnswer | Broken] = msgspec.msgpack.Decoder(RulesAnswer | Broken)
"""Decoders that reject a response to another kind of request."""
_log = structlog.get_logger(__name__)


class Reader:
    """Sends requests to the reading process one at a time, in their order. Belongs to one event loop."""

    module: ClassVar = "infra.pages.reader_process"
    max_answer_bytes: ClassVar = MAX_ANSWER_BYTES

    def __init__(self, limit_s: float, memory_bytes: int = MEMORY_BYTES) -> None:
        """``limit_s`` bounds each request, not counting its wait for other requests and for the process to start."""
        self._limit_s, self._memory_bytes = limit_s, memory_bytes
        self._turn = asyncio.Lock()
        self._closed = False
        self._process: asyncio.Task[Process] | None = None
        self._killed: set[asyncio.Task[int]] = set()

    async def page(self, asked: PageRequest) -> PageAnswer:
        """Return the content of a page.

        Raises:
            PermanentError: timeout (parsing takes too long), or invalid_output (the page breaks the parser).
            TransientError: internal (the process does not start, or :meth:`close` was called in the meantime).
        """
        return await self._ask(asked, _PAGE) if asked.body else PageAnswer(asks_if_human=False)

    async def allows(self, rules: bytes, url: str) -> bool:
        """Return whether a site's robots.txt lets our robot open the URL. Raises as :meth:`page`."""
        return (await self._ask(RulesRequest(rules=rules, url=url), _RULES)).allowed

    async def close(self) -> None:
        """End the process for good: pending and running requests fail with a transient error. Idempotent."""
        self._closed = True
        starting, self._process = self._process, None
        if starting is not None:
            starting.cancel()
            with contextlib.suppress(asyncio.CancelledError, TransientError):
                self._kill(await starting)
        await asyncio.gather(*self._killed)

    async def _ask(self, asked: Any, decoder: msgspec.msgpack.Decoder[_Answer | Broken]) -> _Answer:
        async with self._turn:
            if self._closed:
                raise _closed()
            process = await self._running()
            answered: _Answer | Broken | None = None
            try:
                async with asyncio.timeout(self._limit_s):
                    answered = decoder.decode(
                        await _exchange(process, msgspec.msgpack.encode(asked), self.max_answer_bytes)
                    )
            except TimeoutError as exc:
                raise self._unread(asked, f"takes longer than {self._limit_s:g} s to read", "timeout") from exc
            except (EOFError, OSError, msgspec.MsgspecError) as exc:
                if self._closed:
                    raise _closed() from exc
                raise self._unread(asked, "takes too much memory to read, or ends the process that reads it") from exc
            finally:
                if answered is None:
                    # Also if the caller was cancelled: a late response would be taken for that to the next request.
                    self._process = None
                    self._kill(process)
        if isinstance(answered, Broken):
            raise self._unread(asked, f"breaks what reads it ({quoted(answered.error, 60)})")
        return answered

    async def _running(self) -> Process:
        if self._process is not None and self._process.done():
            failed = self._process.cancelled() or self._process.exception() is not None
            if failed or self._process.result().returncode is not None:
                self._process = None
        if self._process is None:
            self._process = asyncio.create_task(self._start(), name="start of the reading process")
        # Shielded, so that a caller that is cancelled does not cancel the start that others wait for.
        try:
            return await asyncio.shield(self._process)
        except asyncio.CancelledError:
            asker = asyncio.current_task()
            if self._closed and asker is not None and not asker.cancelling():
                raise _closed() from None  # the start was cancelled, not the caller that waits for it
            raise

    async def _start(self) -> Process:
        path = os.pathsep.join(filter(None, (str(_PROJECT), os.environ.get("PYTHONPATH"))))
        process: Process | None = None
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", self.module),
                *(str(2 * self._limit_s), str(self._memory_bytes)),
                stdin=PIPE,
                stdout=PIPE,
                env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ} | {"PYTHONPATH": path},
                start_new_session=True,  # Ctrl-C reaches only the worker, which then closes this process
            )
            async with asyncio.timeout(START_WITHIN_S):
                await _answer(process, self.max_answer_bytes)
        except BaseException as exc:
            if process is not None:
                self._kill(process)
            if not isinstance(exc, TimeoutError | EOFError | OSError):
                raise
            raise TransientError(
                "the process that reads pages did not start; its error messages are in this process's error output",
                kind="internal",
            ) from exc
        return process

    def _kill(self, process: Process) -> None:
        assert process.stdin is not None
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        if not process.stdin.transport.is_closing():
            process.stdin.transport.abort()  # drop input that was not sent yet
        ended = asyncio.create_task(process.wait())
        self._killed.add(ended)
        ended.add_done_callback(self._killed.discard)

    def _unread(self, asked: Any, why: str, kind: FailureKind = "invalid_output") -> PermanentError:
        what = "the robots.txt for " if isinstance(asked, RulesRequest) else ""
        _log.warning("page_unread", url=quoted(asked.url, 200), what=what, why=why)
        return PermanentError(f"{what}{quoted(asked.url, 120)} {why}; the page is left out", kind=kind)


def _closed() -> TransientError:
    return TransientError(
        "the process that reads pages was closed; the page can be read after a start", kind="internal"
    )


async def _exchange(process: Process, message: bytes, max_bytes: int) -> bytes:
    assert process.stdin is not None
    process.stdin.write(LENGTH.pack(len(message)))
    process.stdin.write(message)
    await process.stdin.drain()
    return await _answer(process, max_bytes)


async def _answer(process: Process, max_bytes: int) -> bytes:
    assert process.stdout is not None
    (length,) = LENGTH.unpack(await process.stdout.readexactly(LENGTH.size))
    if length > max_bytes:
        raise EOFError("no answer of ours is as long")
    return await process.stdout.readexactly(length)
