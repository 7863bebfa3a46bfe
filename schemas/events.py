"""Events of the news pipeline, and the tables of all events.

Names are in the past tense. The wire name is an explicit tag, so renaming a class never orphans history. The runtime's own
events are in :mod:`schemas.calls`, those of chats and investigations in :mod:`schemas.research_events`.
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
    MessagePart,
    Signal,
    SignalEvidence,
    StatedClaim,
    Story,
    Verdict,
)

# Names passed on; a module's own names need no list.
__all__ = [
    "PREFIX",
    "AnswerGiven",
    "AnswerStopped",
    "BriefWritten",
    "CancelRequested",
    "CaseFailed",
    "EffectCompleted",
    "Event",
    "FinishRequested",
    "InvestigationAsked",
    "QuestionAsked",
    "StepFailed",
    "StepStarted",
]


Gated = Literal["deep", "single_pass", "preliminary"]
"""The path that the gate chooses for a case."""


class EventReceived(Event, tag="newsproof.event_received", kw_only=True, frozen=True):
    """A case was opened. It pins the configuration that every later step of the case decides by.

    ``edits`` is the first case of the same source and external id with another text; ``news_*`` are its place on ``news``.
    ``retries`` is the failed case that this one is another attempt at.
    ``authenticated``: the listener's mark on the news was valid, so its listed source did publish it.
    ``part``: the case is about one further claim of ``news``, which its first case opened (docs/adr/0024). It is no report of
    its own: readers that count news leave it out.
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
    part: MessagePart | None = None

    @property
    def text(self) -> str:
        """Return the news' text as far as it is about this case's claim."""
        return self.news.text if self.part is None else self.part.text


class SecondLookOpened(Event, tag="newsproof.second_look_opened", kw_only=True, frozen=True):
    """A second look at ``of_case``, whose signal was unconfirmed, was opened. No news item opens it.

    It judges the same news with the same draft and claim, as of ``due_at``: ``after_s`` seconds after the first decision.
    ``number`` counts from 1. ``verdict`` is that of the signal, ``known`` the addresses of its evidence, ``keywords`` those of
    the first plan; empty: those of the query builder. ``authenticated`` as in the first case's opening. ``part``: the one
    claim of several that ``of_case`` is about.
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
    part: MessagePart | None = None


class CaseTriaged(Event, tag="newsproof.case_triaged", kw_only=True, frozen=True):
    """The preliminary judgement and the gate's decision. ``rollout_bucket`` is 0 ≤ b < 1, stable per case.

    ``claim``: the parts of the news' claim; None in records of schema 1.
    ``story``: the parts by which other reports of the same event are found; None if the claim is too vague, or if stories are
    not searched for. With ``route`` story, the story is searched for next, and ``then`` is the gate's decision.

    ``preliminary_signal``: published at once, if the configuration has two stages and the case continues.
    ``part``: the message makes several claims; this case is about that one, and has opened a case for each of the others.
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
    part: MessagePart | None = None


class EarlierReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An earlier case with its own analysis that reports the same event. ``language``: that of its news.

    ``verdict``: that of its signal; None without one yet. ``same_slots``: this case states nothing beyond it.
    """

    case_id: str
    language: str
    verdict: Verdict | None = None
    same_slots: bool = False


class StoryChecked(Event, tag="newsproof.story_checked", kw_only=True, frozen=True):
    """The case gets its own analysis: no confirmed or likely earlier signal covers its whole report.

    ``checked`` False: the log could not be read. ``earlier``: signals of the same event that this case's result may supersede.
    ``own_page``: the address of the news, if the listener read it on the site of a listed party or authority.
    """

    route: Gated
    checked: bool = True
    earlier: tuple[EarlierReport, ...] = ()
    own_page: str | None = None


class StoryCorroborated(Event, tag="newsproof.story_corroborated", kw_only=True, frozen=True):
    """Reports of other owners, including this case's, corroborate the claim of an earlier case. Publish revises its signal.

    ``verdict``: the judgement of these reports, read as pages by the word rules; ``amount``: the change of the first
    judgement's confidence. ``asset``, ``action`` and ``direction`` are those of both cases' drafts; ``asset`` is
    None in records from before it was kept. ``live``: this case's news is live. ``sell_from``: the selling rule of this
    case's map (:class:`schemas.calibration.CalibrationMap`), None without one.
    ``evidence`` are these reports. ``supporting_sources`` and ``independent_sources`` count their owners.
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
    sell_from: float | None = None


class ContextGathered(Event, tag="newsproof.context_gathered", kw_only=True, frozen=True):
    """Similar past cases as of the case's time. ``memory``: whether any were found, or memory was unavailable."""

    entries: tuple[MemoryEntry, ...]
    memory: Literal["found", "no_match", "unavailable"]


class SubTask(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One sub-task of a plan: its tool, query and claim. Code has checked every argument.

    ``domains``: the only sites to search. ``subject``: asset of a memory query. ``days``: maximum age in days at the case's
    time, 0 = no bound. ``detail``: also return changes between past cases, or opinions beside a sentiment.
    """

    tool: str
    query: str
    claim: str
    domains: tuple[str, ...] = ()
    subject: str = ""
    days: int = 0
    detail: bool = False


class ToolPlanned(Event, tag="newsproof.tool_planned", kw_only=True, frozen=True):
    """The plan of a round, and its reason. ``round`` counts from 1."""

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
    """The outcome of one provider in a round: hits, or a failure, which never counts as "no results".

    ``topic``: topic of the search, if the provider is called separately for news and for the parties' own domains.
    """

    provider: str
    query: str
    hits: int
    failure: Failure | None = None
    cached: bool = False
    truncated: bool = False
    topic: Literal["", "news", "official", "general"] = ""


class SearchCompleted(Event, tag="newsproof.search_completed", kw_only=True, frozen=True):
    """The findings of the round's searches, judged together with the earlier rounds.

    ``outcomes``: those of the evidence searches. ``observations``: results of the other tools. ``pages``: pages that the plan
    requested.
    """

    round: int
    findings: Findings
    outcomes: tuple[ProviderOutcome, ...]
    market: tuple[MarketValue, ...] = ()
    route: Literal["scrape", "expand", "critique"]
    observations: tuple[Observation, ...] = ()
    pages: tuple[Page, ...] = ()


class PagesScraped(Event, tag="newsproof.pages_scraped", kw_only=True, frozen=True):
    """Main texts of the best pages, and the failures to open pages.

    ``findings``: the findings so far, judged again with these texts; None if no page opened.
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
    """The critic's verdict on one claim, with its reference numbers. ``reliability`` is 0–1."""

    claim: str
    verdict: Literal["supported", "refuted", "conflicting", "not_enough_evidence"]
    reliability: float
    reference_numbers: tuple[int, ...]
    reason: str


class Rival(msgspec.Struct, frozen=True, kw_only=True):
    """A later report of the same event with its own analysis: its verdict, and whether it is the party's own page.

    ``same_slots``: it states nothing beyond the earlier report.
    """

    verdict: Verdict
    own_page: bool = False
    same_slots: bool = False


class ConcernedSignal(msgspec.Struct, frozen=True, kw_only=True):
    """An earlier signal that this case denies (retracted), corrects or replaces (superseded). ``language``: that of its news.

    ``rival``: this case, if it is a report of the same event; None for a denial or a correction.
    """

    signal_id: str
    of_case: str
    kind: Literal["retracted", "superseded"]
    language: str
    rival: Rival | None = None


class EvidenceCritiqued(Event, tag="newsproof.evidence_critiqued", kw_only=True, frozen=True):
    """The critique: verdicts on the claims, stances of the pages, contradictions, and earlier signals concerned.

    ``verdict``: the critic's verdict on the main claim; the signal's follows from the pages (``agents.evidence.verdict``).
    ``stances``: the critic's reading of each reference that it was shown; None if no critic read the pages.
    ``unquoted``: references whose stance counts as unrelated, because the quote is not on the page.
    ``concerned``: earlier signals that this case denies, corrects or supersedes; the next step emits one event for each.
    ``same_story_as``: an earlier case whose signal covers this case's result, so this case ends without a signal.
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
    """The end of a case with a signal. ``path``: the path that led to it."""

    signal: Signal
    path: Literal["deep", "single_pass", "preliminary", "degraded"]
    adjustments: tuple[Adjustment, ...] = ()


class CaseDropped(Event, tag="newsproof.case_dropped", kw_only=True, frozen=True):
    """The end of a case without a signal. ``same_story``: an earlier case, ``duplicate_of``, reports the event.

    ``unchanged``: a second look did not change the signal of its first case.
    """

    reason: Literal["duplicate", "spam", "empty", "same_story", "unchanged"]
    detail: str
    duplicate_of: str | None = None


class CaseDegraded(Event, tag="newsproof.case_degraded", kw_only=True, frozen=True):
    """The deep path failed. The single pass takes over, and the signal states the reason."""

    reason: str
    failed_step: str


class RetractionFound(Event, tag="newsproof.retraction_found", kw_only=True, frozen=True):
    """This case denies, corrects or supersedes an earlier signal. Publish makes it that signal's next revision.

    ``reason`` is in the language of the signal; ``evidence``: the pages that support the denial.
    ``rival`` as in :class:`ConcernedSignal`: the better founded of the two signals remains (``agents.evidence.verdict``).
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
"""The events that the journals ``cases`` and ``research`` may contain."""
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
"""Wire name → the version that this code writes. ``schemas.envelope`` has an upcaster for every older one."""
