"""The state of a news case, and the fold that builds it from events.

Only ``fold`` changes a case. It is pure and total over accepted events, so the runtime, recovery, the backtest and the
case view all build the same state from the same log.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Unpack

import msgspec

from agents.core.case_core import Apply, CaseCore, Opening, Replies, denied_kinds, moved, opened
from agents.core.worked_out import WorkedOut
from schemas import events as ev
from schemas.budget import ClaimKind
from schemas.evidence import Page
from schemas.news import News
from schemas.signals import Draft

__all__ = ["ALWAYS_DEEP", "SINGLE_PASS", "Case", "Replies", "denied_kinds", "fold", "open_case"]

SINGLE_PASS = "single_pass"
"""The step that ends a case without the deep path: its last resort."""
ALWAYS_DEEP = frozenset({"depeg", "liquidation", "hack"})
"""Event types that take the deep path at any confidence. Searches for them have a share of the day's units to themselves."""


class Case(CaseCore, frozen=True, kw_only=True):
    """The state of the case of one news item."""

    received: ev.EventReceived
    triaged: ev.CaseTriaged | None = None
    context: ev.ContextGathered | None = None
    plans: tuple[ev.ToolPlanned, ...] = ()
    searches: tuple[ev.SearchCompleted, ...] = ()
    scrapes: tuple[ev.PagesScraped, ...] = ()
    expansions: tuple[ev.KeywordsExpanded, ...] = ()
    critique: ev.EvidenceCritiqued | None = None
    degraded: ev.CaseDegraded | None = None
    retractions: tuple[ev.RetractionFound, ...] = ()
    steps_done: int = 0
    worked_out: WorkedOut = msgspec.field(default_factory=WorkedOut)

    @property
    def news(self) -> News:
        return self.received.news

    @property
    def as_of(self) -> datetime:
        """The case's own time (UTC). Evidence published after it must not be used."""
        return self.received.news.as_of

    @property
    def language(self) -> str:
        """zh, en or other: set by the listener or detected at intake."""
        return self.received.language

    @property
    def draft(self) -> Draft:
        """Triage's draft of the signal.

        Raises:
            LookupError: before triage.
        """
        if self.triaged is None:
            raise LookupError(f"case {self.case_id} has not been triaged")
        return self.triaged.draft

    @property
    def claim_kinds(self) -> tuple[ClaimKind, ...]:
        if self.triaged is None:
            return ()
        claim = self.triaged.claim
        doubtful: tuple[ClaimKind, ...] = ("doubtful",) if claim and claim.modality in ("rumoured", "planned") else ()
        return (*doubtful, "forced") if self.triaged.draft.event_type in ALWAYS_DEEP else doubtful

    @property
    def opened_pages(self) -> tuple[Page, ...]:
        """Every page opened for the case: requested by a plan, or found by a search."""
        return tuple(p for s in self.scrapes for p in s.pages) + tuple(p for s in self.searches for p in s.pages)

    @property
    def has_fallback(self) -> bool:
        """Whether the case has a preliminary signal to fall back on."""
        return self.triaged is not None

    def is_last_resort(self, step: str) -> bool:
        """True for the single-pass analysis, and for every step of a degraded case."""
        return self.degraded is not None or step == SINGLE_PASS


def open_case(event: ev.EventReceived, **by: Unpack[Opening]) -> Case:
    return Case(received=event, **opened(event, by))


def fold(case: Case, event: ev.Event, *, event_id: str, at: datetime) -> Case:
    return moved(case, event, event_id=event_id, at=at, apply=_APPLY)


def _done(case: Case, **changes: Any) -> dict[str, Any]:
    return {"steps_done": case.steps_done + 1, **changes}


_APPLY: Apply = {
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
