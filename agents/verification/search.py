"""Search: perform the round's sub-tasks, and judge everything found so far by the rules of evidence."""

from __future__ import annotations

from typing import Literal

from msgspec.structs import replace

from agents.case import Case, Replies, denied_kinds
from agents.failures import failed
from agents.step import Asked, On, StepFailure
from agents.verification.rounds import judged_again, may_expand, pages_worth_opening
from schemas.effects import Effect, Failure, FetchMarket, MarketReply, Search, SearchReply
from schemas.events import Event, ProviderOutcome, SearchCompleted, ToolPlanned
from schemas.evidence import Findings

MARKET: dict[str, Literal["price", "macro", "onchain"]] = {
    "price_check": "price",
    "macro_check": "macro",
    "onchain_check": "onchain",
}


class SearchEvidence:
    """A failure is a value: recorded per provider, and never mistaken for "no results"."""

    name = "search"
    takes = (On(ToolPlanned, route="search"),)
    emits = (SearchCompleted,)

    def ask(self, case: Case) -> Asked:
        effects: tuple[Effect, ...] = (*searches(case), *markets(case))
        return effects[0] if len(effects) == 1 else effects

    def tell(self, case: Case, replies: Replies) -> Event:
        outcomes = tuple(outcome(s, replies.of(s)) for s in searches(case))
        _retry_while_it_helps(case, replies, outcomes)
        found = tuple(hit for reply in replies.all(SearchReply) for hit in reply.results)
        query = case.plans[-1].search_keywords
        findings = judged_again(case, query=query, found=found)
        return SearchCompleted(
            round=case.plans[-1].round,
            findings=findings,
            outcomes=outcomes,
            market=tuple(v for reply in replies.all(MarketReply) for v in reply.values),
            # What the budget has denied once is not asked for again in a further round.
            route="critique" if "search" in denied_kinds(replies.calls) else route_after(case, findings),
        )


def searches(case: Case) -> tuple[Search, ...]:
    """Return one search per sub-task of the plan that names a provider."""
    return tuple(
        search_of(case, task.tool.partition(":")[2], task.query)
        for task in case.plans[-1].tasks
        if task.tool.startswith("search:")
    )


def search_of(case: Case, provider: str, query: str) -> Search:
    """Return the search of one provider, as of the case's own time."""
    return Search(
        provider=provider,
        query=query,
        max_results=case.config.search_max_results,
        as_of=case.as_of,
        depth=case.config.search_depth,
        include_domains=case.config.search_include_domains,
        language=case.language,
    )


def markets(case: Case) -> tuple[FetchMarket, ...]:
    """Return the market questions of the plan; the plan holds none whose tool is switched off."""
    kinds = (MARKET[t.tool] for t in case.plans[-1].tasks if t.tool in MARKET)
    return tuple(FetchMarket(kind=k, asset=case.draft.asset, as_of=case.as_of) for k in kinds)


def outcome(search: Search, reply: object) -> ProviderOutcome:
    """Return how one provider did. A missing reply counts as a failure, never as nothing found."""
    if isinstance(reply, SearchReply):
        hits, cached, cut = len(reply.results), reply.cached, reply.truncated
        return ProviderOutcome(provider=search.provider, query=search.query, hits=hits, cached=cached, truncated=cut)
    lost = Failure(kind="internal", message="the search was not answered", retryable=False)
    failure = reply if isinstance(reply, Failure) else lost
    return ProviderOutcome(provider=search.provider, query=search.query, hits=0, failure=failure)


def route_after(case: Case, findings: Findings) -> Literal["scrape", "expand", "critique"]:
    """Return where the case goes with these findings."""
    if case.config.tool_scrape_enabled and pages_worth_opening(case, findings):
        return "scrape"
    return "expand" if may_expand(case, findings) else "critique"


def _retry_while_it_helps(case: Case, replies: Replies, outcomes: tuple[ProviderOutcome, ...]) -> None:
    # All providers down for now: wait for the one that is back soonest while the runtime would; then go on with what there is.
    failures = [o.failure for o in outcomes if o.failure is not None]
    passing = [f for f in failures if f.retryable]
    if not passing or len(failures) < len(outcomes):
        return
    soonest = min(passing, key=lambda f: f.retry_after_s or 0.0)
    if failed(case, STEP.name, soonest, now=replies.at or case.head_at).outcome == "retry":
        raise StepFailure(replace(soonest, message=f"every search provider failed: {soonest.message}"))


STEP = SearchEvidence()
