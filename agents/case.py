"""A case: its state, and the fold that makes it from its events.

``fold`` is the only way in which a case changes. It is pure and total over accepted events: the runtime, recovery, the
backtest and the case view all build the same state from the same log. A :class:`Case` is immutable, so a step that runs
for seconds keeps the case as it was when it was asked.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from schemas import events as ev
from schemas.calls import Call, CallKind
from schemas.config import Snapshot
from schemas.effects import Effect, Failure, Reply, request_hash
from schemas.evidence import Page
from schemas.news import News
from schemas.signals import Draft, PromptUse

R = TypeVar("R")


class Replies(msgspec.Struct, frozen=True):
    """The replies that a step has so far, in the order in which they were logged. Found by the effect that asked."""

    calls: tuple[Call, ...] = ()

    def of(self, effect: Effect) -> Reply | None:
        """Return the latest reply to this effect, None while it is unanswered."""
        wanted = request_hash(effect)
        return next((c.reply for c in reversed(self.calls) if c.request_hash == wanted), None)

    def all(self, kind: type[R]) -> tuple[R, ...]:
        """Return every reply of this type, such as ``SearchReply`` or ``Failure``."""
        return tuple(c.reply for c in self.calls if isinstance(c.reply, kind))

    @property
    def at(self) -> datetime | None:
        """When the last of them came (UTC): the only clock that a step may read."""
        return max((c.replied_at for c in self.calls), default=None)


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one case. ``seq`` is the number of accepted events before the head; times are UTC log times.

    ``denied`` names the kinds of calls that the budget denied, each once.
    """

    case_id: str
    run_id: str
    received: ev.EventReceived
    opened_at: datetime
    head: Any
    head_id: str
    head_at: datetime
    seq: int = 0
    pinned: Snapshot | None = Snapshot()
    triaged: ev.CaseTriaged | None = None
    context: ev.ContextGathered | None = None
    plans: tuple[ev.ToolPlanned, ...] = ()
    searches: tuple[ev.SearchCompleted, ...] = ()
    scrapes: tuple[ev.PagesScraped, ...] = ()
    expansions: tuple[ev.KeywordsExpanded, ...] = ()
    critique: ev.EvidenceCritiqued | None = None
    degraded: ev.CaseDegraded | None = None
    retractions: tuple[ev.RetractionFound, ...] = ()
    failures: tuple[ev.StepFailed, ...] = ()
    replies: Replies = Replies()
    prompts: tuple[PromptUse, ...] = ()
    model: str | None = None
    steps_done: int = 0
    denied: tuple[CallKind, ...] = ()

    @property
    def config(self) -> Snapshot:
        """The pinned configuration. A case whose snapshot has not arrived yet is never handed to a step.

        Raises:
            LookupError: while the snapshot has not arrived.
        """
        if self.pinned is None:
            raise LookupError(f"the snapshot {self.received.config_hash} of case {self.case_id} has not arrived")
        return self.pinned

    @property
    def news(self) -> News:
        """The news item that the case is about."""
        return self.received.news

    @property
    def as_of(self) -> datetime:
        """The case's own time: evidence published later is from the future."""
        return self.received.news.as_of

    @property
    def language(self) -> str:
        """zh, en or other: given by the listener or detected at intake."""
        return self.received.language

    @property
    def draft(self) -> Draft:
        """The preliminary signal.

        Raises:
            LookupError: before triage.
        """
        if self.triaged is None:
            raise LookupError(f"case {self.case_id} has not been triaged")
        return self.triaged.draft

    @property
    def opened_pages(self) -> tuple[Page, ...]:
        """Every page that was opened for the case, by a plan or because a search found it."""
        return tuple(p for s in self.scrapes for p in s.pages) + tuple(p for s in self.searches for p in s.pages)

    @property
    def closed(self) -> bool:
        """Whether a terminal event was accepted."""
        return isinstance(self.head, ev.TERMINAL)

    @property
    def deadline(self) -> datetime:
        """When the case must have ended (``CASE_DEADLINE_SECONDS`` after it was opened)."""
        return self.opened_at + timedelta(seconds=self.config.case_deadline_seconds)

    @property
    def deep_deadline(self) -> datetime:
        """When the deep path must have ended, so that the single-pass analysis still has a fifth of the time."""
        return self.opened_at + timedelta(seconds=self.config.case_deadline_seconds * 0.8)


def open_case(
    event: ev.EventReceived, *, case_id: str, event_id: str, run_id: str, at: datetime, config: Snapshot | None
) -> Case:
    """Return the state after ``EventReceived``, with the snapshot that the event pins."""
    return Case(
        case_id=case_id,
        run_id=run_id,
        received=event,
        opened_at=at,
        head=event,
        head_id=event_id,
        head_at=at,
        pinned=config,
    )


def fold(case: Case, event: ev.Event, *, event_id: str, at: datetime) -> Case:
    """Return the state after one more accepted event."""
    calls = event.calls
    if isinstance(event, ev.EffectCompleted):
        return replace(case, replies=Replies(case.replies.calls + calls), **_credits(case, calls))
    bare = replace(event, calls=()) if calls else event
    kept = _replies_kept(case, event)
    moved = _APPLY.get(type(event), _nothing)(case, bare)
    return replace(
        case,
        head=bare,
        head_id=event_id,
        head_at=at,
        seq=case.seq + 1,
        replies=kept,
        failures=(*case.failures, bare) if isinstance(bare, ev.StepFailed) else _failures_kept(case, bare),
        **_credits(case, calls),
        **moved,
    )


def _replies_kept(case: Case, event: ev.Event) -> Replies:
    # Replies survive a failed attempt, so that only what is missing is asked again; failures among them are missing.
    if not case.replies.calls:
        return case.replies
    if isinstance(event, ev.StepFailed | ev.StepStarted):
        return Replies(tuple(c for c in case.replies.calls if not isinstance(c.reply, Failure)))
    return Replies()


def _failures_kept(case: Case, event: ev.Event) -> tuple[ev.StepFailed, ...]:
    return case.failures if isinstance(event, ev.StepStarted) else ()


def denied_kinds(calls: tuple[Call, ...]) -> tuple[CallKind, ...]:
    """Return the kinds of calls that the budget denied, each once, in order."""
    return tuple(dict.fromkeys(c.kind for c in calls if c.error == "budget"))


def _credits(case: Case, calls: tuple[Call, ...]) -> dict[str, Any]:
    new = [kind for kind in denied_kinds(calls) if kind not in case.denied]
    return {**({"denied": (*case.denied, *new)} if new else {}), **_prompts_used(case, calls)}


def _prompts_used(case: Case, calls: tuple[Call, ...]) -> dict[str, Any]:
    used = {
        PromptUse(name=c.prompt_name, version=c.prompt_version or "", hash=c.prompt_hash or ""): c.model
        for c in calls
        if c.kind == "model" and c.prompt_name is not None
    }
    if not used:
        return {}
    new = tuple(p for p in used if p not in case.prompts)
    return {"prompts": case.prompts + new, "model": next(reversed(used.values())) or case.model}


def _nothing(_case: Case, _event: Any) -> dict[str, Any]:
    return {}


def _done(case: Case, **changes: Any) -> dict[str, Any]:
    return {"steps_done": case.steps_done + 1, **changes}


_APPLY: dict[type[ev.Event], Callable[[Case, Any], dict[str, Any]]] = {
    ev.CaseTriaged: lambda c, e: _done(c, triaged=e),
    ev.ContextGathered: lambda c, e: _done(c, context=e),
    ev.ToolPlanned: lambda c, e: _done(c, plans=(*c.plans, e)),
    ev.SearchCompleted: lambda c, e: _done(c, searches=(*c.searches, e)),
    ev.PagesScraped: lambda c, e: _done(c, scrapes=(*c.scrapes, e)),
    ev.KeywordsExpanded: lambda c, e: _done(c, expansions=(*c.expansions, e)),
    ev.EvidenceCritiqued: lambda c, e: _done(c, critique=e),
    ev.CaseDegraded: lambda c, e: _done(c, degraded=e),
    ev.RetractionFound: lambda c, e: _done(c, retractions=(*c.retractions, e)),
}
