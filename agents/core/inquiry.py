"""What is looked into by plans, searches and opened pages: the state that a news case and an investigation have in common."""

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
    """What queries are made of: a case's draft, or the subject of an investigation."""

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
    """The rounds so far, and what each kind of case says of itself.

    ``open_ended``: it looks for whatever there is about its subject, so no number of pages is enough by itself.
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
        """What was written: the news, or the subject."""
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
        """Return whether it is known what to ask for: :attr:`about` can be read."""
        return True

    @property
    def has_listed_source(self) -> bool:
        """Return whether somebody vouches for who brought it; whatever a person asked for counts as such."""
        return True

    @property
    def stated(self) -> StatedClaim | None:
        """The claim, part by part, where one was stated."""
        return None

    @property
    def source_url(self) -> str | None:
        """The address that the text itself came from: no witness for it."""
        return None

    @property
    def origins(self) -> tuple[str, ...]:
        """Addresses of pages that the text was made of: no witnesses for it either, nor are their owners' other pages."""
        return ()

    @property
    def memories(self) -> tuple[MemoryEntry, ...]:
        return ()

    @property
    def has_memory(self) -> bool:
        """Return whether memory answered, as far as it was asked."""
        return True

    @property
    def next_questions(self) -> tuple[SubQuestion, ...]:
        """What the next round is to find out where that is decided already; a plan decides it otherwise."""
        return ()

    @property
    def opened_pages(self) -> tuple[Page, ...]:
        """Every page opened so far: requested by a plan, or found by a search."""
        return tuple(p for s in self.scrapes for p in s.pages) + tuple(p for s in self.searches for p in s.pages)


def done(case: Inquiry, **changes: Any) -> dict[str, Any]:
    """Return the changes of an event that is one step on the way."""
    return {"steps_done": case.steps_done + 1, **changes}


ROUNDS: Apply = {
    ev.ToolPlanned: lambda c, e: done(c, plans=(*c.plans, e)),
    ev.SearchCompleted: lambda c, e: done(c, searches=(*c.searches, e)),
    ev.PagesScraped: lambda c, e: done(c, scrapes=(*c.scrapes, e)),
    ev.KeywordsExpanded: lambda c, e: done(c, expansions=(*c.expansions, e)),
}
"""The changes that the events of a round make in either kind."""
