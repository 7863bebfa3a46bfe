"""The state that every kind of case has: head, replies and failures, and the transition for one more event.

The runtime uses only this part of a case. Each kind of case (:mod:`agents.core.case`, :mod:`agents.research.turn`) adds
the data of its own events. A case is immutable, so a step that runs for seconds keeps the state that it started from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, TypedDict, TypeVar

import msgspec
from msgspec.structs import replace

from schemas.budget import ClaimKind
from schemas.calls import Call, CallKind
from schemas.config import Snapshot
from schemas.effects import CallModel, Effect, Failure, ModelReply, Reply, request_hash, widened
from schemas.events import TERMINAL, EffectCompleted, Event, StepFailed, StepStarted
from schemas.signals import PromptUse

R = TypeVar("R")
C = TypeVar("C", bound="CaseCore")
Apply = Mapping[type[Event], Callable[[Any, Any], dict[str, Any]]]
"""Maps an event type to the changes that it makes in one kind of case, beside those made in every case."""


class Replies(msgspec.Struct, frozen=True):
    """The replies to a step's effects so far, in log order."""

    calls: tuple[Call, ...] = ()

    def of(self, effect: Effect) -> Reply | None:
        """Return the latest reply to this effect, or None if there is none yet.

        A model's reply that was cut does not count: the reply to the second request, with a larger limit, replaces it.
        """
        reply = self._latest(request_hash(effect))
        if is_cut(reply) and isinstance(effect, CallModel) and (again := widened(effect)) is not None:
            return self._latest(request_hash(again))
        return reply

    def all(self, kind: type[R]) -> tuple[R, ...]:
        """Return all replies of this type, such as ``SearchReply`` or ``Failure``."""
        return tuple(c.reply for c in self.calls if isinstance(c.reply, kind))

    @property
    def at(self) -> datetime | None:
        """The time of the last reply (UTC): the only clock that a step may read."""
        return max((c.replied_at for c in self.calls), default=None)

    def _latest(self, wanted: str) -> Reply | None:
        return next((c.reply for c in reversed(self.calls) if c.request_hash == wanted), None)


def is_cut(reply: Reply | None) -> bool:
    """Return whether this is a model's reply that ended at its limit of tokens."""
    return isinstance(reply, Failure) and reply.kind == "cut"


class CaseCore(msgspec.Struct, frozen=True, kw_only=True):
    """The state that the runtime uses.

    ``seq`` is the number of accepted events before the head. Times are UTC log times. ``denied`` lists the kinds of
    calls that the budget denied, each once. ``config_hash`` is the configuration that the opening event pins.
    """

    case_id: str
    run_id: str
    opened_at: datetime
    head: Any
    head_id: str
    head_at: datetime
    config_hash: str = ""
    seq: int = 0
    pinned: Snapshot | None = Snapshot()
    failures: tuple[StepFailed, ...] = ()
    replies: Replies = Replies()
    prompts: tuple[PromptUse, ...] = ()
    model: str | None = None
    denied: tuple[CallKind, ...] = ()

    @property
    def config(self) -> Snapshot:
        """The pinned configuration. The runtime never gives a step a case whose snapshot has not arrived.

        Raises:
            LookupError: the snapshot has not arrived.
        """
        if self.pinned is None:
            raise LookupError(f"the snapshot {self.config_hash} of case {self.case_id} has not arrived")
        return self.pinned

    @property
    def closed(self) -> bool:
        """Return whether the head is a terminal event."""
        return isinstance(self.head, TERMINAL)

    @property
    def deadline(self) -> datetime:
        """The time limit of the case: ``CASE_DEADLINE_SECONDS`` after it was opened."""
        return self.opened_at + timedelta(seconds=self.config.case_deadline_seconds)

    @property
    def deep_deadline(self) -> datetime:
        """The time limit of the deep path: 80 % of the time, so that a fifth remains for the last resort."""
        return self.opened_at + timedelta(seconds=self.config.case_deadline_seconds * 0.8)

    @property
    def claim_kinds(self) -> tuple[ClaimKind, ...]:
        """The kinds of claim for which the budget has shares."""
        return ()

    @property
    def source_group(self) -> str:
        """The group of the news' source, whose share of the budget pays for the case's calls; "" without news."""
        return ""

    @property
    def is_backlog(self) -> bool:
        """Return whether fresher cases go first: the news was old when it arrived."""
        return False

    @property
    def has_fallback(self) -> bool:
        """Return whether the case could still end with a useful result if no model answered from now on."""
        return True

    def is_last_resort(self, step: str) -> bool:
        """Return whether this step is the last resort: if it fails, the case fails."""
        raise NotImplementedError


class Opening(TypedDict):
    """The log's data of an opening event. ``at`` is its time (UTC); ``config`` is None until its snapshot arrives."""

    case_id: str
    event_id: str
    run_id: str
    at: datetime
    config: Snapshot | None


def opened(event: Any, by: Opening) -> dict[str, Any]:
    """Return the fields that every case takes from its opening event."""
    return {
        "case_id": by["case_id"],
        "run_id": by["run_id"],
        "opened_at": by["at"],
        "head": event,
        "head_id": by["event_id"],
        "head_at": by["at"],
        "config_hash": event.config_hash,
        "pinned": by["config"],
    }


def moved(case: C, event: Event, *, event_id: str, at: datetime, apply: Apply) -> C:
    """Return the state after one more accepted event: the changes of every case, and those in ``apply``."""
    calls = event.calls
    changes = apply.get(type(event), _nothing)
    if isinstance(event, EffectCompleted):
        more = changes(case, event)
        return replace(case, replies=Replies(case.replies.calls + calls), **_credits(case, calls), **more)
    bare = replace(event, calls=()) if calls else event
    return replace(
        case,
        head=bare,
        head_id=event_id,
        head_at=at,
        seq=case.seq + 1,
        replies=_replies_kept(case, event),
        failures=(*case.failures, bare) if isinstance(bare, StepFailed) else _failures_kept(case, bare),
        **_credits(case, calls),
        **changes(case, bare),
    )


def _replies_kept(case: CaseCore, event: Event) -> Replies:
    # Replies survive a failed attempt, so a retry asks only for what is missing. A failure counts as a missing reply,
    # except that of a reply that was cut: asked for with the same limit, it would be cut again.
    if not case.replies.calls:
        return case.replies
    if isinstance(event, StepFailed | StepStarted):
        kept = [c for c in case.replies.calls if not isinstance(c.reply, Failure) or is_cut(c.reply)]
        answered = (*case.replies.calls, *event.calls)
        if isinstance(event, StepFailed) and _broke_its_schema(event.failure, answered):
            # Request the last model reply again: each reply is read before the next one.
            bad = next((c for c in reversed(kept) if isinstance(c.reply, ModelReply)), None)
            kept = [c for c in kept if c is not bad]
        return Replies(tuple(kept))
    return Replies()


def _broke_its_schema(failure: Failure, answered: tuple[Call, ...]) -> bool:
    # An adapter's own invalid_output is a failed reply and counts as missing; it does not invalidate another reply.
    return failure.kind == "invalid_output" and all(call.reply != failure for call in answered)


def _failures_kept(case: CaseCore, event: Event) -> tuple[StepFailed, ...]:
    return case.failures if isinstance(event, StepStarted) else ()


def denied_kinds(calls: tuple[Call, ...]) -> tuple[CallKind, ...]:
    """Return the kinds of calls that the budget denied, each once, in order."""
    return tuple(dict.fromkeys(c.kind for c in calls if c.error == "budget"))


def _credits(case: CaseCore, calls: tuple[Call, ...]) -> dict[str, Any]:
    if not calls:
        return {}
    new = [kind for kind in denied_kinds(calls) if kind not in case.denied]
    return {**({"denied": (*case.denied, *new)} if new else {}), **_prompts_used(case, calls)}


def _prompts_used(case: CaseCore, calls: tuple[Call, ...]) -> dict[str, Any]:
    used = {
        PromptUse(name=c.prompt_name, version=c.prompt_version or "", hash=c.prompt_hash or ""): c.model
        for c in calls
        if c.kind == "model" and c.prompt_name is not None
    }
    if not used:
        return {}
    new = tuple(p for p in used if p not in case.prompts)
    return {"prompts": case.prompts + new, "model": next(reversed(used.values())) or case.model}


def _nothing(_case: Any, _event: Any) -> dict[str, Any]:
    return {}
