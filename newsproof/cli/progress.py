"""Progress of the demo on standard error: a bar on a terminal, else a line every few seconds."""

from __future__ import annotations

import sys
import time
from typing import Any

import msgspec

from schemas.printable import counted

LINE_EVERY_S = 3.0


class Ends(msgspec.Struct):
    """Counts over the journal so far. ``withdrawn``: cases whose signal another case denies or corrects.

    ``searched``: cases for which a provider answered a search.
    """

    events: int = 0
    signals: int = 0
    ended: int = 0
    opened: int = 0
    signalled: set[str] = set()
    withdrawn: set[str] = set()
    searched: set[str] = set()

    @property
    def revisions(self) -> int:
        """Signal revisions that publish writes: one per signal, and another one if the signal is withdrawn."""
        return self.signals + len(self.withdrawn & self.signalled)


class DemoProgress:
    """Shows how many cases were opened and ended. Use as a context manager."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._bar: Any = None
        self._task: Any = None
        self._said_at = time.monotonic()

    def __enter__(self) -> DemoProgress:
        if sys.stderr.isatty():
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            from newsproof.app.console import Console

            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.completed}/{task.total}"),
                TimeElapsedColumn(),
                console=Console(error=True),
                # Redirected prints would be parsed for colours and links; nothing else prints meanwhile.
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._bar.start()
            self._task = self._bar.add_task("cases", total=self._total)
        return self

    def __exit__(self, *_exc: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show(self, seen: Ends) -> None:
        text = (
            f"{counted(seen.opened, 'case')} opened, {counted(seen.events, 'event')}, {counted(seen.signals, 'signal')}"
        )
        if self._bar is not None:
            self._bar.update(self._task, completed=seen.ended, description=text)
        elif seen.ended >= self._total or time.monotonic() - self._said_at > LINE_EVERY_S:
            self._said_at = time.monotonic()
            print(f"{text}, {seen.ended} of {self._total} ended", file=sys.stderr, flush=True)
