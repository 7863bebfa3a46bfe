"""Whose turn it is: the providers of a role are asked one after the other until enough came, unless it asks all at once."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from msgspec.structs import replace

from agents.core.case import WEIGHTY
from agents.core.case_core import Replies
from agents.core.failures import failed
from agents.core.inquiry import Inquiry
from agents.planning.providers import (
    AT_HOME,
    ENOUGH,
    forms_of,
    is_counted,
    may_ask_again,
    requests_sent,
    role_of,
    searches_of,
)
from agents.planning.rounds import has_enough_evidence, rejudge_findings, searches_left
from agents.planning.tool_answers import in_time
from schemas.effects import Effect, Failure, Search, SearchReply
from schemas.events import ProviderOutcome, SubTask
from schemas.evidence import Findings, SearchResult


def tasks_due(case: Inquiry, replies: Replies) -> tuple[SubTask, ...]:
    """Return the sub-tasks of the latest plan that are to be performed, as far as the replies so far call for them.

    Of the searches for the plan's own query: that of the provider who knows the news' language best, then the others in
    the order of priority, each when those before it were answered and did not bring enough pages about the claim.
    """
    tasks = case.plans[-1].tasks
    later = [task for task in tasks if _is_held_back(case, task, replies)]
    if asks_in_turn(case):
        due = list[SubTask]()
        main = [t for t in tasks_in_order(case) if is_main(case, t)]
        for task in (t for t in main if t not in later):
            due.append(task)
            if not _is_answered(case, task, replies) or _is_enough(case, due, replies):
                break
        later += [t for t in main if t not in due]
    return tuple(t for t in tasks if t not in later)


def _is_held_back(case: Inquiry, task: SubTask, replies: Replies) -> bool:
    return is_counted(case, task.tool.partition(":")[2]) and not searches_due(case, task, replies)


def asks_in_turn(case: Inquiry) -> bool:
    """Return whether the latest plan's providers are asked one after the other. Tables from before this asked all at once."""
    at_once = case.config.tables.search_roles.get("order:at_once")
    tools = {task.tool for task in case.plans[-1].tasks if task.tool.startswith("search:")}
    return len(tools) > 1 and at_once is not None and role_of(case.config, case.about.event_type) not in at_once


def _is_answered(case: Inquiry, task: SubTask, replies: Replies) -> bool:
    return all(replies.of(search) is not None for search in searches_due(case, task, replies))


def _is_enough(case: Inquiry, asked: list[SubTask], replies: Replies) -> bool:
    told = [(task, replies.of(search)) for task in asked for search in searches_due(case, task, replies)]
    answers = [in_time(reply.results, case, task) for task, reply in told if isinstance(reply, SearchReply)]
    return has_enough_evidence(case, rejudge_findings(case, query=case.plans[-1].search_keywords, answers=answers))


def within_limit(case: Inquiry, effects: Iterable[Effect], replies: Replies) -> tuple[Effect, ...]:
    """Return the effects without the searches that are beyond the limit of the case: of one round after the other."""
    left = searches_left(case)
    kept: list[Effect] = []
    for effect in sorted(effects, key=lambda e: replies.of(e) is None):  # what was asked already has its place
        left -= isinstance(effect, Search)
        if left >= 0 or not isinstance(effect, Search):
            kept.append(effect)
    return tuple(e for e in effects if e in kept)


def searches_due(case: Inquiry, task: SubTask, replies: Replies) -> tuple[Search, ...]:
    """Return the searches of one sub-task that are due, as far as the replies so far call for them."""
    if is_counted(case, task.tool.partition(":")[2]):
        return tuple(search for of, search in _requests(case, replies) if of is task)
    return searches_of(case, task, replies)


def tasks_in_order(case: Inquiry) -> tuple[SubTask, ...]:
    """Return the latest plan's sub-tasks: first the searches for its own query, the provider who knows the language best ahead."""
    home = f"search:{AT_HOME.get(case.language)}"
    return tuple(sorted(case.plans[-1].tasks, key=lambda t: (not is_main(case, t), t.tool != home)))


def is_main(case: Inquiry, task: SubTask) -> bool:
    """Return whether this is a provider's search for the plan's own query: the first one that the plan has of it."""
    return task.tool.startswith("search:") and task is next(t for t in case.plans[-1].tasks if t.tool == task.tool)


def is_doubtful(case: Inquiry, found: Findings) -> bool:
    """Return whether a claim of weight has no official page, and the others are too few or contradict one another."""
    official = any(r.official for r in found.references)
    return case.about.event_type in WEIGHTY and not official and (not found.multi_source or found.conflict)


def _requests(case: Inquiry, replies: Replies) -> list[tuple[SubTask, Search]]:
    due = list[tuple[SubTask, Search]]()
    left = case.config.search_requests_per_message - requests_sent(case)
    answers = list[tuple[SearchResult, ...]]()
    down = set[str]()
    for task, search in _candidates(case):
        if search.provider in down:
            continue
        if left < 0 or (left == 0 and not answers) or (answers and not _is_next(case, answers, left=left)):
            break
        due.append((task, search))
        match replies.of(search):
            case SearchReply(results=results, cached=cached):
                left -= not cached
                answers.append(in_time(results, case, task))
            case Failure():
                down.add(search.provider)  # nothing was billed, and its next request would fail as well
            case _:
                break
    return due


def _is_next(case: Inquiry, answers: list[tuple[SearchResult, ...]], *, left: int) -> bool:
    found = rejudge_findings(case, query=case.plans[-1].search_keywords, answers=answers)
    return is_doubtful(case, found) if left <= 0 else not has_enough_evidence(case, found)


def _candidates(case: Inquiry) -> list[tuple[SubTask, Search]]:
    tasks = (t for t in tasks_in_order(case) if is_counted(case, t.tool.partition(":")[2]))
    once = dict[Search, SubTask]()
    for task in tasks:
        for search in forms_of(case, task):
            once.setdefault(search, task)
    return [(task, search) for search, task in once.items()]


SEARCH = "search"


def failure_to_retry(case: Inquiry, outcomes: tuple[ProviderOutcome, ...], *, now: datetime) -> Failure | None:
    """Return the failure for which the search step is tried again; None: it goes on with what it has. ``now`` is UTC.

    The step asks again only for what failed, and not before the first of the providers is back.
    """
    passing, why = _passing(case, outcomes)
    if not passing:
        return None
    soonest = min(passing, key=lambda f: f.retry_after_s or 0.0)
    retry_at = failed(case, SEARCH, soonest, now=now).retry_at
    # A search that took too long may do so again, and that has to end before the path does.
    took = now - case.head_at if soonest.kind == "timeout" and case.config.search_retries is not None else timedelta()
    if retry_at is None or retry_at + took >= case.deep_deadline:
        return None
    return replace(soonest, message=f"{why}: {soonest.message}")


def _passing(case: Inquiry, outcomes: tuple[ProviderOutcome, ...]) -> tuple[list[Failure], str]:
    again = may_ask_again(case)
    sought = [o for o in outcomes if o.topic != "official"]
    failures = [o.failure for o in sought if o.failure is not None]
    if failures and len(failures) == len(sought):
        passing = [f for f in failures if f.retryable and (f.kind != "timeout" or again)]
        return passing, "every search provider failed"
    if case.config.search_retries is None or not again:
        return [], ""
    # Others answered. What took too long is asked again where they gave little, and on the parties' own domains.
    few = sum(o.hits for o in outcomes) < ENOUGH
    late = [o.failure for o in outcomes if o.failure is not None and (few or o.topic == "official")]
    return [f for f in late if f.kind == "timeout"], "a search took too long"
