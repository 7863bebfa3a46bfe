"""An inquiry: the state of plans, searches and opened pages that a news case and an investigation share."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar, Protocol

import msgspec

from agents.core.case_core import Apply, CaseCore
from agents.core.memo import Memo
from schemas import events as ev
from schemas.evidence import MemoryEntry, Page
from schemas.research_events import Limits, SubQuestion
from schemas.signals import EventType, StatedClaim


class About(Protocol):
    """The source of queries: a case's draft, or the subject of an investigation."""

    @property
    def summary(self) -> str: ...
    @property
    def event_type(self) -> EventType: ...
    @property
    def asset(self) -> str: ...
    @property
    def asset_name(self) -> str: ...
    @property
    def entity(self) -> str | None: ...


class Inquiry(CaseCore, frozen=True, kw_only=True):
    """The rounds so far, and the properties that each kind of case defines.

    ``open_ended``: the inquiry collects everything about its subject, so no number of pages is enough.
    """

    open_ended: ClassVar[bool] = False

    plans: tuple[ev.ToolPlanned, ...] = ()
    searches: tuple[ev.SearchCompleted, ...] = ()
    scrapes: tuple[ev.PagesScraped, ...] = ()
    expansions: tuple[ev.KeywordsExpanded, ...] = ()
    steps_done: int = 0
    memo: Memo = msgspec.field(default_factory=Memo)

    @property
    def about(self) -> About:
        raise NotImplementedError

    @property
    def text(self) -> str:
        """The text of the news, or the subject."""
        raise NotImplementedError

    @property
    def as_of(self) -> datetime:
        """Its own time (UTC). Evidence published after it must not be used."""
        raise NotImplementedError

    @property
    def language(self) -> str:
        """zh, en or other."""
        raise NotImplementedError

    @property
    def limits(self) -> Limits:
        raise NotImplementedError

    @property
    def is_asked(self) -> bool:
        """Return whether :attr:`about` is known."""
        return True

    @property
    def has_listed_source(self) -> bool:
        """Return whether the source is listed. A person's request counts as listed."""
        return True

    @property
    def stated(self) -> StatedClaim | None:
        """The stated claim with its parts, or None."""
        return None

    @property
    def source_url(self) -> str | None:
        """The address of the text itself, which is no evidence for it."""
        return None

    @property
    def origins(self) -> tuple[str, ...]:
        """Addresses of the pages that the text was made of. Neither they nor other pages of their owners are evidence."""
        return ()

    @property
    def memories(self) -> tuple[MemoryEntry, ...]:
        return ()

    @property
    def has_memory(self) -> bool:
        """Return whether memory was available, if it was called."""
        return True

    @property
    def next_questions(self) -> tuple[SubQuestion, ...]:
        """The questions of the next round if they are already decided; else empty, and a plan decides."""
        return ()

    @property
    def opened_pages(self) -> tuple[Page, ...]:
        """Every page opened so far: requested by a plan, or found by a search."""
        return tuple(p for s in self.scrapes for p in s.pages) + tuple(p for s in self.searches for p in s.pages)


def done(case: Inquiry, **changes: Any) -> dict[str, Any]:
    """Return the changes of an event that completes one step."""
    return {"steps_done": case.steps_done + 1, **changes}


ROUNDS: Apply = {
    ev.ToolPlanned: lambda c, e: done(c, plans=(*c.plans, e)),
    ev.SearchCompleted: lambda c, e: done(c, searches=(*c.searches, e)),
    ev.PagesScraped: lambda c, e: done(c, scrapes=(*c.scrapes, e)),
    ev.KeywordsExpanded: lambda c, e: done(c, expansions=(*c.expansions, e)),
}
"""The changes that the events of a round make in both kinds of inquiry."""
