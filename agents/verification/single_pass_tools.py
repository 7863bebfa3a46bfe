"""The two functions of the single pass: their effects, the evidence that they bring, and the signal if the budget is used up."""

from __future__ import annotations

from msgspec.structs import replace

from agents.core.answers import clean_keywords
from agents.core.case import Case, Replies
from agents.core.step import StepFailure
from agents.evidence.news_claim import claim_of
from agents.judging import CaseJudgement, judge_case
from agents.planning.providers import AT_HOME, is_counted, providers_of, requests_sent, search_of
from agents.planning.query_builder import fallback_query, fit_query
from agents.planning.rounds import rejudge_findings, skipped_flags
from agents.signal import judged_signal
from agents.verification.recall import recall_of
from schemas.config import Snapshot
from schemas.effects import Effect, FunctionDeclaration, ModelReply, Search, SearchReply
from schemas.events import Event, ProviderOutcome, SignalSynthesized

FETCH_MEMORIES = FunctionDeclaration(
    name="fetch_memories",
    description="Find similar past cases.",
    parameters={"type": "object", "properties": {}},
)
SEARCH_NEWS = FunctionDeclaration(
    name="search_news",
    description="Search the web for evidence of the claim.",
    parameters={"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
)


def functions(config: Snapshot) -> tuple[FunctionDeclaration, ...]:
    """Return the functions that are switched on."""
    searching = config.tool_search_enabled and bool(config.search_providers)
    return (FETCH_MEMORIES, SEARCH_NEWS) if searching else (FETCH_MEMORIES,)


def chosen_effects(case: Case, reply: ModelReply) -> tuple[Effect, ...]:
    """Return the effects for the model's calls: each enabled function at most once, with cleaned arguments."""
    calls = {c.name: c for c in reversed(reply.function_calls)}
    effects: list[Effect] = [recall_of(case)] if FETCH_MEMORIES.name in calls else []
    if SEARCH_NEWS.name in calls and case.config.tool_search_enabled:
        wanted = calls[SEARCH_NEWS.name].args.get("query")
        query = clean_keywords(wanted if isinstance(wanted, str) else "") or _fallback(case)
        effects += [_search(case, provider, _fitted(case, provider, query)) for provider in _affordable(case)]
    return tuple(dict.fromkeys(effects))


def _search(case: Case, provider: str, query: str) -> Search:
    # The pass makes one search per provider: the one for news, whose results are dated.
    search = search_of(case, provider, query)
    return replace(search, topic="news") if provider in case.config.search_by_topic else search


def _affordable(case: Case) -> tuple[str, ...]:
    asked, left = _providers(case), case.config.search_requests_per_message - requests_sent(case)
    billed = sorted((p for p in asked if is_counted(case, p)), key=lambda p: p != AT_HOME.get(case.language))
    return tuple(p for p in asked if p not in billed[max(0, left) :])


def _providers(case: Case) -> tuple[str, ...]:
    return providers_of(case.config, case.draft.event_type if case.triaged else "")


def _fitted(case: Case, provider: str, query: str) -> str:
    if not case.triaged:
        return query
    return fit_query(query, claim_of(case), provider=provider, tables=case.config.tables)


def _fallback(case: Case) -> str:
    return fallback_query(case.draft) if case.triaged else clean_keywords(case.news.text[:200])


def evidence_of_pass(case: Case, replies: Replies, searched: tuple[ProviderOutcome, ...] = ()) -> CaseJudgement:
    """Return the judgement of this step's searches together with the evidence of the failed deep path.

    If a critic has already read pages, only its reading counts: no critic has read the later pages.
    """
    if case.critique is not None and case.critique.stances is not None:
        return judge_case(case)
    search_replies = replies.all(SearchReply)
    query = next((r.query for r in search_replies), "")
    findings = rejudge_findings(case, query=query, answers=[r.results for r in search_replies], searched_at=replies.at)
    return judge_case(case, findings=findings, outcomes=searched, unread=True)


def signal_without_budget(case: Case, replies: Replies, stop: StepFailure) -> Event:
    """Return a signal without a further call: triage's draft, judged by the evidence that was already paid for.

    Raises:
        StepFailure: ``stop``, if it is not a denial by the budget, or if there is no draft.
    """
    if stop.failure.kind != "budget" or case.triaged is None:
        raise stop
    answered = tuple(
        ProviderOutcome(provider=r.provider, query=r.query, hits=len(r.results)) for r in replies.all(SearchReply)
    )
    judged = evidence_of_pass(case, replies, answered)
    signal = judged_signal(
        case,
        replies,
        case.draft,
        replace(judged, why="budget") if judged.why == "not_planned" else judged,
        memory=case.context.entries if case.context else (),
        extra_flags=(*skipped_flags(s.outcomes for s in case.searches), *(() if case.degraded else _NOT_DEEP)),
    )
    return SignalSynthesized(
        signal=signal, path="degraded" if case.degraded else "single_pass", adjustments=signal.adjustments
    )


_NOT_DEEP = ("not_deep_analysed",)
