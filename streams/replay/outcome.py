"""What a replay needs of its driver, and its result."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Literal

import msgspec

from schemas import events as ev
from schemas.calls import Call, CallKind
from schemas.effects import Effect
from schemas.ids import canonical_json
from schemas.signals import Signal
from streams.replay.lookahead import LookAhead

Execution = Literal["executed", "reused", "miss"]
Status = Literal["replayed", "miss", "failed", "refused"]


class UsedCall(msgspec.Struct, frozen=True, kw_only=True):
    """The reply to one effect of the replayed case. ``position`` counts the accepted events before its event.

    ``calls`` are its records, one for each provider tried, none for a miss. ``stand_in``: the recorded calls that an
    executed one replaced, if any.
    """

    step: str
    position: int
    head_id: str
    kind: CallKind
    request_hash: str
    execution: Execution
    calls: tuple[Call, ...] = ()
    stand_in: tuple[Call, ...] = ()


class ReplayResult(msgspec.Struct, frozen=True, kw_only=True):
    """One replayed case.

    ``case`` is its last state. ``end`` is the event that ended it; if it is None, ``status`` is not replayed and
    ``reason`` says why. ``of_others``: the events by which it denies, corrects or corroborates signals of other cases.
    ``diverged_at`` names the step of the first event that differs from the recorded one; empty if none does. ``unused``
    counts recorded replies that were not requested again.
    """

    status: Status
    case: Any
    end: ev.Event | None
    reason: str = ""
    of_others: tuple[ev.RetractionFound | ev.StoryCorroborated, ...] = ()
    used: tuple[UsedCall, ...] = ()
    diverged_at: str = ""
    unused: int = 0
    look_ahead: LookAhead = LookAhead()

    @property
    def signal(self) -> Signal | None:
        """The signal, if the case ended in one."""
        return self.end.signal if isinstance(self.end, ev.SignalSynthesized) else None

    def count(self, execution: Execution) -> int:
        """Return the number of effects with this execution."""
        return sum(1 for call in self.used if call.execution == execution)


def signal_bytes(end: ev.Event | None) -> bytes:
    """Return the bytes by which replays are compared: canonical JSON of the signal, or of an end without one."""
    if end is None:
        return b""
    if isinstance(end, ev.SignalSynthesized):
        return canonical_json(end.signal)
    return canonical_json(msgspec.structs.replace(end, calls=()) if end.calls else end)


# The exchange between a replay and its driver


class Need(msgspec.Struct, frozen=True):
    """An effect without a recorded reply. ``stand_in``: the recorded calls that it replaces."""

    effect: Effect
    step: str
    case: Any
    request_hash: str
    stand_in: tuple[Call, ...]
    attempt: int


class Miss(msgspec.Struct, frozen=True):
    """The reply to a :class:`Need` that cannot be fulfilled: the case ends here, with this status."""

    reason: str
    status: Status = "miss"


Answer = tuple[Call, ...] | Miss
Asking = Generator[Need, Answer, ReplayResult]


def reused_alone(asking: Asking) -> ReplayResult:
    """Drive a replay with the recording alone: every need is a miss."""
    try:
        need = next(asking)
        while True:
            need = asking.send(Miss(f"{need.step} asks what was not recorded ({type(need.effect).__name__})"))
    except StopIteration as stop:
        result: ReplayResult = stop.value
        return result
