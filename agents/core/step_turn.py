"""A step's turn at a case: ask it, perform what is missing, tell it what came back. Pure; what drives it does the rest.

A driver brings the calls, the time and the way back into the case. Where :func:`ask` gives :class:`Missing`, each reply goes
to :func:`tell`; an ``EffectCompleted`` of it is folded, and the step is asked again. Any other event ends the turn, and so
does an exception: ``failed(case, step.name, failure_of(exc), now=…)``, with the calls that were told (:func:`with_calls`).
This is no turn of a research chat (:mod:`agents.research.turn`): that is a case.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from agents.core.case_core import CaseCore, Replies
from agents.core.step import Step, StepFailure
from schemas.calls import Call
from schemas.effects import Effect, Failure, request_hash
from schemas.events import EffectCompleted, Event
from schemas.ids import effect_id, event_id


class Missing(msgspec.Struct, frozen=True):
    """The effects without a reply so far, by request hash, in the order in which the step asks for them.

    ``several``: the step asked for a tuple, so each reply is logged. Otherwise it is one effect, whose reply ends the turn.
    """

    effects: dict[str, Effect]
    several: bool


def ask(step: Step, case: CaseCore) -> Event | Missing:
    """Return the step's event, or what must be answered before it can give one.

    Raises:
        StepFailure: the step cannot go on, or gives an event that it does not declare.
        Exception: a bug in the step.
    """
    asked = step.ask(case)
    if isinstance(asked, Event):
        return declared(step, asked)
    if not isinstance(asked, tuple):
        return Missing({request_hash(asked): asked}, several=False)
    answered = {c.request_hash for c in case.replies.calls}
    missing = {h: e for e in asked if (h := request_hash(e)) not in answered}
    return Missing(missing, several=True) if missing else declared(step, step.tell(case, case.replies))


def tell(step: Step, case: CaseCore, missing: Missing, wanted: str, calls: tuple[Call, ...]) -> Event:
    """Return the event, calls included, that the answer to the request ``wanted`` leads to.

    Raises:
        StepFailure, Exception: as :func:`ask`; never for one of several effects.
    """
    if missing.several:
        return EffectCompleted(step=step.name, request_hash=wanted, calls=calls)
    return with_calls(declared(step, step.tell(case, Replies(calls))), calls)


def declared(step: Step, event: Event) -> Event:
    """Return the event if the step declares it.

    Raises:
        StepFailure: when it does not; the graph was checked without this event.
    """
    if type(event) in step.emits:
        return event
    message = f"step {step.name} gave {type(event).__name__}, which it does not declare: add it to emits"
    raise StepFailure(Failure(kind="internal", message=message, retryable=False))


def with_calls(event: Event, calls: tuple[Call, ...]) -> Event:
    """Return the event with the calls that bought it."""
    return replace(event, calls=(*event.calls, *calls)) if calls else event


def failure_of(exc: Exception) -> Failure:
    """Return what the exception that ended a turn is to the case: a bug in a step is not retried."""
    if isinstance(exc, StepFailure):
        return exc.failure
    return Failure(kind="internal", message=f"{type(exc).__name__}: {exc}", retryable=False)


def attempt_of(case: CaseCore, step: str) -> int:
    """Return which attempt of this step comes now, from 1."""
    return 1 + sum(1 for f in case.failures if f.step == step)


def successor_id(case: CaseCore, event: Event | None = None) -> str:
    """Return the id of the event after the case's head: one for all that move it, and one per request for replies."""
    if isinstance(event, EffectCompleted):
        return effect_id(case.run_id, case.case_id, case.head_id, event.request_hash)
    return event_id(case.run_id, case.case_id, case.head_id)
