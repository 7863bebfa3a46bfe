"""The contract of a step: two pure functions around what the world answers.

    class Greet:
        name, takes, emits = "greet", (On(EventReceived),), (CaseTriaged,)
        def ask(self, case): return CallModel(...)                 # what do we need from the world?
        def tell(self, case, replies): return CaseTriaged(...)     # what does the answer mean?

``ask`` returns an event (nothing is needed), one effect, or a tuple of effects. The reply to one effect goes straight to
``tell``. Of a tuple, each reply is logged as it arrives (``EffectCompleted``) and ``ask`` is asked again with the replies
in ``case.replies``: it may add effects that depend on them (a tool loop, a check before a paid call), and what was
answered is never asked twice. When everything asked for is answered, ``tell`` gets the logged replies.

Guarantees: both may be called any number of times, in any process; for equal arguments they return equal values. They
see no clock, no randomness, no environment. ``tell`` is called only with replies that were recorded, so a recorded case
gives the same events again for ever. A step that cannot go on raises :class:`StepFailure`.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from agents.core.case_core import Replies
from schemas.effects import Effect, Failure, Reply
from schemas.events import Event

Asked = Event | Effect | tuple[Effect, ...]
R = TypeVar("R")


class On:
    """Which head leads to a step: an event type, and the values of its routing fields where it has some."""

    def __init__(self, event: type[Event], **routes: str) -> None:
        self.event = event
        self.routes = routes

    def __repr__(self) -> str:
        routes = "".join(f", {k}={v!r}" for k, v in self.routes.items())
        return f"On({self.event.__name__}{routes})"


class Step(Protocol):
    """See the module's text; every file of ``agents/verification`` and ``agents/research`` holds one, as ``STEP``.

    ``case`` is of the flow that the step belongs to: a ``Case`` or a ``Turn``.
    """

    @property
    def name(self) -> str: ...
    @property
    def takes(self) -> tuple[On, ...]: ...
    @property
    def emits(self) -> tuple[type[Event], ...]: ...
    def ask(self, case: Any) -> Asked: ...
    def tell(self, case: Any, replies: Replies) -> Event: ...


class StepFailure(Exception):  # noqa: N818 - it carries a Failure, the field's term for the value
    """A step cannot go on. The runtime logs the failure as ``StepFailed`` and decides by it what comes next."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(f"{failure.kind}: {failure.message}")
        self.failure = failure


def needed(reply: Reply | None, kind: type[R]) -> R:
    """Return the reply if it is of this type.

    Raises:
        StepFailure: when it is a :class:`~schemas.effects.Failure` (that one), missing, or of another type.
    """
    if isinstance(reply, kind):
        return reply
    if isinstance(reply, Failure):
        raise StepFailure(reply)
    raise StepFailure(invalid_output(f"expected {kind.__name__}, got {type(reply).__name__}"))


def invalid_output(message: str) -> Failure:
    """Return the failure of a reply that breaks its schema or its bounds; it is asked for once more, then degrades."""
    return Failure(kind="invalid_output", message=message, retryable=True)


def only_reply(replies: Replies) -> Any:
    """Return the reply of a step that asked for one effect."""
    return replies.calls[-1].reply if replies.calls else None
