"""Processes that a test may kill, forked from one that has imported the runtime: a start costs 20 ms instead of a second."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
from collections.abc import Callable, Coroutine
from multiprocessing.process import BaseProcess
from typing import Any

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(
    [
        "tests.streams.bots.bot_process",
        "tests.streams.budget.spender",
        "tests.streams.publish.publisher_process",
        "tests.streams.runtime.killer",
        "tests.streams.sink.sink_process",
    ]
)


def forked(work: Callable[..., Coroutine[Any, Any, Any]], *args: object) -> BaseProcess:
    """Run an async function in a process that nobody hears, and that ends with this one. Its arguments are pickled."""
    process = _FORKS.Process(target=_run, args=(work, *args), daemon=True)
    process.start()
    return process


async def exit_of(process: BaseProcess) -> int:
    """Wait for the process; return its status, which is negative if a signal ended it."""
    await asyncio.to_thread(process.join)
    assert process.exitcode is not None
    return process.exitcode


def _run(work: Callable[..., Coroutine[Any, Any, Any]], *args: object) -> None:
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    asyncio.run(work(*args))
