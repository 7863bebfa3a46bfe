"""The searches of a round that are due: whose turn it is, how many requests are billed, and what is worth a retry.

The providers of a role are called one after the other until there is enough evidence, unless the role calls all at once.
A message sends as many billed requests as its configuration allows, and one more if the claim is still in doubt:

SEARCH_REQUESTS_PER_MESSAGE=1:  best request ─► reply ─► in doubt? ─► a second request, of another kind
"""

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
    OWN_DOCUMENTS,
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
    """Return the sub-tasks of the latest plan that are due after the replies so far.

    The searches for the plan's own query start with the desk's own documents and the provider that knows the news' language
    best. The others follow in order of priority, each after the ones before it returned without enough pages about the claim.
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
    """Return whether the latest plan's providers are called one after the other. Older tables called all at once."""
    at_once = case.config.tables.search_roles.get("order:at_once")
    tools = {task.tool for task in case.plans[-1].tasks if task.tool.startswith("search:")}
    return len(tools) > 1 and at_once is not None and role_of(case.config, case.about.event_type) not in at_once


def _is_answered(case: Inquiry, task: SubTask, replies: Replies) -> bool:
    return all(replies.of(search) is not None for search in searches_due(case, task, replies))


def _is_enough(case: Inquiry, asked: list[SubTask], replies: Replies) -> bool:
    searched = [(task, replies.of(search)) for task in asked for search in searches_due(case, task, replies)]
    answers = [in_time(reply.results, case, task) for task, reply in searched if isinstance(reply, SearchReply)]
    return has_enough_evidence(case, rejudge_findings(case, query=case.plans[-1].search_keywords, answers=answers))


def within_limit(case: Inquiry, effects: Iterable[Effect], replies: Replies) -> tuple[Effect, ...]:
    """Return the effects without the searches beyond the limit of the case, which counts over all rounds."""
    left = searches_left(case)
    kept: list[Effect] = []
    for effect in sorted(effects, key=lambda e: replies.of(e) is None):  # effects with a reply come first
        left -= isinstance(effect, Search)
        if left >= 0 or not isinstance(effect, Search):
            kept.append(effect)
    return tuple(e for e in effects if e in kept)


def searches_due(case: Inquiry, task: SubTask, replies: Replies) -> tuple[Search, ...]:
    """Return the searches of one sub-task that are due after the replies so far."""
    if is_counted(case, task.tool.partition(":")[2]):
        return tuple(search for of, search in _requests(case, replies) if of is task)
    return searches_of(case, task, replies)


def tasks_in_order(case: Inquiry) -> tuple[SubTask, ...]:
    """Return the latest plan's sub-tasks, the searches for its own query first.

    These begin with the desk's own documents, then the provider that knows the language best.
    """
    first = (f"search:{OWN_DOCUMENTS}", f"search:{AT_HOME.get(case.language)}")
    place = {tool: number for number, tool in enumerate(first)}
    return tuple(sorted(case.plans[-1].tasks, key=lambda t: (not is_main(case, t), place.get(t.tool, len(place)))))


def is_main(case: Inquiry, task: SubTask) -> bool:
    """Return whether this is the provider's search for the plan's own query, which is its first one in the plan."""
    return task.tool.startswith("search:") and task is next(t for t in case.plans[-1].tasks if t.tool == task.tool)


def is_doubtful(case: Inquiry, findings: Findings) -> bool:
    """Return whether a weighty claim has no official page, and the other pages are too few or contradict each other."""
    official = any(r.official for r in findings.references)
    return case.about.event_type in WEIGHTY and not official and (not findings.multi_source or findings.conflict)


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
                down.add(search.provider)  # nothing was billed, and its next request would fail too
            case _:
                break
    return due


def _is_next(case: Inquiry, answers: list[tuple[SearchResult, ...]], *, left: int) -> bool:
    findings = rejudge_findings(case, query=case.plans[-1].search_keywords, answers=answers)
    return is_doubtful(case, findings) if left <= 0 else not has_enough_evidence(case, findings)


def _candidates(case: Inquiry) -> list[tuple[SubTask, Search]]:
    tasks = (t for t in tasks_in_order(case) if is_counted(case, t.tool.partition(":")[2]))
    once = dict[Search, SubTask]()
    for task in tasks:
        for search in forms_of(case, task):
            once.setdefault(search, task)
    return [(task, search) for search, task in once.items()]


SEARCH = "search"


def failure_to_retry(case: Inquiry, outcomes: tuple[ProviderOutcome, ...], *, now: datetime) -> Failure | None:
    """Return the failure for which the search step is retried; None if it continues with its results. ``now`` is UTC.

    The retry repeats only the failed searches, and not before the first provider is available again.
    """
    passing, why = _passing(case, outcomes)
    if not passing:
        return None
    soonest = min(passing, key=lambda f: f.retry_after_s or 0.0)
    retry_at = failed(case, SEARCH, soonest, now=now).retry_at
    # A search that timed out may do so again, and must still end before the path does.
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
    # Other searches returned. A timeout is retried if they returned little, and for the parties' own domains.
    few = sum(o.hits for o in outcomes) < ENOUGH
    late = [o.failure for o in outcomes if o.failure is not None and (few or o.topic == "official")]
    return [f for f in late if f.kind == "timeout"], "a search took too long"
