"""Running tasks: one per (case, head, request), started once however often it is requested."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import structlog

from streams.effects.host import UNWANTED
from streams.runtime.worker_slot import WorkerSlot

R = TypeVar("R")
log = structlog.get_logger(__name__)

Key = tuple[str, str, str]
"""(case id, head id, request hash or empty)."""


class Running:
    """The running tasks. The slot file records their heads. ``on_end`` is called after each task.

    ``is_head`` returns whether a case is still at a head. A result that is in the log but not folded yet is remembered
    until its case moves: if folding another reply requested it again in between, it would be paid twice.
    """

    def __init__(self, slot: WorkerSlot, *, is_head: Callable[[str, str], bool], on_end: Callable[[], None]) -> None:
        self._slot = slot
        self._is_head, self._on_end = is_head, on_end
        self._tasks: dict[Key, asyncio.Task[None]] = {}
        self._asking: set[asyncio.Task[Any]] = set()
        self._appended: dict[str, tuple[str, set[str]]] = {}
        self._per_head: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._tasks)

    def spawn(self, key: Key, work: Coroutine[Any, Any, None]) -> None:
        """Start the work unless it already runs or its result is already in the log."""
        head_id, appended = self._appended.get(key[0], ("", set()))
        if key in self._tasks or (head_id == key[1] and key[2] in appended):
            work.close()
            return
        self._per_head[key[1]] += 1
        self._slot.started(key[1])
        task = self._tasks[key] = asyncio.create_task(work)
        task.add_done_callback(lambda done: self._ended(key, done))

    def at_head(self, case_id: str, head_id: str) -> None:
        """Record a case's present head. Results for an earlier head are forgotten."""
        if (appended := self._appended.get(case_id)) is not None and appended[0] != head_id:
            del self._appended[case_id]

    def forget(self, case_id: str) -> None:
        """Forget the results of a case that ended."""
        self._appended.pop(case_id, None)

    def cancel(self, of: Callable[[str], bool]) -> None:
        """Cancel the tasks of these cases, and forget their results."""
        for key, task in list(self._tasks.items()):
            if of(key[0]):
                task.cancel()
        for case_id in [c for c in self._appended if of(c)]:
            del self._appended[case_id]

    async def asking(self, work: Coroutine[Any, Any, R]) -> R:
        """Await the part of a task that :meth:`leave_behind` may cancel. The append that follows is not part of it."""
        task = asyncio.current_task()
        assert task is not None
        self._asking.add(task)
        try:
            return await work
        finally:
            self._asking.discard(task)

    def leave_behind(self, case_id: str, head_id: str) -> None:
        """Make no new calls for the case at any other head.

        A running call still finishes, and is paid and recorded.
        """
        for key, task in list(self._tasks.items()):
            if key[0] == case_id and key[1] != head_id and task in self._asking:
                task.cancel(UNWANTED)

    async def wait(self, timeout_s: float) -> int:
        """Wait up to ``timeout_s`` for running tasks; return the number still running."""
        if self._tasks:
            await asyncio.wait(list(self._tasks.values()), timeout=timeout_s)
        return len(self._tasks)

    async def stop(self) -> None:
        """Cancel everything and wait for it."""
        for task in (tasks := list(self._tasks.values())):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, key: Key, task: asyncio.Task[None]) -> None:
        self._tasks.pop(key, None)
        self._per_head[key[1]] -= 1
        if not self._per_head[key[1]]:
            del self._per_head[key[1]]
            self._slot.ended(key[1])
            self._slot.forget(key[1])
        self._on_end()
        if task.cancelled():
            return
        if (exc := task.exception()) is not None:
            log.error("a result could not be appended", case=key[0], error=repr(exc))
        elif self._is_head(key[0], key[1]):
            if (known := self._appended.get(key[0])) is None or known[0] != key[1]:
                known = self._appended[key[0]] = (key[1], set())
            known[1].add(key[2])
