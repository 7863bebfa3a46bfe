"""Whose turn it is: the providers of a role are asked one after the other until enough came, unless it asks all at once."""

from __future__ import annotations

from agents.core.case_core import Replies
from agents.core.inquiry import Inquiry
from agents.planning.providers import AT_HOME, role_of, searches_of
from agents.planning.rounds import evidence_is_there, judged_again
from agents.planning.tool_answers import in_time
from schemas.effects import SearchReply
from schemas.events import SubTask


def tasks_due(case: Inquiry, replies: Replies) -> tuple[SubTask, ...]:
    """Return the sub-tasks of the latest plan that are to be performed, as far as the replies so far call for them.

    Of the searches for the plan's own query: that of the provider who knows the news' language best, then the others in
    the order of priority, each when those before it were answered and did not bring enough pages about the claim.
    """
    plan = case.plans[-1]
    main = {task.tool: task for task in reversed(plan.tasks) if task.tool.startswith("search:")}
    if not asks_in_turn(case):
        return plan.tasks
    home = f"search:{AT_HOME.get(case.language)}"
    due = list[SubTask]()
    for task in sorted((t for t in plan.tasks if t is main.get(t.tool)), key=lambda t: t.tool != home):
        due.append(task)
        if not _is_answered(case, task, replies) or _is_enough(case, due, replies):
            break
    return tuple(t for t in plan.tasks if t in due or t is not main.get(t.tool))


def asks_in_turn(case: Inquiry) -> bool:
    """Whether the latest plan's providers are asked one after the other. Tables from before this asked all at once."""
    at_once = case.config.tables.search_roles.get("order:at_once")
    tools = {task.tool for task in case.plans[-1].tasks if task.tool.startswith("search:")}
    return len(tools) > 1 and at_once is not None and role_of(case.config, case.about.event_type) not in at_once


def _is_answered(case: Inquiry, task: SubTask, replies: Replies) -> bool:
    return all(replies.of(search) is not None for search in searches_of(case, task, replies))


def _is_enough(case: Inquiry, asked: list[SubTask], replies: Replies) -> bool:
    told = [(task, replies.of(search)) for task in asked for search in searches_of(case, task, replies)]
    answers = [in_time(reply.results, case, task) for task, reply in told if isinstance(reply, SearchReply)]
    return evidence_is_there(case, judged_again(case, query=case.plans[-1].search_keywords, answers=answers))
