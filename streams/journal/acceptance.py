"""The one rule of acceptance, applied by every reader of a journal: runtime, publish, sink, web, audit, backtest.

A path event is accepted when its cause is its case's head; an ``EffectCompleted`` when its cause is the head and its id is
new; a command once, at any head. Everything else (a zombie's late reply, a record sent twice, an event of a case that this
reader does not know) is ignored and counted. The first in log order wins, so all readers agree.

A case that was opened or closed has a tombstone for :data:`TOMBSTONE_OFFSETS` offsets, so that nothing opens it again. The
distance is in offsets, never in time, and every opening and every terminal record renews it, accepted or not. So the
tombstones at an offset are a function of the log before it. A reader that starts at its watermark D, after reading those
records before D, has the same ones as a reader that never stopped. The openings count too: a case that was opened before D
and closed after it, by the time that D was committed, may have a second opening record in between.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator

from schemas.events import COMMAND_NAMES, EFFECT_NAME, OPENING_NAMES, TERMINAL_NAMES

TOMBSTONE_OFFSETS = 50_000
MARKING_NAMES = TERMINAL_NAMES | OPENING_NAMES
"""Wire names of the records that place a tombstone."""


class OpenCase:
    """The head of one open case. ``seq`` counts its accepted events so far."""

    __slots__ = ("_effects", "commands", "first_offset", "head_id", "seq")

    def __init__(self, first_offset: int, head_id: str) -> None:
        self.first_offset = first_offset
        self.head_id = head_id
        self.seq = 1
        self._effects: set[str] | None = None
        self.commands: set[str] | None = None

    def effect_is_new(self, event_id: str) -> bool:
        """Record an effect of this head; return False if it was already recorded."""
        if self._effects is None:
            self._effects = {event_id}
            return True
        if event_id in self._effects:
            return False
        self._effects.add(event_id)
        return True

    def move(self, event_id: str) -> None:
        """Make this accepted event the head."""
        self.head_id = event_id
        self._effects = None


class AcceptedEvents:
    """The acceptance state of one journal partition. ``position`` is the offset after the last record offered."""

    def __init__(self, position: int = 0) -> None:
        self.position = position
        self.open: dict[str, OpenCase] = {}
        self.accepted = 0
        self.ignored: Counter[str] = Counter()
        self._closed: dict[str, int] = {}
        self._closings: deque[tuple[int, str]] = deque()

    @property
    def watermark(self) -> int:
        """D: the first offset of the oldest open case, or the position when none is open."""
        return next((c.first_offset for c in self.open.values()), self.position)

    def remember(self, offset: int, case_id: str) -> None:
        """Place the tombstone of an opening or terminal record before the start (offsets ascending)."""
        self._closed[case_id] = offset
        self._closings.append((offset, case_id))

    def is_remembered(self, case_id: str, at: int) -> bool:
        """Return whether this case has a tombstone at this offset."""
        closed_at = self._closed.get(case_id)
        return closed_at is not None and at - closed_at <= TOMBSTONE_OFFSETS

    def offer(self, offset: int, wire: str, case_id: str, event_id: str, causation_id: str | None) -> bool:
        """Apply the rule to the next record and return whether it is accepted. Offsets below the position are ignored."""
        if offset < self.position:
            self.ignored["redelivered"] += 1
            return False
        self.position = offset + 1
        self._expire(offset)
        accepted = self._judge(offset, wire, case_id, event_id, causation_id)
        if wire in MARKING_NAMES:
            self.remember(offset, case_id)
        return accepted

    def _judge(self, offset: int, wire: str, case_id: str, event_id: str, causation_id: str | None) -> bool:
        case = self.open.get(case_id)
        if case is None:
            return self._offer_unopened(offset, wire, case_id, event_id, causation_id)
        if wire == EFFECT_NAME:
            if causation_id != case.head_id or not case.effect_is_new(event_id):
                return self._pass_by("effect_of_another_head" if causation_id != case.head_id else "effect_twice")
        elif wire in COMMAND_NAMES:
            if case.commands is None:
                case.commands = set()
            if event_id in case.commands:
                return self._pass_by("command_twice")
            case.commands.add(event_id)
            case.move(event_id)
        elif causation_id != case.head_id or wire in OPENING_NAMES:
            return self._pass_by("opened_twice" if wire in OPENING_NAMES else "not_the_head")
        elif wire in TERMINAL_NAMES:
            del self.open[case_id]
        else:
            case.move(event_id)
        case.seq += 1
        self.accepted += 1
        return True

    def _offer_unopened(self, offset: int, wire: str, case_id: str, event_id: str, causation_id: str | None) -> bool:
        if wire in TERMINAL_NAMES:
            return self._pass_by("terminal_of_no_open_case")
        if wire not in OPENING_NAMES:
            return self._pass_by("of_no_open_case")
        if causation_id is not None or self.is_remembered(case_id, offset):
            return self._pass_by("opened_again")
        self.open[case_id] = OpenCase(offset, event_id)
        self.accepted += 1
        return True

    def _pass_by(self, why: str) -> bool:
        self.ignored[why] += 1
        return False

    def _expire(self, offset: int) -> None:
        while self._closings and offset - self._closings[0][0] > TOMBSTONE_OFFSETS:
            closed_at, case_id = self._closings.popleft()
            if self._closed.get(case_id) == closed_at:
                del self._closed[case_id]

    def marks(self) -> Iterator[tuple[int, str]]:
        """Yield (offset, case id) of every opening and end within the last :data:`TOMBSTONE_OFFSETS`, in order."""
        yield from self._closings

    def tombstones(self) -> Iterator[tuple[str, int]]:
        """Yield (case id, closing offset) of every tombstone held; for tests and diagnosis."""
        yield from self._closed.items()
