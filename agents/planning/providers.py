"""The choice of search providers for a case, by the role of its event in an editable table."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

from msgspec.structs import replace

from agents.core.case import Case
from agents.core.case_core import Replies
from agents.core.inquiry import Inquiry
from agents.evidence.compiled import compiled
from agents.evidence.news_claim import claim_of
from schemas.config import Snapshot, Tables
from schemas.effects import Failure, Reply, Search, SearchReply
from schemas.events import SubTask

ENOUGH = 3
"""Number of news and official results from which no general search is added."""
MAX_DOMAINS = 10
MOST_DOMAINS, MOST_RESULTS = 300, 20
"""Limits of one Tavily request (https://docs.tavily.com/documentation/api-reference/endpoint/search)."""
DEFAULT_ROLE = "verification"
SITE_BLIND = frozenset({"arxiv", "ragflow", "gdelt", "feeds"})
"""Providers with one collection each (papers, documents, news) that contains no social platform."""
OF_OUR_OWN = "feeds"
"""The provider that searches our own listeners' items, including the news itself and other items of its source."""
OWN_DOCUMENTS = "ragflow"
"""The provider that searches the desk's own documents. It is free, and comes first wherever a role has it."""
AT_HOME = {"zh": "bocha", "en": "tavily"}
"""Language → the provider that knows its pages best."""


def role_of(config: Snapshot, event_type: str) -> str:
    """Return the role that the table of roles gives to an event type."""
    return next(iter(config.tables.search_roles.get(f"event:{event_type}", ())), DEFAULT_ROLE)


def unreached_roles(tables: Tables) -> tuple[str, ...]:
    """Return the roles that no event type is mapped to, so no search ever uses them."""
    roles = tables.search_roles
    reached = {DEFAULT_ROLE, *(role for key, names in roles.items() if key.startswith("event:") for role in names)}
    return tuple(role for role in roles if ":" not in role and role not in reached)


def providers_of(config: Snapshot, event_type: str) -> tuple[str, ...]:
    """Return the providers to call, by priority: the configured ones of the role, or else all configured ones.

    ``agents/tables/search_roles.json`` lists the providers of each role, and maps an event type to its role with
    ``event:<type>``. Every other event has the role ``verification``. The roles under ``depth:advanced`` search deeper, and
    under ``order:at_once`` all providers at once, not one after the other.
    """
    wanted = config.tables.search_roles.get(role_of(config, event_type), ())
    return tuple(name for name in config.search_providers if name in wanted) or config.search_providers


def one_provider(case: Inquiry) -> str | None:
    """Return the one web search provider to call: that of the news' language, else the first; None without any."""
    asked = providers_of(case.config, case.about.event_type)
    web = [name for name in (*asked, *case.config.search_providers) if name not in SITE_BLIND]
    home = AT_HOME.get(case.language)
    return home if home in web else next(iter(web), None)


def search_of(case: Inquiry, provider: str, query: str, *, domains: tuple[str, ...] = (), days: int = 0) -> Search:
    """Return the search of one provider, as of the case's own time, at the depth of its event's role.

    ``domains`` replace the configured ones. ``days`` is the maximum age of a page at that time; 0 means any age.
    """
    of_news = case if isinstance(case, Case) else None
    return Search(
        provider=provider,
        query=query,
        max_results=case.config.search_max_results,
        as_of=case.as_of,
        depth=_depth(case),
        include_domains=domains or case.config.search_include_domains,
        language=case.language,
        since=case.as_of - timedelta(days=days) if days else None,
        source=of_news.news.source if of_news and provider == OF_OUR_OWN else "",
        look=of_news.look.number if of_news and of_news.look else 0,
    )


def _depth(case: Inquiry) -> str:
    deep = case.config.tables.search_roles.get("depth:advanced", ())
    searching = case.is_asked and role_of(case.config, case.about.event_type) in deep
    return "advanced" if searching else case.config.search_depth


def searches_of(case: Inquiry, task: SubTask, replies: Replies) -> tuple[Search, ...]:
    """Return the searches of one evidence sub-task that are due after the replies so far.

    Most sub-tasks are one search. A provider of ``search_by_topic`` is called for news, whose results are dated. For the
    plan's own query it is also called on the domains of official speakers, until such a page is found. If both together
    returned fewer than ``ENOUGH`` results (after a retry of timeouts), it is called without a topic.
    """
    tool, _, provider = task.tool.partition(":")
    plain = search_of(case, provider, task.query, domains=task.domains, days=task.days)
    if tool != "search" or provider not in case.config.search_by_topic:
        return (plain,)
    news = replace(plain, topic="news")
    first = next(t for t in case.plans[-1].tasks if t.tool == task.tool)
    domains = official_domains(case) if task == first else ()
    asked = (news, *((replace(plain, include_domains=domains),) if domains else ()))
    received = [replies.of(search) for search in asked]
    answers = [reply for reply in received if isinstance(reply, SearchReply)]
    few = sum(len(reply.results) for reply in answers) < ENOUGH
    awaited = None in received or (may_ask_again(case) and any(_is_late(reply) for reply in received))
    return (*asked, plain) if answers and few and not awaited else asked


def forms_of(case: Inquiry, task: SubTask) -> tuple[Search, ...]:
    """Return the requests to a provider that bills each of them, the most productive first.

    The first one searches the parties' and the established outlets' own domains together, if pages are opened for their
    dates. Then follow one for dated news and one of the whole web. docs/verification.md has the measurements.
    """
    tool, _, provider = task.tool.partition(":")
    plain = search_of(case, provider, task.query, domains=task.domains, days=task.days)
    if tool != "search" or provider not in case.config.search_by_topic:
        return (plain,)
    news = replace(plain, topic="news")
    if task != next(t for t in case.plans[-1].tasks if t.tool == task.tool):
        return (news,)
    official = official_domains(case)
    if not official:
        return news, plain
    if not case.config.tool_scrape_enabled:
        return news, replace(plain, include_domains=official), plain
    # This request replaces two searches, and costs the same whatever it returns.
    best = replace(
        plain, include_domains=_preferred_domains(case), max_results=min(2 * plain.max_results, MOST_RESULTS)
    )
    return best, news, plain


def _preferred_domains(case: Inquiry) -> tuple[str, ...]:
    table = case.config.tables.credibility
    outlets = (d for level in ("high", "medium") for d in table.get(level, ()) if "*" not in d)
    beside = case.config.search_include_domains or outlets
    return tuple(dict.fromkeys((*official_domains(case), *beside)))[:MOST_DOMAINS]


def is_counted(case: Inquiry, provider: str) -> bool:
    """Return whether this provider's searches count against the billed requests of a message. Investigations have other limits."""
    config = case.config
    return config.search_requests_per_message > 0 and provider in config.search_billed and not case.open_ended


def requests_sent(case: Inquiry) -> int:
    """Return the number of billed requests sent so far, without failed and cached ones."""
    outcomes = (o for s in case.searches for o in s.outcomes)
    return sum(is_counted(case, o.provider) and o.failure is None and not o.cached for o in outcomes)


def can_search(case: Inquiry) -> bool:
    """Return whether another round could search: a billed request is left, or a provider of the role bills nothing."""
    asked = providers_of(case.config, case.about.event_type)
    left = case.config.search_requests_per_message - requests_sent(case)
    return left > 0 or not asked or not all(is_counted(case, name) for name in asked)


def may_ask_again(case: Inquiry) -> bool:
    """Return whether a search that timed out may be retried, at most ``search_retries`` times."""
    late = sum(1 for f in case.failures if f.step == "search" and f.failure.kind == "timeout")
    return case.config.search_retries is None or late < case.config.search_retries


def _is_late(reply: Reply | None) -> bool:
    return isinstance(reply, Failure) and reply.kind == "timeout"


def topic_of(case: Inquiry, search: Search) -> Literal["", "news", "official", "general"]:
    """Return the topic of a search; empty if its provider does not search by topic."""
    if search.provider not in case.config.search_by_topic:
        return ""
    if search.topic == "news":
        return "news"
    mixed = [(), case.config.search_include_domains]
    mixed += [_preferred_domains(case)] if is_counted(case, search.provider) else []
    return "official" if search.include_domains not in mixed else "general"


def official_domains(case: Inquiry) -> tuple[str, ...]:
    """Return the domains of the claim's official speakers; empty if one of their pages is already evidence."""
    if case.searches and any(r.official for r in case.searches[-1].findings.references):
        return ()
    speaking = compiled(case.config.tables).entities.speaking(claim_of(case))
    return tuple(dict.fromkeys(d for entity in speaking for d in entity.domains))[:MAX_DOMAINS]
