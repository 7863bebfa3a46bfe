"""Calls, and the events that the runtime writes into every journal.

A call is the record of one model or tool call, logged in the same write as the event that it paid for. Path events move the
case's head (``EffectCompleted`` is the one that does not). A field that routes is a ``Literal``; the registry reads its
values and refuses a graph in which one of them leads nowhere, or to two steps.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Literal

import msgspec

from schemas.effects import (
    CallModel,
    Failure,
    FetchCandles,
    FetchMarket,
    FindBrief,
    FindConcerned,
    FindEarlier,
    FindSignals,
    FindStory,
    OpenPart,
    PublishNews,
    Recall,
    Reply,
    Scrape,
    Search,
)
from schemas.errors import FailureKind
from schemas.evidence import ProviderMode

__all__ = ["ProviderMode"]  # passed on; a module's own names need no list

CallKind = Literal[
    "model",
    "search",
    "scrape",
    "recall",
    "market",
    "duplicate_check",
    "earlier_claims",
    "story",
    "signals",
    "briefs",
    "news",
]
KIND_OF: dict[type, CallKind] = {
    CallModel: "model",
    Search: "search",
    Scrape: "scrape",
    Recall: "recall",
    FetchMarket: "market",
    FetchCandles: "market",
    FindSignals: "signals",
    FindBrief: "briefs",
    PublishNews: "news",
    FindEarlier: "duplicate_check",
    FindConcerned: "earlier_claims",
    FindStory: "story",
    OpenPart: "news",
}
"""Type of an effect → the kind of its call."""


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """A site refused to show a page. ``kind``: it showed a captcha, or returned a refusing status.

    ``strategy``: the main reader or the plain one. ``route``: direct, or the name of a proxy.
    """

    kind: Literal["captcha", "refused"]
    strategy: Literal["main", "plain"]
    route: str
    status: int


class Call(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One call: its request, reply, duration and cost.

    ``cost_usd`` is None when the price is unknown, never 0 then; 0 means free. ``latency_ms`` is wall time at the adapter.
    ``usage_input_tokens`` includes the cached ones. ``attempt`` counts from 1 within the step. ``replied_at`` is UTC.
    ``cached`` marks a reply of the search cache, ``repair`` a second call that repairs an invalid reply. ``grant`` is the
    reservation on the ``budget`` topic that paid for it. ``search_key`` is the key of equal searches of any case, by which the
    search cache finds a reply. ``refusals`` preceded the reply, in order. ``units``: number of requests that the provider
    bills, 0 if the call is free, cached or denied.
    """

    kind: CallKind
    provider: str
    mode: ProviderMode
    request_hash: str
    reply: Reply
    latency_ms: float
    replied_at: datetime
    cost_usd: Decimal | None
    cost_source: str = ""
    model: str | None = None
    prompt_name: str | None = None
    prompt_version: str | None = None
    prompt_hash: str | None = None
    usage_input_tokens: int = 0
    usage_cached_tokens: int = 0
    usage_output_tokens: int = 0
    usage_thinking_tokens: int = 0
    attempt: int = 1
    cached: bool = False
    repair: bool = False
    error: FailureKind | None = None
    grant: str | None = None
    search_key: str | None = None
    refusals: tuple[Refusal, ...] = ()
    units: int = 0

    @property
    def paid(self) -> bool:
        """Return whether money or quota may have been spent. Unknown prices count as spent."""
        return self.cost_usd is None or self.cost_usd > 0


PREFIX = "newsproof."


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag=False):
    """Base of all events. ``calls`` are the calls whose replies led to this event, in the order of the replies."""

    calls: tuple[Call, ...] = ()


class CaseFailed(Event, tag="newsproof.case_failed", kw_only=True, frozen=True):
    """The end of a case that failed, with the last step and its attempts. A dead letter informs the operator."""

    reason: str
    failed_step: str
    attempts: int


class EffectCompleted(Event, tag="newsproof.effect_completed", kw_only=True, frozen=True):
    """One reply of a step that needs several. Its cause is the head, which it does not move."""

    step: str
    request_hash: str
    occurrence: int = 0


class StepFailed(Event, tag="newsproof.step_failed", kw_only=True, frozen=True):
    """A step failed. ``outcome`` is decided once and logged here, so readers never decide it.

    ``attempt`` counts the failures of this step in a row, from 1; ``retry_at`` is set when ``outcome`` is retry.
    """

    step: str
    failure: Failure
    attempt: int
    outcome: Literal["retry", "degrade", "give_up"]
    retry_at: datetime | None = None


class StepStarted(Event, tag="newsproof.step_started", kw_only=True, frozen=True):
    """Written before a suspect step runs alone, so that a step that kills its process is found.

    ``handed_back``: the worker released the case, at a rebalance or its own end, while the step was running or due. Then the
    step killed no process, and the next owner of the case runs it alone again.
    """

    step: str
    crashes: int
    handed_back: bool = False


class CancelRequested(Event, tag="newsproof.cancel_requested", kw_only=True, frozen=True):
    """A command from outside the case: end it. Accepted once, at any head."""

    requested_by: str
    reason: str
