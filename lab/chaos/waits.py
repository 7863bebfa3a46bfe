"""Places where the tasks of a process wait, reported for each process if a run makes no progress."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

WAITS = "waits: "
"""Prefix of such a line in a log."""
DEPTH = 4
MOST = 25


def waits() -> list[str]:
    """Return where the tasks of this event loop wait, innermost call last, the most frequent first, with their number."""
    seen = Counter(" > ".join(_frames(task)) for task in asyncio.all_tasks())
    return [f"{count} x {at}" for at, count in seen.most_common(MOST)]


def _frames(task: asyncio.Task[object]) -> list[str]:
    frames: list[str] = []
    awaited: Any = task.get_coro()
    while awaited is not None and (frame := getattr(awaited, "cr_frame", None) or getattr(awaited, "gi_frame", None)):
        frames.append(f"{Path(frame.f_code.co_filename).stem}:{frame.f_lineno} {frame.f_code.co_name}")
        awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "gi_yieldfrom", None)
    return [*frames[:1], *frames[1:][-DEPTH:]]
