"""The contract of a step: two pure functions, before and after the replies of the outside world.

    class Greet:
        name, takes, emits = "greet", (On(EventReceived),), (CaseTriaged,)
        def ask(self, case): return CallModel(...)                 # which effects does the step need?
        def tell(self, case, replies): return CaseTriaged(...)     # which event follows from the replies?

``ask`` returns an event (no effect is needed), one effect, or a tuple of effects. The reply to one effect goes straight
to ``tell``. For a tuple, each reply is logged as it arrives (``EffectCompleted``), and ``ask`` is called again with the
replies in ``case.replies``. It may then add effects that depend on them (a tool loop, a check before a paid call). No
effect with a reply is requested twice. When all effects have replies, ``tell`` gets the logged replies. A model reply that
was cut at its token limit is requested once more with twice that limit (:mod:`agents.core.step_turn`).

Guarantees: both may be called any number of times, in any process; for equal arguments they return equal values. They
see no clock, no randomness, no environment. ``tell`` is called only with replies that were recorded, so a recorded case
gives the same events for ever. A step that cannot continue raises :class:`StepFailure`.
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


class AskOnly:
    """A step without effects: ``ask`` gives its event, so the runtime never calls ``tell``."""

    def tell(self, case: Any, replies: Replies) -> Event:
        raise NotImplementedError("this step has no effects")


class StepFailure(Exception):  # noqa: N818 - it carries a Failure, the field's term for the value
    """A failure that stops a step. The runtime logs it as ``StepFailed`` and derives the outcome."""

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
    """Return the failure for a reply that breaks its schema or bounds. It is requested once more, then the case degrades."""
    return Failure(kind="invalid_output", message=message, retryable=True)


def only_reply(replies: Replies) -> Any:
    """Return the reply of a step with one effect, or None."""
    return replies.calls[-1].reply if replies.calls else None
