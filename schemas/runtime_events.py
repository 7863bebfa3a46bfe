"""Events of the runtime: what every journal may hold, whatever its cases are about.

Path events move the case's head (``EffectCompleted`` is the one that does not). A field that routes is a ``Literal``; the
registry reads its values and refuses a graph in which one of them leads nowhere, or to two steps.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

from schemas.calls import Call
from schemas.effects import Failure

PREFIX = "newsproof."


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag=False):
    """Base of all events. ``calls`` are the calls whose replies made this event, in the order of the replies."""

    calls: tuple[Call, ...] = ()


class CaseFailed(Event, tag="newsproof.case_failed", kw_only=True, frozen=True):
    """The end of a case that nothing worked for, with what was tried last. A dead letter tells the operator."""

    reason: str
    failed_step: str
    attempts: int


class EffectCompleted(Event, tag="newsproof.effect_completed", kw_only=True, frozen=True):
    """One reply of a step that needs several. Its cause is the head, which it does not move."""

    step: str
    request_hash: str
    occurrence: int = 0


class StepFailed(Event, tag="newsproof.step_failed", kw_only=True, frozen=True):
    """A step did not work. ``outcome`` is decided here, once, and logged: readers never guess.

    ``attempt`` counts the failures of this step in a row, from 1; ``retry_at`` is set when ``outcome`` is retry.
    """

    step: str
    failure: Failure
    attempt: int
    outcome: Literal["retry", "degrade", "give_up"]
    retry_at: datetime | None = None


class StepStarted(Event, tag="newsproof.step_started", kw_only=True, frozen=True):
    """Written before a suspect step runs alone, so that a step that kills its process is found.

    ``handed_back`` says that the worker let the case go, at a rebalance or its own end, while the step was running or due:
    the step killed nobody then, and whoever has the case next runs it alone again.
    """

    step: str
    crashes: int
    handed_back: bool = False


class CancelRequested(Event, tag="newsproof.cancel_requested", kw_only=True, frozen=True):
    """A command from outside the case: end it. Accepted once, at any head."""

    requested_by: str
    reason: str
