"""Events of an investigation: a subject that somebody asked to have looked into. A case of the journal ``research``.

    InvestigationAsked ─► InvestigationFramed ─► ToolPlanned ─► SearchCompleted ─► PagesScraped ─► KeywordsExpanded ─┐
                                                    ▲                                                      │         │
                                                    └────────────────────── plan ──────────────────────────┘         │
                                        BriefWritten ◄─ ClaimsStated, ClaimsCritiqued ◄─ critique ───────────────────┘

The events between the frame and the critique are those of the news pipeline (:mod:`schemas.events`). A stop ends it as
``AnswerStopped``, as it ends a turn of the chat; ``FinishRequested`` goes straight to a brief of what is there.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

from schemas.evidence import Credibility, MemoryEntry, PageStance, PreviousBrief, ReadStance
from schemas.runtime_events import Event
from schemas.signals import EventType, Modality, Verdict


class Limits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one investigation may take: rounds of searches, steps on the way to its brief, and searches that are paid."""

    rounds: int = 3
    steps: int = 10
    searches: int = 12


class InvestigationAsked(Event, tag="newsproof.investigation_asked", kw_only=True, frozen=True):
    """An investigation was opened. It pins the configuration that every later step decides by.

    ``question``: as it was asked; ``subject``: what of it is looked into. ``language``: zh, en or other, of the question.
    ``as_of`` (UTC): nothing that was published later is used. ``previous``: the investigation to compare with; None: the
    newest finished one of the same subject that looked no later. ``watch``: the watch that asked, if one did.
    """

    question: str
    subject: str
    as_of: datetime
    config_hash: str
    language: str
    limits: Limits = Limits()
    previous: str | None = None
    watch: str | None = None


class SubQuestion(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing to find out about the subject, and what to search for it. ``platforms``: on social platforms, not the web."""

    question: str
    query: str
    platforms: bool = False


class InvestigationFramed(Event, tag="newsproof.investigation_framed", kw_only=True, frozen=True):
    """What is to be found out, in one to five sub-questions, and what was known before.

    ``previous``: None where nothing was found out before. ``unread``: why earlier briefs or memories could not be read.
    """

    questions: tuple[SubQuestion, ...]
    previous: PreviousBrief | None = None
    memories: tuple[MemoryEntry, ...] = ()
    unread: tuple[str, ...] = ()


class FoundClaim(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One testable sentence that pages tell of the subject. ``told_by``: numbers of the references that tell it.

    ``question``: which of the frame's sub-questions it answers, from 1; None where it answers none of them.
    """

    claim: str
    event_type: EventType = "other"
    modality: Modality = "asserted"
    told_by: tuple[int, ...] = ()
    question: int | None = None


class ClaimsStated(Event, tag="newsproof.claims_stated", kw_only=True, frozen=True):
    """The claims that the pages make on the subject, to be judged one by one; none where nothing was found."""

    claims: tuple[FoundClaim, ...]


class ClaimReading(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the critic read of one claim. ``stances``: None where no critic read the pages, with the reason in ``unread``.

    ``critic``: its verdict of the claim. ``unquoted``: references whose quote is not on their page.
    """

    claim: FoundClaim
    stances: tuple[PageStance, ...] | None = None
    critic: Literal["supported", "refuted", "conflicting", "not_enough_evidence"] | None = None
    unquoted: tuple[int, ...] = ()
    unread: str = ""


class ClaimsCritiqued(Event, tag="newsproof.claims_critiqued", kw_only=True, frozen=True):
    """What was read of each claim, in the order of :class:`ClaimsStated`."""

    readings: tuple[ClaimReading, ...]


class BriefReference(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A page that a brief cites by its number, from 1. ``first_seen``: no earlier brief of the subject had it."""

    number: int
    title: str
    url: str
    passage: str
    credibility: Credibility
    official: bool = False
    published_at: datetime | None = None
    first_seen: bool = False


class ClaimEvidence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How one page stands to a claim. ``quote``: the words on it that were checked, None where word rules alone read it."""

    number: int
    stance: ReadStance
    quote: str | None = None


class BriefClaim(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A claim as it was judged. ``evidence``: the pages that say anything of it; ``supporting_sources``: once per owner."""

    claim: str
    verdict: Verdict
    supporting_sources: int = 0
    evidence: tuple[ClaimEvidence, ...] = ()


class BriefSentence(msgspec.Struct, frozen=True, kw_only=True):
    """One sentence of a brief, without its citations, and the numbers of the references that it rests on: at least one.

    ``claim``: the place, from 0, of the claim that it tells of among the brief's claims.
    """

    text: str
    references: tuple[int, ...]
    claim: int


class Change(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that is new since the previous brief, worked out by code.

    ``new_claim``: no claim of that brief is the same. ``verdict_changed``: it was judged as ``before``. ``new_page``: a
    page that was not there, about a claim that was. ``claim``: its place among the brief's claims, from 0; ``testable``: a
    page bears the claim out or denies it in words that were checked.
    """

    kind: Literal["new_claim", "verdict_changed", "new_page"]
    claim: int
    references: tuple[int, ...]
    before: str | None = None
    testable: bool = False


class BriefWritten(Event, tag="newsproof.brief_written", kw_only=True, frozen=True):
    """The end of an investigation with a brief. ``subject_key``: what equal subjects have in common.

    ``established``: what is confirmed or likely. ``disputed``: what is denied, by others or by those concerned.
    ``unsettled``: what is said and not borne out. ``new_since``: what of all this changed since ``previous``, the
    investigation that it was compared with; empty without one. ``not_found``: sub-questions that no claim answers.
    ``not_done``: what was not done, and why. ``removed``: citations of references that do not exist, and sentences that
    were left without one. ``path``: partial where a step failed or somebody asked to finish. ``published``: the cases of the
    news that it opened, for a watch.
    """

    subject: str
    subject_key: str
    as_of: datetime
    language: str
    established: tuple[BriefSentence, ...] = ()
    disputed: tuple[BriefSentence, ...] = ()
    unsettled: tuple[BriefSentence, ...] = ()
    claims: tuple[BriefClaim, ...] = ()
    references: tuple[BriefReference, ...] = ()
    new_since: tuple[Change, ...] = ()
    previous: str | None = None
    previous_as_of: datetime | None = None
    questions: tuple[str, ...] = ()
    not_found: tuple[str, ...] = ()
    not_done: tuple[str, ...] = ()
    citations_removed: int = 0
    sentences_removed: int = 0
    rounds: int = 0
    searches: int = 0
    provider_mode: str = "offline"
    published: tuple[str, ...] = ()
    path: Literal["complete", "partial"] = "complete"


InvestigationEvent = InvestigationAsked | InvestigationFramed | ClaimsStated | ClaimsCritiqued | BriefWritten
