"""Calls in flight: what a worker has asked of providers without a durable result, in a file that outlives the process.

Independent of the log: a call begins when the adapter is about to send it and ends with the task that appends its result.
The counters are memory-mapped, so that a SIGKILL leaves them as they were. A call is *exposed* (it may be paid again) when
its process dies, when its task is cancelled, when it still runs after the grace of a rebalance, and when its process was
frozen: others have taken over, and until it notices everything that a thawed process starts is exposed as well.
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
    """What stands in the file. ``open`` counts calls in flight that are not exposed yet."""

    started: int = 0
    open: int = 0
    exposed: int = 0
    publishing: bool = False

    @property
    def at_death(self) -> int:
        """Exposed calls when the process is dead."""
        return self.open + self.exposed


def read_counters(path: Path) -> Counters:
    """Read the file of a process, alive or dead; zeros when it never began."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return Counters()
    values = memoryview(raw.ljust(_BYTES, b"\0")[:_BYTES]).cast("Q")
    return Counters(values[_STARTED], values[_OPEN], values[_EXPOSED], bool(values[_PUBLISHING]))


class _Work:
    """One task of a step: its calls so far."""

    __slots__ = ("exposed", "open")

    def __init__(self) -> None:
        self.open = 0
        self.exposed = False


_current: ContextVar[_Work | None] = ContextVar("chaos_work", default=None)


class InFlight:
    """The writer's side, one a process."""

    def __init__(self, path: Path) -> None:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        os.ftruncate(fd, _BYTES)
        self._counts = memoryview(mmap.mmap(fd, _BYTES)).cast("Q")
        os.close(fd)
        self._works: set[_Work] = set()
        self._frozen = False

    def work_begins(self) -> None:
        """Called in the task that will make the call and append its result."""
        task = asyncio.current_task()
        assert task is not None
        work = _Work()
        _current.set(work)
        self._works.add(work)
        task.add_done_callback(lambda done: self._work_ended(work, done))

    def call_begins(self) -> None:
        """Called by the adapter before it sends."""
        self._counts[_STARTED] += 1
        work = _current.get()
        if work is None or work.exposed or self._frozen:
            self._counts[_EXPOSED] += 1
        else:
            work.open += 1
            self._counts[_OPEN] += 1

    def thawed(self) -> None:
        """The process was frozen and goes on: others may have taken over long ago."""
        self._frozen = True
        self._expose_all()

    def drained(self) -> None:
        """A rebalance has given what ran its grace; from now on this process knows what is its own."""
        self._expose_all()
        self._frozen = False

    def publishing(self, active: bool) -> None:
        """Say whether this process holds the publisher's lease."""
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
