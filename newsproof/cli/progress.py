"""Progress of the demo on standard error: a bar on a terminal, else a line every few seconds."""

from __future__ import annotations

import sys
import time
from typing import Any

import msgspec
import orjson

from newsproof.report.listening import Opened
from schemas.events import (
    BY_WIRE_NAME,
    TERMINAL_NAMES,
    CaseDropped,
    EventReceived,
    SearchCompleted,
    SignalSynthesized,
)
from schemas.ids import text_hash
from schemas.printable import counted

LINE_EVERY_S = 3.0


class Ends(msgspec.Struct):
    """What the journal holds so far. ``finished``: cases that have ended; ``searched``: those for which a provider answered.

    ``marks``: partition → the offset that a publisher commits who has published all of it.
    """

    events: int = 0
    signals: int = 0
    cases: dict[str, Opened] = {}
    finished: set[str] = set()
    searched: set[str] = set()
    marks: dict[Any, int] = {}

    def add(self, name: str, case_id: str, value: bytes) -> None:
        """Count one accepted event. ``name``: its wire name."""
        self.events += 1
        kind = BY_WIRE_NAME.get(name)
        if kind is EventReceived:
            news = orjson.loads(value)["news"]
            self.cases[case_id] = Opened(news["source"], news.get("external_id", ""), text_hash(news["text"]))
        elif kind is SignalSynthesized:
            self.signals += 1
        elif kind is SearchCompleted:
            if any(one.get("failure") is None for one in orjson.loads(value)["outcomes"]):
                self.searched.add(case_id)
        elif kind is CaseDropped and case_id in self.cases:  # a second look is no case of a news item
            dropped = orjson.loads(value)
            self.cases[case_id].reason = dropped["reason"]
            self.cases[case_id].told_before = dropped.get("duplicate_of") or ""
        if name in TERMINAL_NAMES and case_id in self.cases:
            self.finished.add(case_id)


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
        text = f"{counted(len(seen.cases), 'case')} opened, {counted(seen.events, 'event')}, {counted(seen.signals, 'signal')}"
        if self._bar is not None:
            self._bar.update(self._task, completed=len(seen.finished), description=text)
        elif len(seen.finished) >= self._total or time.monotonic() - self._said_at > LINE_EVERY_S:
            self._said_at = time.monotonic()
            print(f"{text}, {len(seen.finished)} of {self._total} ended", file=sys.stderr, flush=True)
