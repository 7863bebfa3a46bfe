"""The billed requests of a message: as many as its configuration allows, and one more where they leave it in doubt.

SEARCH_REQUESTS_PER_MESSAGE=1:  best request ─► answered ─► doubtful? ─► a second one, of another kind
"""

from __future__ import annotations

from agents.core.case import WEIGHTY
from agents.core.case_core import Replies
from agents.core.inquiry import Inquiry
from agents.planning.providers import AT_HOME, forms_of, is_counted, requests_sent, searches_of
from agents.planning.rounds import evidence_is_there, judged_again
from agents.planning.tool_answers import in_time
from schemas.effects import Failure, Search, SearchReply
from schemas.events import SubTask
from schemas.evidence import Findings, SearchResult


def searches_due(case: Inquiry, task: SubTask, replies: Replies) -> tuple[Search, ...]:
    """Return the searches of one sub-task that are due, as far as the replies so far call for them."""
    if is_counted(case, task.tool.partition(":")[2]):
        return tuple(search for of, search in _requests(case, replies) if of is task)
    return searches_of(case, task, replies)


def in_order(case: Inquiry) -> tuple[SubTask, ...]:
    """Return the latest plan's sub-tasks: first the searches for its own query, the provider who knows the language best ahead."""
    home = f"search:{AT_HOME.get(case.language)}"
    return tuple(sorted(case.plans[-1].tasks, key=lambda t: (not is_main(case, t), t.tool != home)))


def is_main(case: Inquiry, task: SubTask) -> bool:
    """Whether this is a provider's search for the plan's own query: the first one that the plan has of it."""
    return task.tool.startswith("search:") and task is next(t for t in case.plans[-1].tasks if t.tool == task.tool)


def is_doubtful(case: Inquiry, found: Findings) -> bool:
    """Whether a claim of weight has no official page, and the others are too few or contradict one another."""
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
    found = judged_again(case, query=case.plans[-1].search_keywords, answers=answers)
    return is_doubtful(case, found) if left <= 0 else not evidence_is_there(case, found)


def _candidates(case: Inquiry) -> list[tuple[SubTask, Search]]:
    tasks = (t for t in in_order(case) if is_counted(case, t.tool.partition(":")[2]))
    once = dict[Search, SubTask]()
    for task in tasks:
        for search in forms_of(case, task):
            once.setdefault(search, task)
    return [(task, search) for search, task in once.items()]
