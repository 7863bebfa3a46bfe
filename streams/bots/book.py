"""The book of a bot: a pure fold of its deliveries, and of halts. It says what is open, unknown, and spent of the limits."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from schemas.deliveries import Attempted, DeliveryRecord, HaltLifted, HaltRequested, Outcome, Planned, Settled

DAY_MS = 24 * 3600 * 1000
State = Literal["planned", "attempted", "delivered", "refused", "unknown", "expired", "skipped"]


class Delivery(msgspec.Struct, kw_only=True):
    """One delivery. Times are the broker's append times in milliseconds since 1970; 0: not yet.

    ``n``: attempts so far. ``settled``: the last result; an exit is pending until that is ``delivered``.
    """

    planned: Planned
    planned_ms: int
    n: int = 0
    attempted_ms: int = 0
    settled: Settled | None = None
    settled_ms: int = 0

    @property
    def outcome(self) -> Outcome | None:
        return None if self.settled is None else self.settled.outcome

    @property
    def state(self) -> State:
        """The outcome, else how far it has come."""
        return self.outcome or ("attempted" if self.n else "planned")


class Book:
    """The fold of one bot's deliveries, or of all bots' (``bot`` None). Equal logs give equal books."""

    def __init__(self, bot: str | None = None) -> None:
        self.deliveries: dict[str, Delivery] = {}
        self.halts: dict[str | None, HaltRequested] = {}
        """Bot → its halt; None: the halt of all bots."""
        self._bot = bot
        self._exits: dict[str, Delivery] = {}

    def fold(self, at_ms: int, record: DeliveryRecord) -> bool:
        """Apply the next record, appended at ``at_ms``; return whether it changes anything."""
        match record:
            case HaltRequested():
                self.halts[record.bot] = record
                return True
            case HaltLifted(bot=None):
                self.halts.clear()
                return True
            case HaltLifted():
                return self.halts.pop(record.bot, None) is not None
        if self._bot is not None and record.bot != self._bot:
            return False
        if isinstance(record, Planned):
            if record.id in self.deliveries:
                return False
            made = self.deliveries[record.id] = Delivery(planned=record, planned_ms=at_ms)
            if record.entry is not None:
                self._exits[record.entry] = made
            return True
        if (found := self.deliveries.get(record.delivery)) is None or found.planned.bot != record.bot:
            return False
        if isinstance(record, Attempted):
            found.n, found.attempted_ms = max(found.n, record.n), at_ms
        else:
            found.settled, found.settled_ms = record, at_ms
        return True

    def halt_of(self, bot: str) -> HaltRequested | None:
        """Return the halt that holds this bot, its own before that of all; one that closes positions before both."""
        found = [halt for key in (bot, None) if (halt := self.halts.get(key)) is not None]
        return next((halt for halt in found if halt.exit), found[0] if found else None)

    def positions(self) -> list[Delivery]:
        """Return the entries that are open as far as is known: delivered or perhaps, without a delivered exit."""
        return [entry for entry in self._entries() if _may_be_open(entry) and not self._closed(entry.planned.id)]

    def exit_of(self, entry: str) -> Delivery | None:
        """Return the exit of an entry, if one was planned."""
        return self._exits.get(entry)

    def pending_exits(self) -> list[Delivery]:
        """Return the exits that the far side has not confirmed."""
        return [one for one in self._exits.values() if one.outcome != "delivered"]

    def entered(self, since_ms: int, asset: str | None = None) -> int:
        """Return the number of entries attempted since then, of this asset or of all, that the far side did not refuse."""
        return sum(
            entry.attempted_ms >= since_ms and asset in (None, entry.planned.asset) and _may_be_open(entry)
            for entry in self._entries()
        )

    def _entries(self) -> Iterable[Delivery]:
        return (one for one in self.deliveries.values() if one.planned.intent == "enter" and one.n)

    def _closed(self, entry: str) -> bool:
        found = self._exits.get(entry)
        return found is not None and found.outcome == "delivered"


def _may_be_open(entry: Delivery) -> bool:
    return entry.n > 0 and entry.outcome in (None, "delivered", "unknown")
