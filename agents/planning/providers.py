"""The choice of search providers for a case, by the role of its event in an editable table."""

from __future__ import annotations

from datetime import timedelta

from agents.core.case import Case
from schemas.config import Snapshot
from schemas.effects import Search

DEFAULT_ROLE = "verification"
SITE_BLIND = frozenset({"arxiv", "ragflow", "gdelt"})
"""Providers with a single collection each, of papers, of documents, of news: no social platform is in it."""
AT_HOME = {"zh": "bocha", "en": "tavily"}
"""The provider that knows the pages of a language best."""


def providers_of(config: Snapshot, event_type: str) -> tuple[str, ...]:
    """Return the providers to ask, by priority: the configured ones of the role, or else all configured ones.

    ``agents/tables/search_roles.json`` lists the providers of each role, and maps an event type to its role with
    ``event:<type>``. Every other event has the role ``verification``.
    """
    roles = config.tables.search_roles
    role = next(iter(roles.get(f"event:{event_type}", ())), DEFAULT_ROLE)
    wanted = roles.get(role, ())
    return tuple(name for name in config.search_providers if name in wanted) or config.search_providers


def one_provider(case: Case) -> str | None:
    """Return the one web search provider to ask: that of the news' language, else the first; None without any."""
    asked = providers_of(case.config, case.draft.event_type)
    web = [name for name in (*asked, *case.config.search_providers) if name not in SITE_BLIND]
    home = AT_HOME.get(case.language)
    return home if home in web else next(iter(web), None)


def search_of(case: Case, provider: str, query: str, *, domains: tuple[str, ...] = (), days: int = 0) -> Search:
    """Return the search of one provider, as of the case's own time. ``domains`` replace the configured ones.

    ``days`` is the maximum age of a page at that time; 0 means any age.
    """
    return Search(
        provider=provider,
        query=query,
        max_results=case.config.search_max_results,
        as_of=case.as_of,
        depth=case.config.search_depth,
        include_domains=domains or case.config.search_include_domains,
        language=case.language,
        since=case.as_of - timedelta(days=days) if days else None,
    )
