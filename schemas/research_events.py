"""Events of the journal ``research``: chat turns and investigations.

One turn, a question and its answer, is a case. ``AnswerStopped`` ends a stopped case; ``FinishRequested`` goes straight to an
answer from the available data. Figures have a source and a time; ``unavailable`` lists what no source returned.

    QuestionAsked ─► QuestionRouted ─┬─ answer ─────────────────────────────────────────────► AnswerGiven
                                     ├─ cases ─► CasesFound ─────────────────────────────────► AnswerGiven
                                     └─ plan ─► AnalysisPlanned ─► DataCollected ─► AgentsReported ─► AnswerGiven

An investigation of a subject is a case too. The events between frame and critique are those of the news pipeline
(:mod:`schemas.events`). ``FinishRequested`` goes straight to a brief of the available data.

    InvestigationAsked ─► InvestigationFramed ─► ToolPlanned ─► SearchCompleted ─► PagesScraped ─► KeywordsExpanded ─┐
                                                    ▲                                                      │         │
                                                    └────────────────────── plan ──────────────────────────┘         │
                                        BriefWritten ◄─ ClaimsStated, ClaimsCritiqued ◄─ critique ───────────────────┘
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

from schemas.calls import Event
from schemas.evidence import (
    Candle,
    Credibility,
    FoundSignal,
    MarketValue,
    MemoryEntry,
    PageStance,
    PreviousBrief,
    ReadStance,
)
from schemas.signals import EventType, Modality, Verdict

AgentName = Literal["MacroAgent", "TAAgent", "OnChainAgent"]
Outlook = Literal["BULLISH", "BEARISH", "NEUTRAL"]
Level = Literal["low", "medium", "high"]


class ChatMessage(msgspec.Struct, frozen=True):
    """One message of the chat before this turn, as the client sent it."""

    role: Literal["user", "assistant"]
    content: str


class AgentTask(msgspec.Struct, frozen=True, kw_only=True):
    """The task of one agent in the plan. ``data_required`` names blocks of :class:`DataCollected`."""

    agent: AgentName
    reason: str
    priority: Literal["high", "medium", "low"]
    data_required: tuple[str, ...]


class ExecutionStrategy(msgspec.Struct, frozen=True, kw_only=True):
    """The agents that run concurrently, and those that run after them. ``estimated_time`` is the planner's text for people."""

    parallel_agents: tuple[AgentName, ...]
    sequential_after: tuple[AgentName, ...] = ()
    estimated_time: str = ""


class Indicator(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One figure with an agent's weight. ``value`` is the source's, filled in by code; None if no source returned it.

    ``weight`` is 0–1. ``source`` and ``observed_at`` are the origin and time of the figure.
    """

    value: float | None
    impact: Outlook
    weight: float
    unit: str = ""
    source: str = ""
    observed_at: datetime | None = None


class AgentResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The conclusion of one agent. ``confidence`` is 0–1.

    ``unsupported_numbers``: numbers in its text that match none of its figures. ``missing``: data without a figure.
    """

    agent_name: AgentName
    signal: Outlook
    confidence: float
    confidence_level: Level
    reasoning: str
    indicators: dict[str, Indicator]
    key_factors: tuple[str, ...]
    risk_assessment: str
    prompt_sent: str
    llm_response: str
    missing: tuple[str, ...] = ()
    unsupported_numbers: tuple[str, ...] = ()


class Source(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A source that an answer cites by its number: a signal of the pipeline (``case_id``), or a source of market data."""

    number: int
    title: str
    kind: Literal["signal", "market"]
    case_id: str | None = None
    url: str | None = None
    observed_at: datetime | None = None
    preview: str = ""


class AnswerMetadata(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The origin of an answer. ``unavailable``: sources that failed; ``agents_missing``: agents without a result.

    ``citations_removed``: number of the model's citations without a source.
    """

    path: Literal["direct", "complete", "partial"]
    provider_mode: str
    agents: tuple[str, ...] = ()
    agents_missing: tuple[str, ...] = ()
    unavailable: tuple[str, ...] = ()
    unsupported_numbers: tuple[str, ...] = ()
    citations_removed: int = 0
    as_of: datetime | None = None


class QuestionAsked(Event, tag="newsproof.question_asked", kw_only=True, frozen=True):
    """A turn was opened. ``chat_id`` is that of the first turn of the conversation, ``previous`` the turn before this one.

    ``language``: zh, en or other, of the message.
    """

    message: str
    config_hash: str
    language: str
    chat_id: str
    history: tuple[ChatMessage, ...] = ()
    previous: str | None = None


class CaseQuery(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The query for the pipeline's cases, as in :class:`schemas.effects.FindSignals`; ``hours`` back from the question."""

    asset: str = ""
    names: tuple[tuple[str, ...], ...] = ()
    verdicts: tuple[str, ...] = ()
    hours: int


class QuestionRouted(Event, tag="newsproof.question_routed", kw_only=True, frozen=True):
    """SuperAgent's decision. ``direct_answer`` is empty unless the question is answered at once.

    ``decision`` has the two words that front ends know: anything but a direct answer is COMPLEX_ANALYSIS. ``route`` is the
    next path; for ``cases``, the field ``cases`` is the query. With ``plan``, it is the query for the half of the question that
    asks for facts.
    """

    decision: Literal["DIRECT_ANSWER", "COMPLEX_ANALYSIS"]
    reasoning: str
    confidence: float
    direct_answer: str
    route: Literal["answer", "plan", "cases"]
    cases: CaseQuery | None = None


class AnalysisPlanned(Event, tag="newsproof.analysis_planned", kw_only=True, frozen=True):
    """PlanningAgent's plan. ``asset`` is the ticker of the requested data."""

    task_breakdown: tuple[AgentTask, ...]
    execution_strategy: ExecutionStrategy
    reasoning: str
    asset: str


class DataCollected(Event, tag="newsproof.data_collected", kw_only=True, frozen=True):
    """The data of the sources, block by block. ``unavailable`` lists each missing one with the reason.

    ``indicators`` were computed from ``candles`` by code. ``signals`` are of the news pipeline.
    """

    asset: str
    price: tuple[MarketValue, ...] = ()
    macro: tuple[MarketValue, ...] = ()
    fear_greed: tuple[MarketValue, ...] = ()
    onchain: tuple[MarketValue, ...] = ()
    indicators: tuple[MarketValue, ...] = ()
    candles: tuple[Candle, ...] = ()
    candle_interval: str = ""
    candle_source: str = ""
    signals: tuple[FoundSignal, ...] = ()
    unavailable: tuple[str, ...] = ()


class CasesFound(Event, tag="newsproof.cases_found", kw_only=True, frozen=True):
    """The pipeline's signals for the question, with verdicts and pages, the best match first.

    ``unavailable``: why the look-up failed; empty if it worked, with or without signals.
    """

    signals: tuple[FoundSignal, ...] = ()
    unavailable: tuple[str, ...] = ()


class AgentsReported(Event, tag="newsproof.agents_reported", kw_only=True, frozen=True):
    """Every called agent has replied or failed. ``failed``: (agent, reason)."""

    results: tuple[AgentResult, ...]
    failed: tuple[tuple[AgentName, str], ...] = ()


class AnswerGiven(Event, tag="newsproof.answer_given", kw_only=True, frozen=True):
    """The end of a turn with an answer. ``answer`` is Markdown that cites ``sources`` as [n]; ``confidence`` is 0–1."""

    answer: str
    summary: str
    key_insights: tuple[str, ...]
    confidence: float
    sources: tuple[Source, ...]
    metadata: AnswerMetadata


class AnswerStopped(Event, tag="newsproof.answer_stopped", kw_only=True, frozen=True):
    """The end of a turn or an investigation that its user stopped. The question stays without an answer."""

    requested_by: str
    reason: str


class FinishRequested(Event, tag="newsproof.finish_requested", kw_only=True, frozen=True):
    """A command from outside: answer now, from the available data. Accepted once, at any head."""

    requested_by: str


ResearchEvent = (
    QuestionAsked
    | QuestionRouted
    | AnalysisPlanned
    | DataCollected
    | CasesFound
    | AgentsReported
    | AnswerGiven
    | AnswerStopped
    | FinishRequested
)


class Limits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Limits of one investigation: rounds of searches, steps to its brief, and paid searches."""

    rounds: int = 3
    steps: int = 10
    searches: int = 12


class InvestigationAsked(Event, tag="newsproof.investigation_asked", kw_only=True, frozen=True):
    """An investigation was opened. It pins the configuration that every later step decides by.

    ``question``: as written; ``subject``: its subject. ``language``: zh, en or other, of the question. ``as_of`` (UTC): nothing
    published later is used. ``previous``: the investigation to compare with; None: the newest finished one of the same subject
    as of no later time. ``watch``: the watch that opened it, if any.
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
    """One sub-question about the subject, with its query. ``platforms``: search social platforms instead of the web."""

    question: str
    query: str
    platforms: bool = False


class InvestigationFramed(Event, tag="newsproof.investigation_framed", kw_only=True, frozen=True):
    """The one to five sub-questions of the investigation, and what was known before.

    ``previous``: the earlier brief, or None. ``unread``: why earlier briefs or memories could not be read.
    """

    questions: tuple[SubQuestion, ...]
    previous: PreviousBrief | None = None
    memories: tuple[MemoryEntry, ...] = ()
    unread: tuple[str, ...] = ()


class FoundClaim(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One testable sentence of the pages about the subject. ``told_by``: numbers of the references that state it.

    ``question``: number of the frame's sub-question that it answers, from 1; None if it answers none.
    """

    claim: str
    event_type: EventType = "other"
    modality: Modality = "asserted"
    told_by: tuple[int, ...] = ()
    question: int | None = None


class ClaimsStated(Event, tag="newsproof.claims_stated", kw_only=True, frozen=True):
    """The claims of the pages about the subject, to be judged one by one; empty if nothing was found."""

    claims: tuple[FoundClaim, ...]


class ClaimReading(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The critic's reading for one claim. ``stances``: None if no critic read the pages, with the reason in ``unread``.

    ``critic``: its verdict on the claim. ``unquoted``: references whose quote is not on their page.
    """

    claim: FoundClaim
    stances: tuple[PageStance, ...] | None = None
    critic: Literal["supported", "refuted", "conflicting", "not_enough_evidence"] | None = None
    unquoted: tuple[int, ...] = ()
    unread: str = ""


class ClaimsCritiqued(Event, tag="newsproof.claims_critiqued", kw_only=True, frozen=True):
    """The reading for each claim, in the order of :class:`ClaimsStated`."""

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
    """The stance of one page on a claim. ``quote``: its checked quote, None if only the word rules read it."""

    number: int
    stance: ReadStance
    quote: str | None = None


class BriefClaim(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A judged claim. ``evidence``: the pages with a stance on it; ``supporting_sources``: once per owner."""

    claim: str
    verdict: Verdict
    supporting_sources: int = 0
    evidence: tuple[ClaimEvidence, ...] = ()


class BriefSentence(msgspec.Struct, frozen=True, kw_only=True):
    """One sentence of a brief, without its citations, and the numbers of its references: at least one.

    ``claim``: index (from 0) of its claim among the brief's claims.
    """

    text: str
    references: tuple[int, ...]
    claim: int


class Change(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One change since the previous brief, computed by code.

    ``new_claim``: that brief has no such claim. ``verdict_changed``: the verdict was ``before``. ``new_page``: a new page about
    a known claim. ``claim``: index (from 0) among the brief's claims; ``testable``: a page supports or denies the claim with a
    checked quote.
    """

    kind: Literal["new_claim", "verdict_changed", "new_page"]
    claim: int
    references: tuple[int, ...]
    before: str | None = None
    testable: bool = False


class BriefWritten(Event, tag="newsproof.brief_written", kw_only=True, frozen=True):
    """The end of an investigation with a brief. ``subject_key``: the key of equal subjects.

    ``established``: confirmed or likely claims. ``disputed``: denied claims. ``unsettled``: claims without corroboration.
    ``new_since``: the changes since ``previous``, the investigation that it was compared with; empty without one.
    ``not_found``: sub-questions that no claim answers. ``not_done``: omissions with their reasons. ``citations_removed``:
    citations of references that do not exist; ``sentences_removed``: sentences left without one. ``path``: partial if a step
    failed or a person asked to finish. ``published``: the cases opened by its news, for a watch.
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
