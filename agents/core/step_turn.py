"""One turn of a step on a case: ``ask``, perform the missing effects, ``tell``. Pure; the driver does the I/O.

A model reply that was cut at its token limit is requested once more in the same turn, with twice that limit. That is another
effect with its own hash, so it is recorded, replayed and paid like any other. The step gets only the second reply.

The driver supplies the calls and the time, and folds events into the case. When :func:`ask` returns :class:`Missing`,
the driver passes each reply to :func:`tell`. It folds an ``EffectCompleted`` and asks again; any other event ends the
turn. An exception ends the turn as ``failed(case, step.name, failure_of(exc), now=…)``, with the calls made so far
(:func:`with_calls`). This is not a turn of a research chat (:mod:`agents.research.turn`), which is a case.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from agents.core.case_core import CaseCore, Replies, is_cut
from agents.core.step import Step, StepFailure
from schemas.calls import Call
from schemas.effects import CallModel, Effect, Failure, request_hash, widened
from schemas.events import EffectCompleted, Event
from schemas.ids import effect_id, event_id


class Missing(msgspec.Struct, frozen=True):
    """The effects that have no reply yet, by request hash, in the step's order.

    ``several``: the step asked for a tuple, so each reply is logged. The reply to a single effect ends the turn, unless it
    was cut. ``again``: the effects that are second requests.
    """

    effects: dict[str, Effect]
    several: bool
    again: frozenset[str] = frozenset()


def ask(step: Step, case: CaseCore) -> Event | Missing:
    """Return the step's event, or the effects whose replies it needs first.

    Raises:
        StepFailure: the step cannot continue, or returns an event that it does not declare.
        Exception: a bug in the step.
    """
    asked = step.ask(case)
    if isinstance(asked, Event):
        return declared(step, asked)
    effects = asked if isinstance(asked, tuple) else (asked,)
    several = effects is asked
    answered = {c.request_hash for c in case.replies.calls}
    cut = {c.request_hash for c in case.replies.calls if is_cut(c.reply)}
    missing: dict[str, Effect] = {}
    again: set[str] = set()
    for first in effects:
        effect, wanted = first, request_hash(first)
        if wanted in cut and (second := _widened(first)) is not None:
            effect, wanted = second, request_hash(second)
            again.add(wanted)
        if wanted not in answered or not several:
            missing[wanted] = effect
    if not missing:
        return declared(step, step.tell(case, case.replies))
    return Missing(missing, several=several, again=frozenset(again))


def tell(step: Step, case: CaseCore, missing: Missing, wanted: str, calls: tuple[Call, ...]) -> Event:
    """Return the event, with its calls, that follows from the reply to the request hash ``wanted``.

    Raises:
        StepFailure, Exception: as :func:`ask`; never for one of several effects.
    """
    first_cut = (
        is_cut(calls[-1].reply) and wanted not in missing.again and _widened(missing.effects[wanted]) is not None
    )
    if missing.several or first_cut:
        return EffectCompleted(step=step.name, request_hash=wanted, calls=calls)
    return with_calls(declared(step, step.tell(case, Replies(calls))), calls)


def _widened(effect: Effect) -> Effect | None:
    return widened(effect) if isinstance(effect, CallModel) else None


def declared(step: Step, event: Event) -> Event:
    """Return the event if the step declares it.

    Raises:
        StepFailure: the step does not declare the event, so the graph was checked without it.
    """
    if type(event) in step.emits:
        return event
    message = f"step {step.name} gave {type(event).__name__}, which it does not declare: add it to emits"
    raise StepFailure(Failure(kind="internal", message=message, retryable=False))


def with_calls(event: Event, calls: tuple[Call, ...]) -> Event:
    """Return the event with these calls added to its own."""
    return replace(event, calls=(*event.calls, *calls)) if calls else event


def failure_of(exc: Exception) -> Failure:
    """Return the failure to log for an exception that ended a turn. A bug in a step is not retried."""
    if isinstance(exc, StepFailure):
        return exc.failure
    return Failure(kind="internal", message=f"{type(exc).__name__}: {exc}", retryable=False)


def attempt_of(case: CaseCore, step: str) -> int:
    """Return the number of the step's next attempt, from 1."""
    return 1 + sum(1 for f in case.failures if f.step == step)


def successor_id(case: CaseCore, event: Event | None = None) -> str:
    """Return the id of the event after the case's head.

    All events that move the head share one id; each ``EffectCompleted`` has its own, derived from the request hash.
    """
    if isinstance(event, EffectCompleted):
        return effect_id(case.run_id, case.case_id, case.head_id, event.request_hash)
    return event_id(case.run_id, case.case_id, case.head_id)
