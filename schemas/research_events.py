"""Events of a research chat. One turn, a question and its answer, is a case of the journal ``research``.

    QuestionAsked ─► QuestionRouted ─┬─ answer ─────────────────────────────────────────────► AnswerGiven
                                     ├─ cases ─► CasesFound ─────────────────────────────────► AnswerGiven
                                     └─ plan ─► AnalysisPlanned ─► DataCollected ─► AgentsReported ─► AnswerGiven

A stop ends it as ``AnswerStopped``; ``FinishRequested`` goes straight to an answer from what is there. Figures are of
sources, each with its time; what no source gave is named in ``unavailable``.
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
    """What the plan asks of one agent. ``data_required`` names blocks of :class:`DataCollected`."""

    agent: AgentName
    reason: str
    priority: Literal["high", "medium", "low"]
    data_required: tuple[str, ...]


class ExecutionStrategy(msgspec.Struct, frozen=True, kw_only=True):
    """Which agents run side by side, and which only after those. ``estimated_time`` is the planner's word for people."""

    parallel_agents: tuple[AgentName, ...]
    sequential_after: tuple[AgentName, ...] = ()
    estimated_time: str = ""


class Indicator(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One figure as an agent weighed it. ``value`` is the source's, put in by code; None where no source gave it.

    ``weight`` is 0–1. ``source`` and ``observed_at`` say where the figure is from and of when.
    """

    value: float | None
    impact: Outlook
    weight: float
    unit: str = ""
    source: str = ""
    observed_at: datetime | None = None


class AgentResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one agent concluded. ``confidence`` is 0–1.

    ``unsupported_numbers``: numbers in its words that are in no figure it was given. ``missing``: the data it lacked.
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
    """Something that an answer cites by its number: a signal of the pipeline (``case_id``), or a source of market data."""

    number: int
    title: str
    kind: Literal["signal", "market"]
    case_id: str | None = None
    url: str | None = None
    observed_at: datetime | None = None
    preview: str = ""


class AnswerMetadata(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How an answer came to be. ``unavailable``: sources that did not answer; ``agents_missing``: agents without a result.

    ``citations_removed``: how many citations of the model's pointed to no source.
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
    """What to look up among the pipeline's cases, as in :class:`schemas.effects.FindSignals`; ``hours`` back from the question."""

    asset: str = ""
    names: tuple[tuple[str, ...], ...] = ()
    verdicts: tuple[str, ...] = ()
    hours: int


class QuestionRouted(Event, tag="newsproof.question_routed", kw_only=True, frozen=True):
    """SuperAgent's decision. ``direct_answer`` is empty where the question is not answered at once.

    ``decision`` has the two words that front ends know: what is not answered directly is COMPLEX_ANALYSIS. ``route`` says
    what follows; with ``cases``, ``cases`` says what is looked up.
    """

    decision: Literal["DIRECT_ANSWER", "COMPLEX_ANALYSIS"]
    reasoning: str
    confidence: float
    direct_answer: str
    route: Literal["answer", "plan", "cases"]
    cases: CaseQuery | None = None


class AnalysisPlanned(Event, tag="newsproof.analysis_planned", kw_only=True, frozen=True):
    """PlanningAgent's plan. ``asset`` is the ticker that data is read for."""

    task_breakdown: tuple[AgentTask, ...]
    execution_strategy: ExecutionStrategy
    reasoning: str
    asset: str


class DataCollected(Event, tag="newsproof.data_collected", kw_only=True, frozen=True):
    """What the sources gave, block by block, and what they did not: ``unavailable`` names each with the reason.

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
    """What the pipeline's cases say on the question: signals with their verdicts and pages, the best match first.

    ``unavailable``: why they could not be looked up; empty with signals, and where there are none.
    """

    signals: tuple[FoundSignal, ...] = ()
    unavailable: tuple[str, ...] = ()


class AgentsReported(Event, tag="newsproof.agents_reported", kw_only=True, frozen=True):
    """Every agent that was asked has answered or failed. ``failed``: (agent, why)."""

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
    """The end of a turn, or of an investigation, that its user stopped. The question stays; there is no answer to it."""

    requested_by: str
    reason: str


class FinishRequested(Event, tag="newsproof.finish_requested", kw_only=True, frozen=True):
    """A command from outside: answer now, from what is there. Accepted once, at any head."""

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
