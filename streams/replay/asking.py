"""Protocol between a replay and its driver: the replay yields what it needs and receives the reply."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import msgspec

from schemas.calls import Call
from schemas.effects import Effect
from streams.replay.outcome import Replayed, Status


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
Asking = Generator[Need, Answer, Replayed]


def reused_alone(asking: Asking) -> Replayed:
    """Drive a replay with the recording alone: every need is a miss."""
    try:
        need = next(asking)
        while True:
            need = asking.send(Miss(f"{need.step} asks what was not recorded ({type(need.effect).__name__})"))
    except StopIteration as stop:
        result: Replayed = stop.value
        return result
