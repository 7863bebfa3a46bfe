"""The state of a news case, and the fold that builds it from events.

Only ``fold`` changes a case. It is pure and total over accepted events, so the runtime, recovery, the backtest and the
case view all build the same state from the same log.
"""

from __future__ import annotations

from datetime import datetime
from typing import Unpack

from msgspec.structs import replace

from agents.core.case_core import Apply, Opening, Replies, denied_kinds, moved, opened
from agents.core.inquiry import ROUNDS, Inquiry, done
from schemas import events as ev
from schemas.budget import MAX_UNITS, UNLISTED, VERIFICATIONS, ClaimKind
from schemas.evidence import MemoryEntry
from schemas.news import News, is_backlog
from schemas.research_events import Limits
from schemas.signals import Draft, MessagePart, StatedClaim

__all__ = ["ALWAYS_DEEP", "SINGLE_PASS", "Case", "Replies", "denied_kinds", "fold", "open_case"]

SINGLE_PASS = "single_pass"
"""The step that ends a case without the deep path: its last resort."""
ALWAYS_DEEP = frozenset({"depeg", "liquidation", "hack"})
"""Event types that take the deep path at any confidence if a listed source reports them. A share of the day's units is reserved for them."""

WEIGHTY = frozenset({"listing", "regulation", *ALWAYS_DEEP})
"""Event types that move a price at once: a wrong verdict on them costs more than a second request."""
LOOKED_AT_AGAIN = WEIGHTY | {"partnership"}
"""Event types with a second look at unconfirmed cases, once pages are indexed."""


class Case(Inquiry, frozen=True, kw_only=True):
    """The state of the case of one news item, of one further claim of it, or of a second ``look`` at one."""

    received: ev.EventReceived
    look: ev.SecondLookOpened | None = None
    triaged: ev.CaseTriaged | None = None
    story: ev.StoryChecked | None = None
    context: ev.ContextGathered | None = None
    critique: ev.EvidenceCritiqued | None = None
    degraded: ev.CaseDegraded | None = None
    retractions: tuple[ev.RetractionFound, ...] = ()
    corroborated: ev.StoryCorroborated | None = None

    @property
    def signal_case(self) -> str:
        """The id of the case whose signal this case makes: its own, or the first case of a second look."""
        return self.case_id if self.look is None else self.look.of_case

    @property
    def of_others(self) -> tuple[ev.RetractionFound | ev.StoryCorroborated, ...]:
        """Its events about other cases' signals: retractions and a corroboration."""
        return (*self.retractions, *((self.corroborated,) if self.corroborated else ()))

    @property
    def part(self) -> MessagePart | None:
        """Which of several claims of its message this case is about; None where the message makes one."""
        return self.received.part or (self.triaged.part if self.triaged is not None else None)

    @property
    def news(self) -> News:
        """The news, as far as its text is about this case's claim. ``received`` has all of it."""
        return self.received.news if self.part is None else replace(self.received.news, text=self.part.text)

    @property
    def as_of(self) -> datetime:
        """The case's own time (UTC). Evidence published after it must not be used."""
        return self.received.news.as_of if self.look is None else self.look.due_at

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
        forced = self.has_listed_source and self.triaged.draft.event_type in ALWAYS_DEEP
        return (*doubtful, "forced") if forced else doubtful

    @property
    def has_listed_source(self) -> bool:
        """Return whether the listener's mark or ``TRUSTED_SOURCES`` vouches for the source. Only such news is forced."""
        trusted = self.config.trusted_sources
        return self.received.authenticated or trusted is None or self.news.source in trusted

    @property
    def source_group(self) -> str:
        source, group = self.news.source, self.news.extra.get("group")
        if self.news.is_asked:
            return VERIFICATIONS
        if self.received.authenticated:
            return group if isinstance(group, str) and group else source
        return source if source in (self.config.trusted_sources or ()) else UNLISTED

    @property
    def is_backlog(self) -> bool:
        return is_backlog(self.news.published_at, self.opened_at)

    @property
    def about(self) -> Draft:
        return self.draft

    @property
    def is_asked(self) -> bool:
        return self.triaged is not None

    @property
    def text(self) -> str:
        return self.news.text

    @property
    def source_url(self) -> str | None:
        return self.news.url

    @property
    def origins(self) -> tuple[str, ...]:
        return self.news.origins

    @property
    def stated(self) -> StatedClaim | None:
        return self.triaged.claim if self.triaged else None

    @property
    def memories(self) -> tuple[MemoryEntry, ...]:
        return self.context.entries if self.context else ()

    @property
    def has_memory(self) -> bool:
        return self.context is None or self.context.memory != "unavailable"

    @property
    def limits(self) -> Limits:
        """The limits of its configuration; searches are bounded by the day's units alone. A second look has one round."""
        rounds, steps = self.config.deep_analysis_max_tool_calls if self.look is None else 1, self.config.max_steps
        return Limits(rounds=rounds, steps=steps, searches=MAX_UNITS)

    @property
    def has_fallback(self) -> bool:
        """Return whether the case has a preliminary signal to fall back on."""
        return self.triaged is not None

    def is_last_resort(self, step: str) -> bool:
        """True for the single-pass analysis, and for every step of a degraded case."""
        return self.degraded is not None or step == SINGLE_PASS


def open_case(event: ev.EventReceived | ev.SecondLookOpened, **by: Unpack[Opening]) -> Case:
    if isinstance(event, ev.EventReceived):
        return Case(received=event, **opened(event, by))
    received = ev.EventReceived(
        news=event.news, config_hash=event.config_hash, text_hash=event.text_hash, language=event.language,
        authenticated=event.authenticated, part=event.part,
    )  # fmt: skip
    return Case(received=received, look=event, **opened(event, by))


def fold(case: Case, event: ev.Event, *, event_id: str, at: datetime) -> Case:
    return moved(case, event, event_id=event_id, at=at, apply=_APPLY)


_APPLY: Apply = {
    **ROUNDS,
    ev.CaseTriaged: lambda c, e: done(c, triaged=e),
    ev.StoryChecked: lambda c, e: done(c, story=e),
    ev.StoryCorroborated: lambda c, e: done(c, corroborated=e),
    ev.ContextGathered: lambda c, e: done(c, context=e),
    ev.EvidenceCritiqued: lambda c, e: done(c, critique=e),
    ev.CaseDegraded: lambda c, e: done(c, degraded=e),
    ev.RetractionFound: lambda c, e: done(c, retractions=(*c.retractions, e)),
}
