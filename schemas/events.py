"""Every event of a case. Names are past tense; the wire name is an explicit tag, so a renamed class never orphans history.

Path events move the case's head (``EffectCompleted`` is the one that does not). A field that routes is a ``Literal``; the
registry reads its values and refuses a graph in which one of them leads nowhere, or to two steps.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

from schemas.calls import Call
from schemas.effects import Failure
from schemas.evidence import Findings, MarketValue, MemoryEntry, Observation, Page
from schemas.news import News
from schemas.signals import Adjustment, Draft, Signal, SignalEvidence

PREFIX = "newsproof."


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag=False):
    """Base of all events. ``calls`` are the calls whose replies made this event, in the order of the replies."""

    calls: tuple[Call, ...] = ()


class EventReceived(Event, tag="newsproof.event_received", kw_only=True, frozen=True):
    """A case was opened. It pins the configuration that every later step of the case decides by.

    ``edits`` is the first case of the same source and external id with another text; ``news_*`` say where it came from.
    ``retries`` is the failed case that this one is another attempt at.
    """

    news: News
    config_hash: str
    text_hash: str
    language: str
    edits: str | None = None
    news_partition: int = -1
    news_offset: int = -1
    retries: str | None = None


class CaseTriaged(Event, tag="newsproof.case_triaged", kw_only=True, frozen=True):
    """The preliminary judgement and the gate's decision. ``rollout_bucket`` is 0 ≤ b < 1, stable per case.

    ``preliminary_signal``: what is published at once, where the case's configuration asks for two stages and more is to come.
    """

    draft: Draft
    route: Literal["deep", "single_pass", "preliminary"]
    gate_reason: str
    rollout_bucket: float
    injection_suspected: bool = False
    preliminary_signal: Signal | None = None


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
    decided_by: Literal["never_search", "force_search", "evidence_there", "rounds_used", "disabled", "model"]
    reason: str
    tasks: tuple[SubTask, ...]
    route: Literal["search", "critique"]


class ProviderOutcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How one provider did in a round: hits, or the failure that is never "no results"."""

    provider: str
    query: str
    hits: int
    failure: Failure | None = None
    cached: bool = False
    truncated: bool = False


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


class ConcernedSignal(msgspec.Struct, frozen=True, kw_only=True):
    """An earlier signal that this case denies (retracted) or corrects (superseded). ``language``: that of its news."""

    signal_id: str
    of_case: str
    kind: Literal["retracted", "superseded"]
    language: str


class EvidenceCritiqued(Event, tag="newsproof.evidence_critiqued", kw_only=True, frozen=True):
    """What the evidence says of each claim, who contradicts whom, and whether this is old news.

    ``concerned``: earlier signals that this case denies or corrects; with some, the next step is to say so of each.
    """

    claims: tuple[ClaimVerdict, ...]
    verdict: Literal["supported", "refuted", "conflicting", "not_enough_evidence"]
    contradictions: tuple[str, ...] = ()
    timeliness: Literal["fresh", "stale", "unknown"] = "unknown"
    concerned: tuple[ConcernedSignal, ...] = ()
    route: Literal["synthesize", "retract"] = "synthesize"


class SignalSynthesized(Event, tag="newsproof.signal_synthesized", kw_only=True, frozen=True):
    """The end of a case with a signal. ``path`` tells how the signal came to be."""

    signal: Signal
    path: Literal["deep", "single_pass", "preliminary", "degraded"]
    adjustments: tuple[Adjustment, ...] = ()


class CaseDropped(Event, tag="newsproof.case_dropped", kw_only=True, frozen=True):
    """The end of a case that is not worth a signal."""

    reason: Literal["duplicate", "spam", "empty"]
    detail: str
    duplicate_of: str | None = None


class CaseFailed(Event, tag="newsproof.case_failed", kw_only=True, frozen=True):
    """The end of a case that nothing worked for, with what was tried last. A dead letter tells the operator."""

    reason: str
    failed_step: str
    attempts: int


class EffectCompleted(Event, tag="newsproof.effect_completed", kw_only=True, frozen=True):
    """One reply of a step that needs several. Its cause is the head, which it does not move."""

    step: str
    request_hash: str
    occurrence: int = 0


class StepFailed(Event, tag="newsproof.step_failed", kw_only=True, frozen=True):
    """A step did not work. ``outcome`` is decided here, once, and logged: readers never guess.

    ``attempt`` counts the failures of this step in a row, from 1; ``retry_at`` is set when ``outcome`` is retry.
    """

    step: str
    failure: Failure
    attempt: int
    outcome: Literal["retry", "degrade", "give_up"]
    retry_at: datetime | None = None


class StepStarted(Event, tag="newsproof.step_started", kw_only=True, frozen=True):
    """Written before a suspect step runs alone, so that a step that kills its process is found.

    ``handed_back`` says that the worker let the case go, at a rebalance or its own end, while the step was running or due:
    the step killed nobody then, and whoever has the case next runs it alone again.
    """

    step: str
    crashes: int
    handed_back: bool = False


class CaseDegraded(Event, tag="newsproof.case_degraded", kw_only=True, frozen=True):
    """The graph gave up on the deep path; the single-pass analysis takes over, and the signal says why."""

    reason: str
    failed_step: str


class RetractionFound(Event, tag="newsproof.retraction_found", kw_only=True, frozen=True):
    """This case denies or corrects an earlier signal; publish turns it into that signal's next revision.

    ``reason`` is in the language of the signal; ``evidence`` are the pages that this case believes the denial by.
    """

    signal_id: str
    of_case: str
    kind: Literal["retracted", "superseded"]
    reason: str
    evidence: tuple[SignalEvidence, ...] = ()
    route: Literal["synthesize", "more"] = "synthesize"


class CancelRequested(Event, tag="newsproof.cancel_requested", kw_only=True, frozen=True):
    """A command from outside the case: end it. Accepted once, at any head."""

    requested_by: str
    reason: str


CaseEvent = (
    EventReceived
    | CaseTriaged
    | ContextGathered
    | ToolPlanned
    | SearchCompleted
    | PagesScraped
    | KeywordsExpanded
    | EvidenceCritiqued
    | SignalSynthesized
    | CaseDropped
    | CaseFailed
    | EffectCompleted
    | StepFailed
    | StepStarted
    | CaseDegraded
    | RetractionFound
    | CancelRequested
)

EVENT_TYPES: tuple[type[Event], ...] = CaseEvent.__args__
WIRE_NAMES: dict[type[Event], str] = {t: str(t.__struct_config__.tag) for t in EVENT_TYPES}
BY_WIRE_NAME: dict[str, type[Event]] = {name: t for t, name in WIRE_NAMES.items()}
TERMINAL: tuple[type[Event], ...] = (SignalSynthesized, CaseDropped, CaseFailed)
COMMANDS: tuple[type[Event], ...] = (CancelRequested,)

OPENING_NAME = WIRE_NAMES[EventReceived]
EFFECT_NAME = WIRE_NAMES[EffectCompleted]
TERMINAL_NAMES = frozenset(WIRE_NAMES[t] for t in TERMINAL)
COMMAND_NAMES = frozenset(WIRE_NAMES[t] for t in COMMANDS)

SCHEMA_VERSIONS: dict[str, int] = dict.fromkeys(BY_WIRE_NAME, 1) | {WIRE_NAMES[StepFailed]: 2}
"""The version that this code writes, per wire name. ``schemas.upcasts`` holds the way up from every older one."""
