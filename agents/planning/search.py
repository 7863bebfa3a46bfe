"""The search step: performs the round's sub-tasks and judges all results so far by the rules of evidence."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from msgspec.structs import replace

from agents.core.case_core import Replies, denied_kinds
from agents.core.inquiry import Inquiry
from agents.core.step import On, StepFailure, StepRequest
from agents.planning.due_searches import asks_in_turn, failure_to_retry, searches_due, tasks_due, within_limit
from agents.planning.providers import topic_of
from agents.planning.rounds import may_expand, pages_worth_opening, rejudge_findings
from agents.planning.tool_answers import in_time, observation_of, sentiment
from agents.planning.tools import Reads, effect_of, tool_of
from schemas.effects import Effect, Failure, MarketReply, PageReply, Reply, Search, SearchReply
from schemas.events import Event, ProviderOutcome, SearchCompleted, SubTask, ToolPlanned
from schemas.evidence import Findings, Observation, Page


class SearchEvidence:
    """Record a failure per provider; a failed search never counts as "no results"."""

    name = "search"
    takes = (On(ToolPlanned, route="search"),)
    emits = (SearchCompleted,)

    def ask(self, case: Inquiry) -> StepRequest:
        asked = (e for task in tasks_due(case, case.replies) for e in _effects_of(case, task, case.replies))
        effects = within_limit(case, dict.fromkeys(asked), case.replies)
        if not effects:
            return self.tell(case, Replies())
        # If the replies may lead to another search, the step requests a tuple and is called again.
        alone = len(effects) == 1 and not case.config.search_by_topic and not asks_in_turn(case)
        return effects[0] if alone else effects

    def tell(self, case: Inquiry, replies: Replies) -> Event:
        searches = _answered(case, replies, "evidence")
        outcomes = tuple(
            replace(outcome(asked, reply), topic=topic_of(case, asked))
            for _, asked, reply in searches
            if isinstance(asked, Search)
        )
        if (stop := failure_to_retry(case, outcomes, now=replies.at or case.head_at)) is not None:
            raise StepFailure(stop)
        found_by_task = ((task, reply) for task, _, reply in searches if isinstance(reply, SearchReply))
        answers = tuple(in_time(reply.results, case, task) for task, reply in found_by_task)
        pages = tuple(r.page for _, _, r in _answered(case, replies, "page") if isinstance(r, PageReply))
        findings = rejudge_findings(
            case, query=case.plans[-1].search_keywords, answers=answers, opened=pages, searched_at=replies.at
        )
        return SearchCompleted(
            round=case.plans[-1].round,
            findings=findings,
            outcomes=outcomes,
            market=tuple(v for reply in replies.all(MarketReply) for v in reply.values),
            # A kind of call that the budget denied is not requested again in a later round.
            route="critique" if "search" in denied_kinds(replies.calls) else route_after(case, findings),
            observations=tuple(_observations(case, replies, findings, pages)),
            pages=pages,
        )


def _effects_of(case: Inquiry, task: SubTask, replies: Replies) -> tuple[Effect, ...]:
    if (tool := tool_of(task)) and tool.reads == "evidence":
        return searches_due(case, task, replies)
    effect = effect_of(case, task)
    return () if effect is None else (effect,)


def _answered(case: Inquiry, replies: Replies, reads: Reads) -> list[tuple[SubTask, Effect | None, Reply | None]]:
    tasks = (task for task in tasks_due(case, replies) if (tool := tool_of(task)) and tool.reads == reads)
    asked = ((task, effect) for task in tasks for effect in _effects_of(case, task, replies) or (None,))
    return [(task, effect, replies.of(effect) if effect else None) for task, effect in asked]


def _observations(
    case: Inquiry, replies: Replies, findings: Findings, pages: tuple[Page, ...]
) -> Iterator[Observation]:
    # Figures have their own field in the event. Here are only the failures to read figures or a page.
    for task, _, reply in (*_answered(case, replies, "figures"), *_answered(case, replies, "page")):
        if not isinstance(reply, MarketReply | PageReply):
            yield observation_of(case, task, reply)
    for task, _, reply in (*_answered(case, replies, "memory"), *_answered(case, replies, "context")):
        yield observation_of(case, task, reply)
    read = (*case.opened_pages, *pages)
    for task, _, _ in _answered(case, replies, "mood"):
        yield sentiment(case, task, findings, read)


def outcome(search: Search, reply: object) -> ProviderOutcome:
    """Return the result of one provider's search. A missing reply counts as a failure, never as "no results"."""
    if isinstance(reply, SearchReply):
        hits, cached, cut = len(reply.results), reply.cached, reply.truncated
        return ProviderOutcome(provider=search.provider, query=search.query, hits=hits, cached=cached, truncated=cut)
    # Every requested search has a reply, so this one was left out: it is beyond the limit of the case.
    lost = Failure(kind="budget", message="the searches of this case are used up", retryable=False)
    failure = reply if isinstance(reply, Failure) else lost
    return ProviderOutcome(provider=search.provider, query=search.query, hits=0, failure=failure)


def route_after(case: Inquiry, findings: Findings) -> Literal["scrape", "expand", "critique"]:
    """Return the route for the case after these findings."""
    if case.config.tool_scrape_enabled and pages_worth_opening(case, findings):
        return "scrape"
    return "expand" if may_expand(case, findings) else "critique"


STEP = SearchEvidence()
