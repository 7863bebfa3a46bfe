"""Whose turn it is: the providers of a role are asked one after the other until enough came, unless it asks all at once."""

from __future__ import annotations

from collections.abc import Iterable

from agents.core.case_core import Replies
from agents.core.inquiry import Inquiry
from agents.planning.providers import is_counted, role_of
from agents.planning.requests import in_order, is_main, searches_due
from agents.planning.rounds import evidence_is_there, judged_again, searches_left
from agents.planning.tool_answers import in_time
from schemas.effects import Effect, Search, SearchReply
from schemas.events import SubTask


def tasks_due(case: Inquiry, replies: Replies) -> tuple[SubTask, ...]:
    """Return the sub-tasks of the latest plan that are to be performed, as far as the replies so far call for them.

    Of the searches for the plan's own query: that of the provider who knows the news' language best, then the others in
    the order of priority, each when those before it were answered and did not bring enough pages about the claim.
    """
    tasks = case.plans[-1].tasks
    later = [task for task in tasks if _is_held_back(case, task, replies)]
    if asks_in_turn(case):
        due = list[SubTask]()
        main = [t for t in in_order(case) if is_main(case, t)]
        for task in (t for t in main if t not in later):
            due.append(task)
            if not _is_answered(case, task, replies) or _is_enough(case, due, replies):
                break
        later += [t for t in main if t not in due]
    return tuple(t for t in tasks if t not in later)


def _is_held_back(case: Inquiry, task: SubTask, replies: Replies) -> bool:
    return is_counted(case, task.tool.partition(":")[2]) and not searches_due(case, task, replies)


def asks_in_turn(case: Inquiry) -> bool:
    """Whether the latest plan's providers are asked one after the other. Tables from before this asked all at once."""
    at_once = case.config.tables.search_roles.get("order:at_once")
    tools = {task.tool for task in case.plans[-1].tasks if task.tool.startswith("search:")}
    return len(tools) > 1 and at_once is not None and role_of(case.config, case.about.event_type) not in at_once


def _is_answered(case: Inquiry, task: SubTask, replies: Replies) -> bool:
    return all(replies.of(search) is not None for search in searches_due(case, task, replies))


def _is_enough(case: Inquiry, asked: list[SubTask], replies: Replies) -> bool:
    told = [(task, replies.of(search)) for task in asked for search in searches_due(case, task, replies)]
    answers = [in_time(reply.results, case, task) for task, reply in told if isinstance(reply, SearchReply)]
    return evidence_is_there(case, judged_again(case, query=case.plans[-1].search_keywords, answers=answers))


def within_limit(case: Inquiry, effects: Iterable[Effect], replies: Replies) -> tuple[Effect, ...]:
    """Return the effects without the searches that are beyond the limit of the case: of one round after the other."""
    left = searches_left(case)
    kept: list[Effect] = []
    for effect in sorted(effects, key=lambda e: replies.of(e) is None):  # what was asked already has its place
        left -= isinstance(effect, Search)
        if left >= 0 or not isinstance(effect, Search):
            kept.append(effect)
    return tuple(e for e in effects if e in kept)
