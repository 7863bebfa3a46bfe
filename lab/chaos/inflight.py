"""Calls in flight: a worker's provider calls without a durable result, counted in a file that survives the process.

The count is independent of the log: a call begins when the adapter is about to send it, and ends with the task that
appends its result. The counters are memory-mapped, so a SIGKILL preserves them. A call is *exposed* (it may be paid
again) when its process dies, when its task is cancelled, when it outlives the grace of a rebalance, or when its process
was frozen. In the last case others have taken over, so every call that the thawed process begins before it notices is
exposed as well.
"""

from __future__ import annotations

import asyncio
import mmap
import os
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import msgspec

_FIELDS = 4
_STARTED, _OPEN, _EXPOSED, _PUBLISHING = range(_FIELDS)
_BYTES = 8 * _FIELDS


class Counters(msgspec.Struct, frozen=True):
    """The content of the file. ``open`` counts calls in flight that are not exposed yet."""

    started: int = 0
    open: int = 0
    exposed: int = 0
    publishing: bool = False

    @property
    def at_death(self) -> int:
        """Number of exposed calls once the process is dead."""
        return self.open + self.exposed


def read_counters(path: Path) -> Counters:
    """Read the file of a process, alive or dead; zeros if it never started."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return Counters()
    values = memoryview(raw.ljust(_BYTES, b"\0")[:_BYTES]).cast("Q")
    return Counters(values[_STARTED], values[_OPEN], values[_EXPOSED], bool(values[_PUBLISHING]))


class _Work:
    """The calls of one step's task."""

    __slots__ = ("exposed", "open")

    def __init__(self) -> None:
        self.open = 0
        self.exposed = False


_current: ContextVar[_Work | None] = ContextVar("chaos_work", default=None)


class InFlight:
    """The writer, one per process."""

    def __init__(self, path: Path) -> None:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        os.ftruncate(fd, _BYTES)
        self._counts = memoryview(mmap.mmap(fd, _BYTES)).cast("Q")
        os.close(fd)
        self._works: set[_Work] = set()
        self._frozen = False

    def work_begins(self) -> None:
        """Register the current task, which will make the call and append its result."""
        task = asyncio.current_task()
        assert task is not None
        work = _Work()
        _current.set(work)
        self._works.add(work)
        task.add_done_callback(lambda done: self._work_ended(work, done))

    def call_begins(self) -> None:
        """Count a call; the adapter calls this before it sends."""
        self._counts[_STARTED] += 1
        work = _current.get()
        if work is None or work.exposed or self._frozen:
            self._counts[_EXPOSED] += 1
        else:
            work.open += 1
            self._counts[_OPEN] += 1

    def thawed(self) -> None:
        """Record that the process was frozen: others may have taken over its work long ago."""
        self._frozen = True
        self._expose_all()

    def drained(self) -> None:
        """Record that the grace of a rebalance has passed. From now on this process knows its own partitions."""
        self._expose_all()
        self._frozen = False

    def publishing(self, active: bool) -> None:
        """Record whether this process holds the publisher's lease."""
        self._counts[_PUBLISHING] = int(active)

    def _expose_all(self) -> None:
        for work in self._works:
            self._expose(work)

    def _expose(self, work: _Work) -> None:
        self._counts[_OPEN] -= work.open
        self._counts[_EXPOSED] += work.open
        work.open, work.exposed = 0, True

    def _work_ended(self, work: _Work, task: asyncio.Task[Any]) -> None:
        self._works.discard(work)
        if task.cancelled() or task.exception() is not None:
            self._expose(work)
        else:
            self._counts[_OPEN] -= work.open
