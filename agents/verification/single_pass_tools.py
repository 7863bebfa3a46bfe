"""The two functions of the single pass, and the effects for a model's calls of them."""

from __future__ import annotations

from msgspec.structs import replace

from agents.core.answers import clean_keywords
from agents.core.case import Case
from agents.evidence.query_builder import fallback_query, fit_query
from agents.evidence.stated import claim_of
from agents.planning.providers import AT_HOME, is_counted, providers_of, requests_sent, search_of
from agents.verification.recall import recall_of
from schemas.config import Snapshot
from schemas.effects import Effect, FunctionDeclaration, ModelReply, Search

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
    # One search is all that the pass makes: that of news, whose results are dated.
    found = search_of(case, provider, query)
    return replace(found, topic="news") if provider in case.config.search_by_topic else found


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
