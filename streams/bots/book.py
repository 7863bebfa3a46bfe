"""The book of a bot: a pure fold of its deliveries, and of halts. It says what is open, unknown, and spent of the limits."""

from __future__ import annotations

from collections import Counter
from typing import Literal

import msgspec

from schemas.deliveries import DeliveryRecord, HaltLifted, HaltRequested, Outcome, Planned, Settled

HOUR_MS = 3600 * 1000
DAY_MS = 24 * HOUR_MS
State = Literal["planned", "attempted", "delivered", "refused", "unknown", "expired", "skipped"]


class Delivery(msgspec.Struct, kw_only=True):
    """One delivery. Times are the broker's append times in milliseconds since 1970; 0: not yet.

    ``n``: attempts so far. ``settled``: the last result; an exit is pending until that is ``delivered``, which it also is
    if there turned out to be no position.
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
    def may_be_open(self) -> bool:
        """Whether this entry was attempted and the destination has not refused it."""
        return self.n > 0 and self.outcome in (None, "delivered", "unknown")

    @property
    def state(self) -> State:
        """The outcome, else how far it has come."""
        return self.outcome or ("attempted" if self.n else "planned")


class Book:
    """The fold of one bot's deliveries, or of all bots' (``bot`` None). Equal logs give equal books.

    ``adapter`` and ``mode``: of these deliveries alone.
    """

    def __init__(self, bot: str | None = None, *, adapter: str | None = None, mode: str | None = None) -> None:
        self.deliveries: dict[str, Delivery] = {}
        self.halts: dict[str | None, HaltRequested] = {}
        """Bot → its halt; None: the halt of all bots."""
        self.halted_ms: dict[str | None, int] = {}
        """The same → when it was requested."""
        self._only = bot, adapter, mode
        self._entered: list[Delivery] = []
        self._exits: dict[str, Delivery] = {}
        self._open: dict[str, Delivery] = {}
        self._pending: dict[str, Delivery] = {}

    def fold(self, at_ms: int, record: DeliveryRecord) -> bool:
        """Apply the next record, appended at ``at_ms``; return whether it changes anything."""
        match record:
            case HaltRequested():
                self.halts[record.bot], self.halted_ms[record.bot] = record, at_ms
                return True
            case HaltLifted(bot=None):
                self.halts.clear()
                return True
            case HaltLifted():
                return self.halts.pop(record.bot, None) is not None
            case Planned():
                return self._plan(at_ms, record)
        delivery = self.deliveries.get(record.delivery)
        if delivery is None or delivery.planned.bot != record.bot:
            return False
        if isinstance(record, Settled):
            delivery.settled, delivery.settled_ms = record, at_ms
        elif record.n > delivery.n:
            if delivery.n == 0 and delivery.planned.intent == "enter":
                self._entered.append(delivery)
            if delivery.outcome == "skipped":
                delivery.settled = None  # a message that a channel put off
            delivery.n, delivery.attempted_ms = record.n, at_ms
        self._index(delivery)
        return True

    def _plan(self, at_ms: int, record: Planned) -> bool:
        of = record.bot, record.adapter, record.mode
        if record.id in self.deliveries or any(
            only not in (None, value) for only, value in zip(self._only, of, strict=True)
        ):
            return False
        made = self.deliveries[record.id] = Delivery(planned=record, planned_ms=at_ms)
        if record.entry is not None:
            self._exits[record.entry] = made
            self._index(made)
        return True

    def _index(self, changed: Delivery) -> None:
        """Keep what is open and what is pending, since a bot asks at every record."""
        entry = self.deliveries.get(changed.planned.entry or changed.planned.id)
        if entry is None or entry.planned.intent != "enter":
            return
        id = entry.planned.id
        exit = self._exits.get(id)
        closed = exit is not None and exit.outcome == "delivered"
        if entry.may_be_open and not closed:
            self._open[id] = entry
        else:
            self._open.pop(id, None)
        if exit is not None and not closed:
            self._pending[id] = exit
        else:
            self._pending.pop(id, None)

    def halt_of(self, bot: str) -> HaltRequested | None:
        """Return the halt that holds this bot; of two, one that closes positions."""
        halts = [halt for key in (bot, None) if (halt := self.halts.get(key)) is not None]
        return next((halt for halt in halts if halt.exit), halts[0] if halts else None)

    def positions(self) -> list[Delivery]:
        """Return the entries that are open as far as is known: delivered or perhaps, without a delivered exit."""
        return list(self._open.values())

    def exit_of(self, entry: str) -> Delivery | None:
        """Return the exit of an entry, if one was planned."""
        return self._exits.get(entry)

    def pending_exits(self) -> list[Delivery]:
        """Return the exits that the destination has not confirmed."""
        return list(self._pending.values())

    def forget(self, keep: int) -> None:
        """Forget each bot's messages and the entries that were not made, except the newest ``keep``. Not for a bot itself."""
        kept = Counter[str]()
        for id, delivery in reversed(list(self.deliveries.items())):
            never = delivery.planned.intent == "enter" and delivery.outcome in ("refused", "expired", "skipped")
            kept[delivery.planned.bot] += never or delivery.planned.intent == "notify"
            if kept[delivery.planned.bot] > keep and (never or delivery.planned.intent == "notify"):
                del self.deliveries[id]

    def entered(self, since_ms: int, asset: str | None = None) -> int:
        """Return the number of entries attempted since then, of this asset or of all, that the destination did not refuse."""
        count = 0
        for entry in reversed(self._entered):
            if entry.attempted_ms < since_ms:
                break
            count += asset in (None, entry.planned.asset) and entry.may_be_open
        return count
