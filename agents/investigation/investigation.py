"""The state of an investigation (a case of the research journal), and the fold that builds it from events."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar, Unpack

import msgspec

from agents.core.case_core import Apply, Opening, moved, opened
from agents.core.inquiry import ROUNDS, Inquiry, done
from agents.evidence.compiled import compiled
from schemas.budget import ClaimKind
from schemas.events import CancelRequested, Event, StepFailed
from schemas.evidence import MemoryEntry
from schemas.research_events import (
    ClaimsCritiqued,
    ClaimsStated,
    FinishRequested,
    InvestigationAsked,
    InvestigationFramed,
    Limits,
    SubQuestion,
)
from schemas.signals import NO_ASSET, EventType, StatedClaim

BRIEF = "brief"
"""The step that writes the brief: an investigation's last resort."""


class Topic(msgspec.Struct, frozen=True, kw_only=True):
    """The subject as a source of queries. ``asset``: the token of that name or party, ``UNKNOWN`` for most subjects."""

    summary: str
    entity: str | None
    asset: str
    asset_name: str = ""
    event_type: EventType = "other"


class Investigation(Inquiry, frozen=True, kw_only=True):
    """The state of one investigation.

    ``finishing``: a person asked to finish or a step failed, so the brief is written from what there is.
    """

    open_ended: ClassVar[bool] = True

    asked: InvestigationAsked
    framed: InvestigationFramed | None = None
    found: ClaimsStated | None = None
    critiqued: ClaimsCritiqued | None = None
    stopped: CancelRequested | None = None
    finishing: bool = False
    failed: StepFailed | None = None

    @property
    def about(self) -> Topic:
        return self.memo.once(_topic, self.asked.subject, compiled(self.config.tables))

    @property
    def text(self) -> str:
        return self.asked.subject

    @property
    def stated(self) -> StatedClaim:
        return StatedClaim(subject=self.asked.subject)

    @property
    def as_of(self) -> datetime:
        return self.asked.as_of

    @property
    def language(self) -> str:
        return self.asked.language

    @property
    def limits(self) -> Limits:
        return self.asked.limits

    @property
    def memories(self) -> tuple[MemoryEntry, ...]:
        return self.framed.memories if self.framed else ()

    @property
    def claim_kinds(self) -> tuple[ClaimKind, ...]:
        return ("investigation",)

    @property
    def next_questions(self) -> tuple[SubQuestion, ...]:
        """The sub-questions of the frame, then one per keyword of the latest expansion."""
        if not self.plans:
            return self.framed.questions if self.framed else ()
        if not self.expansions:
            return ()
        subject = self.asked.subject
        return tuple(SubQuestion(question=word, query=f"{subject} {word}") for word in self.expansions[-1].keywords)

    def is_last_resort(self, step: str) -> bool:
        """True for the step that writes the brief, and for every step of an investigation that is finishing."""
        return self.finishing or step == BRIEF


def _topic(subject: str, tables: Any) -> Topic:
    tokens = [asset for entity in tables.entities.exactly(subject) for asset in entity.assets]
    asset = next(iter(tokens), tables.ticker_of(subject)) or NO_ASSET
    return Topic(summary=subject, entity=subject, asset=asset, asset_name=subject if asset != NO_ASSET else "")


def open_investigation(event: InvestigationAsked, **by: Unpack[Opening]) -> Investigation:
    return Investigation(asked=event, **opened(event, by))


def fold_investigation(case: Investigation, event: Event, *, event_id: str, at: datetime) -> Investigation:
    return moved(case, event, event_id=event_id, at=at, apply=_APPLY)


def _failed(_case: Investigation, event: StepFailed) -> dict[str, Any]:
    return {} if event.outcome == "retry" else {"finishing": True, "failed": event}


_APPLY: Apply = {
    **ROUNDS,
    StepFailed: _failed,
    FinishRequested: lambda _c, _e: {"finishing": True},
    CancelRequested: lambda _c, e: {"stopped": e},
    InvestigationFramed: lambda c, e: done(c, framed=e),
    ClaimsStated: lambda c, e: done(c, found=e),
    ClaimsCritiqued: lambda c, e: done(c, critiqued=e),
}
