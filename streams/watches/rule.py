"""The rule of watches: a pure fold of the ``watches`` topic. Every reader applies it to the same order of records.

A firing is accepted if its cause is its watch's head, the watch is active without a firing that is still to be opened,
and it is due. The first firing is due at once, later ones at ``set + k * every`` (of missed times only the latest) or
on news. An opening is accepted if its cause is the head and it opens the pending firing. Commands from people are
accepted at any head, once, and move it. Every other record is ignored, so if several workers fire one watch, the first
in log order wins.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

import msgspec

from infra.clickhouse.record import epoch_ms
from schemas.watches import (
    MIN_EVERY_S,
    WatchCommand,
    WatchEnded,
    WatchFired,
    WatchOpened,
    WatchPaused,
    WatchRecord,
    WatchResumed,
    WatchSet,
    successor_id,
)

AHEAD_MS = 60_000
"""Maximum lead of a worker's clock over the broker's. A firing that comes earlier is ignored, and retried."""
_DAY_MS = 24 * 3600 * 1000
State = Literal["active", "paused", "ended"]


class Watch(msgspec.Struct, kw_only=True):
    """One watch. Times are the broker's append times, in milliseconds since 1970.

    ``done_ms``: everything due up to then is done or skipped. ``fired_at_ms``: its last firing; ``fired_today``: number
    of firings on that UTC day. ``pending``: the firing that is still to be opened. ``investigation``: the last one
    opened.
    """

    set: WatchSet
    set_ms: int
    head: str
    done_ms: int
    state: State = "active"
    n: int = 0
    pending: WatchFired | None = None
    last: WatchFired | None = None
    fired_at_ms: int = 0
    fired_today: int = 0
    investigation: str | None = None

    def fired_on(self, now_ms: int) -> int:
        """Return how often it fired on the UTC day of this time."""
        return self.fired_today if self.fired_at_ms // _DAY_MS == now_ms // _DAY_MS else 0

    def next_due_ms(self) -> int | None:
        """Return when the clock makes it due next; None if it waits for news, or does not fire any more."""
        if self.state != "active" or (self.set.every_s is None and self.n):
            return None
        if self.set.every_s is None or self.n == 0:
            return self.done_ms + 1
        return self._tick_at(self.done_ms) + self.set.every_s * 1000

    def due(self, now_ms: int, news: tuple[int, str] | None = None) -> WatchFired | None:
        """Return the firing that is due now; None if none is. ``news``: triage time and case of the latest match."""
        if self.state != "active" or self.pending is not None:
            return None
        if (first := self.next_due_ms()) is not None:
            return None if now_ms < first else self._firing(self._tick_at(now_ms) if self.n else first)
        if news is None or news[0] <= self.done_ms or now_ms < self.news_from_ms():
            return None
        return self._firing(*news)

    def news_from_ms(self) -> int:
        """Return the time from which it may fire on news again, because news of one event comes in clusters."""
        return self.fired_at_ms + MIN_EVERY_S * 1000

    def takes(self, fired: WatchFired, append_ms: int) -> bool:
        """Return whether this firing is accepted as the next record of its watch."""
        due_ms = epoch_ms(fired.due_at)
        if self.state != "active" or self.pending or (fired.cause, fired.n) != (self.head, self.n + 1):
            return False
        if due_ms > append_ms + AHEAD_MS:
            return False
        first = self.next_due_ms()
        if first is None:
            return fired.news is not None and due_ms > self.done_ms and append_ms + AHEAD_MS >= self.news_from_ms()
        on_time = due_ms == first if self.n == 0 else due_ms >= first and due_ms == self._tick_at(due_ms)
        return fired.news is None and on_time

    def _tick_at(self, ms: int) -> int:
        every = (self.set.every_s or 0) * 1000
        return self.set_ms + (ms - self.set_ms) // every * every

    def _firing(self, due_ms: int, news: str | None = None) -> WatchFired:
        due_at = datetime.fromtimestamp(due_ms / 1000, UTC)
        id = successor_id(self.set.id, self.head)
        return WatchFired(id=id, watch=self.set.id, cause=self.head, n=self.n + 1, due_at=due_at, news=news)

    def opening(self) -> WatchOpened:
        """Return the record that the pending firing was opened."""
        assert self.pending is not None
        return WatchOpened(
            id=successor_id(self.set.id, self.head),
            watch=self.set.id,
            cause=self.head,
            n=self.n,
            investigation=self.pending.investigation,
        )


class WatchState:
    """The fold. Equal logs give equal states, whenever and wherever read. ``passed_by``: number of ignored records."""

    def __init__(self) -> None:
        self.watches: dict[str, Watch] = {}
        self.passed_by = 0

    def fold(self, append_ms: int, record: WatchRecord) -> bool:
        """Apply the next record; return whether it is accepted."""
        accepted = self._apply(append_ms, record)
        self.passed_by += not accepted
        return accepted

    def _apply(self, at: int, record: WatchRecord) -> bool:
        watch = self.watches.get(record.watch)
        if isinstance(record, WatchSet):
            if watch is None:
                self.watches[record.id] = Watch(set=record, set_ms=at, head=record.id, done_ms=at - 1)
            return watch is None
        if watch is None:
            return False
        match record:
            case WatchFired():
                if not watch.takes(record, at):
                    return False
                _fire(watch, record, at)
            case WatchOpened():
                if watch.pending is None or (record.cause, record.n) != (watch.head, watch.n):
                    return False
                watch.investigation, watch.pending = watch.pending.investigation, None
            case _:
                if why_not(watch, type(record)) is not None:
                    return False
                _obey(watch, record, at)
        watch.head = record.id
        return True


def _fire(watch: Watch, fired: WatchFired, at: int) -> None:
    watch.n, watch.pending, watch.last = fired.n, fired, fired
    watch.fired_today = watch.fired_on(at) + 1
    watch.fired_at_ms, watch.done_ms = at, epoch_ms(fired.due_at)


def _obey(watch: Watch, command: WatchCommand, at: int) -> None:
    match command:
        case WatchPaused():
            watch.state = "paused"
        case WatchResumed():
            watch.state, watch.done_ms = "active", max(watch.done_ms, at)
        case WatchEnded():
            watch.state = "ended"


_ACT: dict[type[WatchCommand], dict[State, str]] = {
    WatchPaused: {"paused": "is paused already: resume it, or end it", "ended": "has ended, so it cannot be paused"},
    WatchResumed: {"active": "is active: it was not paused", "ended": "has ended: set a new watch"},
    WatchEnded: {"ended": "has ended already"},
}


def why_not(watch: Watch, command: type[WatchCommand]) -> str | None:
    """Return in words why a watch does not accept this command now; None if it does."""
    return _ACT[command].get(watch.state)
