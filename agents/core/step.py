"""The contract of a step: two pure functions around what the world answers.

    class Greet:
        name, takes, emits = "greet", (On(EventReceived),), (CaseTriaged,)
        def ask(self, case): return CallModel(...)                 # what do we need from the world?
        def tell(self, case, replies): return CaseTriaged(...)     # what does the answer mean?

``ask`` returns an event (nothing is needed), one effect, or a tuple of effects. The reply to one effect goes straight
to ``tell``. Of a tuple, each reply is logged as it arrives (``EffectCompleted``) and ``ask`` is asked again with the
replies in ``case.replies``: it may add effects that depend on them (a tool loop, a check before a paid call), and what
was answered is never asked twice. When everything asked for is answered, ``tell`` gets the logged replies. A model's reply
that was cut at its limit of tokens is asked for once more with twice that limit (:mod:`agents.core.step_turn`).

Guarantees: both may be called any number of times, in any process; for equal arguments they return equal values. They
see no clock, no randomness, no environment. ``tell`` is called only with replies that were recorded, so a recorded case
gives the same events again for ever. A step that cannot go on raises :class:`StepFailure`.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from agents.core.case_core import Replies
from schemas.effects import Effect, Failure, Reply
from schemas.events import Event

StepRequest = Event | Effect | tuple[Effect, ...]
R = TypeVar("R")


class On:
    """The heads that lead to a step: an event type, and optionally the value of one routing field."""

    def __init__(self, event: type[Event], **routes: str) -> None:
        self.event = event
        self.routes = routes

    def __repr__(self) -> str:
        routes = "".join(f", {k}={v!r}" for k, v in self.routes.items())
        return f"On({self.event.__name__}{routes})"


class Step(Protocol):
    """The contract described in the module docstring. Each step's file holds one instance, as ``STEP``.

    ``case`` is that of the step's flow: a ``Case`` or a ``Turn``.
    """

    @property
    def name(self) -> str: ...
    @property
    def takes(self) -> tuple[On, ...]: ...
    @property
    def emits(self) -> tuple[type[Event], ...]: ...
    def ask(self, case: Any) -> StepRequest: ...
    def tell(self, case: Any, replies: Replies) -> Event: ...


class StepFailure(Exception):  # noqa: N818 - it carries a Failure, the field's term for the value
    """A step cannot go on. The runtime logs the failure as ``StepFailed`` and derives the outcome from it."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(f"{failure.kind}: {failure.message}")
        self.failure = failure


def needed(reply: Reply | None, kind: type[R]) -> R:
    """Return the reply if it is of this type.

    Raises:
        StepFailure: with the reply itself if it is a :class:`~schemas.effects.Failure`; with invalid_output if it is
            missing or of another type.
    """
    if isinstance(reply, kind):
        return reply
    if isinstance(reply, Failure):
        raise StepFailure(reply)
    raise StepFailure(invalid_output(f"expected {kind.__name__}, got {type(reply).__name__}"))


def invalid_output(message: str) -> Failure:
    """Return the failure of a reply that breaks its schema or bounds: one more request, then the case degrades."""
    return Failure(kind="invalid_output", message=message, retryable=True)


def only_reply(replies: Replies) -> Any:
    """Return the reply for a step that asks for one effect, or None if there is none."""
    return replies.calls[-1].reply if replies.calls else None
