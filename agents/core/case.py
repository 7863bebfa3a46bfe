"""A case of the news pipeline: its state, and the fold that makes it from its events.

``fold`` is the only way in which a case changes. It is pure and total over accepted events: the runtime, recovery, the
backtest and the case view all build the same state from the same log.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from agents.core.case_core import Apply, CaseCore, Replies, denied_kinds, moved
from schemas import events as ev
from schemas.config import Snapshot
from schemas.evidence import Page
from schemas.news import News
from schemas.signals import Draft

__all__ = ["SINGLE_PASS", "Case", "Replies", "denied_kinds", "fold", "open_case"]

SINGLE_PASS = "single_pass"
"""The step that a case without the deep path ends by: its last resort."""


class Case(CaseCore, frozen=True, kw_only=True):
    """The state of one news item's case."""

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
    def has_fallback(self) -> bool:
        """Whether there is a preliminary signal to fall back on."""
        return self.triaged is not None

    def is_last_resort(self, step: str) -> bool:
        """The single-pass analysis, and whatever a degraded case does."""
        return self.degraded is not None or step == SINGLE_PASS


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
        config_hash=event.config_hash,
        pinned=config,
    )


def fold(case: Case, event: ev.Event, *, event_id: str, at: datetime) -> Case:
    """Return the state after one more accepted event."""
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
