"""How a replay and whoever drives it talk: it hands out what it needs, and is sent the answer."""

from __future__ import annotations

from collections.abc import Generator

import msgspec

from agents.core.case import Case
from schemas.calls import Call
from schemas.effects import Effect
from streams.replay.outcome import Replayed, Status


class Need(msgspec.Struct, frozen=True):
    """An effect that the recording has no reply to. ``stand_in`` are the recorded calls that it takes the place of."""

    effect: Effect
    step: str
    case: Case
    request_hash: str
    stand_in: tuple[Call, ...]
    attempt: int


class Miss(msgspec.Struct, frozen=True):
    """The answer to a :class:`Need` that is not to be had: the case ends here, with this status."""

    reason: str
    status: Status = "miss"


Answer = tuple[Call, ...] | Miss
Asking = Generator[Need, Answer, Replayed]


def reused_alone(asking: Asking) -> Replayed:
    """Drive a replay by the recording alone: whatever it lacks is a miss."""
    try:
        need = next(asking)
        while True:
            need = asking.send(Miss(f"{need.step} asks what was not recorded ({type(need.effect).__name__})"))
    except StopIteration as stop:
        result: Replayed = stop.value
        return result
