"""Every event of a case. Names are past tense; the wire name is an explicit tag, so a renamed class never orphans history.

Here are those of the news pipeline; what the runtime writes is in :mod:`schemas.calls`, research chats in
:mod:`schemas.research_events`. The tables at the end hold all of them.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

from schemas.calls import PREFIX, CancelRequested, CaseFailed, EffectCompleted, Event, StepFailed, StepStarted
from schemas.effects import Failure
from schemas.evidence import Findings, MarketValue, MemoryEntry, Observation, Page, PageStance
from schemas.news import News
from schemas.research_events import (
    AnswerGiven,
    AnswerStopped,
    BriefWritten,
    DataCollected,
    FinishRequested,
    InvestigationAsked,
    InvestigationEvent,
    QuestionAsked,
    ResearchEvent,
)
from schemas.signals import (
    Action,
    Adjustment,
    Direction,
    Draft,
    Signal,
    SignalEvidence,
    StatedClaim,
    Story,
    Verdict,
)

__all__ = [
    "BY_WIRE_NAME",
    "COMMANDS",
    "COMMAND_NAMES",
    "EFFECT_NAME",
    "EVENT_TYPES",
    "NEWS_EVENTS",
    "OPENINGS",
    "OPENING_NAME",
    "OPENING_NAMES",
    "PREFIX",
    "RESEARCH_EVENTS",
    "SCHEMA_VERSIONS",
    "TERMINAL",
    "TERMINAL_NAMES",
    "WIRE_NAMES",
    "AnswerGiven",
    "AnswerStopped",
    "BriefWritten",
    "CancelRequested",
    "CaseDegraded",
    "CaseDropped",
    "CaseEvent",
    "CaseFailed",
    "CaseTriaged",
    "ClaimVerdict",
    "ConcernedSignal",
    "ContextGathered",
    "EffectCompleted",
    "Event",
    "EventReceived",
    "EvidenceCritiqued",
    "FinishRequested",
    "InvestigationAsked",
    "KeywordsExpanded",
    "NewsEvent",
    "PagesScraped",
    "ProviderOutcome",
    "QuestionAsked",
    "RetractionFound",
    "Rival",
    "RuntimeEvent",
    "SearchCompleted",
    "SecondLookOpened",
    "SignalSynthesized",
    "StepFailed",
    "StepStarted",
    "StoryChecked",
    "StoryCorroborated",
    "SubTask",
    "ToolPlanned",
]


Gated = Literal["deep", "single_pass", "preliminary"]
"""The path that the gate sends a case down."""


class EventReceived(Event, tag="newsproof.event_received", kw_only=True, frozen=True):
    """A case was opened. It pins the configuration that every later step of the case decides by.

    ``edits`` is the first case of the same source and external id with another text; ``news_*`` say where it came from.
    ``retries`` is the failed case that this one is another attempt at.
    ``authenticated``: the listener's mark on the news was valid, so the listed source it names did publish it.
    """

    news: News
    config_hash: str
    text_hash: str
    language: str
    edits: str | None = None
    news_partition: int = -1
    news_offset: int = -1
    retries: str | None = None
    authenticated: bool = False


class SecondLookOpened(Event, tag="newsproof.second_look_opened", kw_only=True, frozen=True):
    """A case was opened that looks again at ``of_case``, whose signal was unconfirmed. No news item opens it.

    It judges the same news with the same draft and claim, as of ``due_at``: ``after_s`` seconds after the first decision.
    ``number`` counts from 1. ``verdict`` is that of the signal, ``known`` the addresses of the pages that it rests on,
    ``keywords`` those of the first plan; empty: the query builder's. ``authenticated`` as in the first case's opening.
    """

    of_case: str
    number: int
    due_at: datetime
    after_s: float
    verdict: Verdict
    draft: Draft
    news: News
    config_hash: str
    text_hash: str
    language: str
    claim: StatedClaim | None = None
    keywords: str = ""
    known: tuple[str, ...] = ()
    authenticated: bool = False


class CaseTriaged(Event, tag="newsproof.case_triaged", kw_only=True, frozen=True):
    """The preliminary judgement and the gate's decision. ``rollout_bucket`` is 0 ≤ b < 1, stable per case.

    ``claim``: what the news claims, part by part; None in records of schema 1.
    ``story``: what other tellings of the same event are found by; None where the claim is too vague for that, or stories
    are not looked for. With ``route`` story that is looked up next, and ``then`` is the gate's decision.

    ``preliminary_signal``: what is published at once, where the case's configuration asks for two stages and more is to come.
    """

    draft: Draft
    route: Literal["deep", "single_pass", "preliminary", "story"]
    gate_reason: str
    rollout_bucket: float
    injection_suspected: bool = False
    preliminary_signal: Signal | None = None
    claim: StatedClaim | None = None
    story: Story | None = None
    then: Gated | None = None


class EarlierReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An earlier case that reports the same event and was analysed itself. ``language``: that of its news.

    ``verdict``: that of its signal; None if it had none yet. ``same_slots``: this case states nothing beyond it.
    """

    case_id: str
    language: str
    verdict: Verdict | None = None
    same_slots: bool = False


class StoryChecked(Event, tag="newsproof.story_checked", kw_only=True, frozen=True):
    """The case gets its own analysis: no confirmed or likely earlier signal tells all of what it reports.

    ``checked`` False: the log could not be read for it. ``earlier``: the signals of the same event that this case's result
    may supersede. ``own_page``: the address of the news, if the listener read it on the site of a listed party or authority.
    """

    route: Gated
    checked: bool = True
    earlier: tuple[EarlierReport, ...] = ()
    own_page: str | None = None


class StoryCorroborated(Event, tag="newsproof.story_corroborated", kw_only=True, frozen=True):
    """This case reports the event of an earlier one, and the reports support its claim; publish revises that one's signal.

    ``verdict``: what the tellings of other owners amount to, judged as pages by the word rules; ``amount`` the change of
    the first judgement's confidence. ``asset``, ``action`` and ``direction`` are those of both cases' drafts; ``asset`` is
    None in records from before it was kept. ``live``: this case's news is live.
    ``evidence`` are those tellings. ``supporting_sources`` and ``independent_sources`` count their owners.
    """

    signal_id: str
    of_case: str
    verdict: Verdict
    amount: float
    action: Action
    direction: Direction
    supporting_sources: int
    independent_sources: int
    reason: str
    evidence: tuple[SignalEvidence, ...]
    asset: str | None = None
    live: bool = False


class ContextGathered(Event, tag="newsproof.context_gathered", kw_only=True, frozen=True):
    """Similar past cases as of the case's time. ``memory`` says plainly when there was nothing, or nobody to ask."""

    entries: tuple[MemoryEntry, ...]
    memory: Literal["found", "no_match", "unavailable"]


class SubTask(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One sub-task of a plan: which tool, with which query, for which claim. Every argument was checked by code.

    ``domains``: the only sites to be searched. ``subject``: the asset that memory is asked about. ``days``: how far back
    from the case's time, 0 = no bound. ``detail``: also changes between past cases, or opinions beside a sentiment.
    """

    tool: str
    query: str
    claim: str
    domains: tuple[str, ...] = ()
    subject: str = ""
    days: int = 0
    detail: bool = False


class ToolPlanned(Event, tag="newsproof.tool_planned", kw_only=True, frozen=True):
    """What to look up next, and why. ``round`` counts from 1."""

    round: int
    tools: tuple[str, ...]
    search_keywords: str
    keywords_from: Literal["model", "query_builder", "fallback", "none"]
    decided_by: Literal[
        "never_search", "force_search", "evidence_there", "rounds_used", "disabled", "second_look", "model"
    ]
    reason: str
    tasks: tuple[SubTask, ...]
    route: Literal["search", "critique"]


class ProviderOutcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How one provider did in a round: hits, or the failure that is never "no results".

    ``topic``: what it was asked for, where it is asked for news and for the parties' own domains apart.
    """

    provider: str
    query: str
    hits: int
    failure: Failure | None = None
    cached: bool = False
    truncated: bool = False
    topic: Literal["", "news", "official", "general"] = ""


class SearchCompleted(Event, tag="newsproof.search_completed", kw_only=True, frozen=True):
    """What the round's searches found, judged together with the rounds before it.

    ``outcomes``: of the searches for evidence. ``observations``: what the other tools answered. ``pages``: those that the
    plan asked to open.
    """

    round: int
    findings: Findings
    outcomes: tuple[ProviderOutcome, ...]
    market: tuple[MarketValue, ...] = ()
    route: Literal["scrape", "expand", "critique"]
    observations: tuple[Observation, ...] = ()
    pages: tuple[Page, ...] = ()


class PagesScraped(Event, tag="newsproof.pages_scraped", kw_only=True, frozen=True):
    """Main texts of the best pages, and those that stayed shut.

    ``findings``: the findings so far, judged again with these texts; None where no page opened.
    """

    round: int
    pages: tuple[Page, ...]
    failures: tuple[Failure, ...] = ()
    route: Literal["expand", "critique"]
    findings: Findings | None = None


class KeywordsExpanded(Event, tag="newsproof.keywords_expanded", kw_only=True, frozen=True):
    """New keywords found in the evidence. With ``route`` plan they open a further round."""

    round: int
    keywords: tuple[str, ...]
    reason: str
    route: Literal["plan", "critique"]


class ClaimVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """The critique of one claim, with the reference numbers that say so. ``reliability`` is 0–1."""

    claim: str
    verdict: Literal["supported", "refuted", "conflicting", "not_enough_evidence"]
    reliability: float
    reference_numbers: tuple[int, ...]
    reason: str


class Rival(msgspec.Struct, frozen=True, kw_only=True):
    """A later report of one event that was analysed itself: its verdict, and whether it is the party's own page.

    ``same_slots``: it states nothing beyond the earlier report.
    """

    verdict: Verdict
    own_page: bool = False
    same_slots: bool = False


class ConcernedSignal(msgspec.Struct, frozen=True, kw_only=True):
    """An earlier signal that this case denies (retracted), or corrects (superseded). ``language``: that of its news.

    ``rival``: what this case is, where it reports the same event; None for a denial or a correction.
    """

    signal_id: str
    of_case: str
    kind: Literal["retracted", "superseded"]
    language: str
    rival: Rival | None = None


class EvidenceCritiqued(Event, tag="newsproof.evidence_critiqued", kw_only=True, frozen=True):
    """What the evidence says of each claim, who contradicts whom, and whether this is old news.

    ``verdict``: the critic's own, of the main claim; the signal's follows from the pages (``agents.evidence.verdict``).
    ``stances``: what the critic read on each reference that it was shown; None where no critic read the pages.
    ``unquoted``: references whose stance counts as unrelated, because the page does not hold the quote.
    ``concerned``: earlier signals that this case denies, corrects or supersedes; with some, the next step is to say so of each.
    ``same_story_as``: an earlier case whose signal tells all of this case's result, which ends without a signal of its own.
    """

    claims: tuple[ClaimVerdict, ...]
    stances: tuple[PageStance, ...] | None = None
    unquoted: tuple[int, ...] = ()
    verdict: Literal["supported", "refuted", "conflicting", "not_enough_evidence"]
    contradictions: tuple[str, ...] = ()
    timeliness: Literal["fresh", "stale", "unknown"] = "unknown"
    concerned: tuple[ConcernedSignal, ...] = ()
    route: Literal["synthesize", "retract", "same_story"] = "synthesize"
    same_story_as: str | None = None


class SignalSynthesized(Event, tag="newsproof.signal_synthesized", kw_only=True, frozen=True):
    """The end of a case with a signal. ``path`` tells how the signal came to be."""

    signal: Signal
    path: Literal["deep", "single_pass", "preliminary", "degraded"]
    adjustments: tuple[Adjustment, ...] = ()


class CaseDropped(Event, tag="newsproof.case_dropped", kw_only=True, frozen=True):
    """The end of a case that is not worth a signal. ``same_story``: an earlier case, ``duplicate_of``, tells the event.

    ``unchanged``: a second look left the signal of its first case as it is.
    """

    reason: Literal["duplicate", "spam", "empty", "same_story", "unchanged"]
    detail: str
    duplicate_of: str | None = None


class CaseDegraded(Event, tag="newsproof.case_degraded", kw_only=True, frozen=True):
    """The graph gave up on the deep path; the single-pass analysis takes over, and the signal says why."""

    reason: str
    failed_step: str


class RetractionFound(Event, tag="newsproof.retraction_found", kw_only=True, frozen=True):
    """This case denies, corrects or supersedes an earlier signal; publish turns it into that signal's next revision.

    ``reason`` is in the language of the signal; ``evidence`` are the pages that this case believes the denial by.
    ``rival`` as in :class:`ConcernedSignal`: of the two signals the better founded one stays (``agents.evidence.verdict``).
    """

    signal_id: str
    of_case: str
    kind: Literal["retracted", "superseded"]
    reason: str
    evidence: tuple[SignalEvidence, ...] = ()
    route: Literal["synthesize", "more"] = "synthesize"
    rival: Rival | None = None


NewsEvent = (
    EventReceived
    | SecondLookOpened
    | CaseTriaged
    | ContextGathered
    | ToolPlanned
    | SearchCompleted
    | PagesScraped
    | KeywordsExpanded
    | EvidenceCritiqued
    | SignalSynthesized
    | CaseDropped
    | CaseDegraded
    | RetractionFound
    | StoryChecked
    | StoryCorroborated
)
RuntimeEvent = CaseFailed | EffectCompleted | StepFailed | StepStarted | CancelRequested
CaseEvent = NewsEvent | RuntimeEvent | ResearchEvent | InvestigationEvent

NEWS_EVENTS: tuple[type[Event], ...] = (*NewsEvent.__args__, *RuntimeEvent.__args__)
RESEARCH_EVENTS: tuple[type[Event], ...] = (
    *ResearchEvent.__args__,
    *InvestigationEvent.__args__,
    *(ToolPlanned, SearchCompleted, PagesScraped, KeywordsExpanded),
    *RuntimeEvent.__args__,
)
"""What the journals ``cases`` and ``research`` may hold."""
EVENT_TYPES: tuple[type[Event], ...] = (*NEWS_EVENTS, *ResearchEvent.__args__, *InvestigationEvent.__args__)
WIRE_NAMES: dict[type[Event], str] = {t: str(t.__struct_config__.tag) for t in EVENT_TYPES}
BY_WIRE_NAME: dict[str, type[Event]] = {name: t for t, name in WIRE_NAMES.items()}
OPENINGS: tuple[type[Event], ...] = (EventReceived, SecondLookOpened, QuestionAsked, InvestigationAsked)
TERMINAL: tuple[type[Event], ...] = (
    *(SignalSynthesized, CaseDropped, CaseFailed),
    *(AnswerGiven, AnswerStopped, BriefWritten),
)
COMMANDS: tuple[type[Event], ...] = (CancelRequested, FinishRequested)

OPENING_NAME = WIRE_NAMES[EventReceived]
OPENING_NAMES = frozenset(WIRE_NAMES[t] for t in OPENINGS)
EFFECT_NAME = WIRE_NAMES[EffectCompleted]
TERMINAL_NAMES = frozenset(WIRE_NAMES[t] for t in TERMINAL)
COMMAND_NAMES = frozenset(WIRE_NAMES[t] for t in COMMANDS)

SCHEMA_VERSIONS: dict[str, int] = (
    dict.fromkeys(BY_WIRE_NAME, 1)
    | {WIRE_NAMES[t]: 2 for t in (StepFailed, CaseDropped, SignalSynthesized, DataCollected)}
    | {WIRE_NAMES[CaseTriaged]: 3}
)
"""The version that this code writes, per wire name. ``schemas.envelope`` holds the way up from every older one."""
