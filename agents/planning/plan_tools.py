"""The function that a planning model must call, and the sub-tasks made from the call."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec

from agents.core.answers import checked
from agents.core.case import Case
from agents.core.inquiry import Inquiry
from agents.core.model_calls import ask_model, bounded, facts, findings_facts, memory_parts, news_parts, stated_claim
from agents.core.step import StepFailure, invalid_output
from agents.planning.plan_rules import claim_count, is_complex
from agents.planning.providers import one_provider
from agents.planning.requested_task import MAX_TASKS, RequestedTask
from agents.planning.rounds import findings_so_far, references_so_far
from agents.planning.tool_answers import tool_facts, tool_parts
from agents.planning.tools import TOOLS, offered_tools, unopened
from schemas.effects import CallModel, FunctionDeclaration, ModelReply, Part, Untrusted
from schemas.events import KeywordsExpanded, SubTask
from schemas.research_events import SubQuestion

_GIVEN_APART = ("query", "asset")
"""Arguments not repeated for each tool: every sub-task has ``query``, and the case determines ``asset``."""


class Decision(msgspec.Struct):
    """The arguments of ``decide_next_tools``, as the model wrote them. ``tasks`` is optional, checked item by item."""

    tools: list[str]
    reason: str
    search_keywords: str = ""
    tasks: Any = None


def planning_call(case: Case) -> CallModel:
    """Return the call of the planning model: the known facts, and the tools that it may choose."""
    findings, tools = findings_so_far(case), offered_tools(case)
    known = facts(
        **findings_facts(findings),
        **tool_facts(case),
        searches=len(case.searches),
        event_type=case.about.event_type,
        claims=claim_count(case),
    )
    memories = memory_parts(case.memories)
    return ask_model(
        case,
        "plan",
        (
            *news_parts(case),
            *stated_claim(case),
            known,
            *memories,
            *tool_parts(case),
            *expanded_keywords(case),
            *unopened_parts(case, tools),
        ),
        functions=(decide_next_tools(tools),),
        forced_function="decide_next_tools",
        round=str(len(case.plans) + 1),
        rounds=str(case.limits.rounds),
        tools=", ".join(tools),
        queries=str(queries_allowed(case)),
    )


def decide_next_tools(tools: tuple[str, ...]) -> FunctionDeclaration:
    """Return the declaration of the forced function: the offered tools, with all their arguments."""
    choice = "; ".join(f"{name}: {TOOLS[name].about}" for name in tools)
    arguments: dict[str, Any] = {}
    for name in tools:
        own = {key: schema for key, schema in TOOLS[name].parameters.items() if key not in _GIVEN_APART}
        arguments |= {
            key: {**schema, "description": f"of {name}"} for key, schema in own.items() if key not in arguments
        }
    task = {
        "claim": {"type": "string"},
        "tool": {"type": "string", "enum": list(tools)},
        "query": {"type": "string"},
        **arguments,
    }
    return FunctionDeclaration(
        name="decide_next_tools",
        description=f"Choose what to look up next ({choice}). No tools: nothing more is needed.",
        parameters={
            "type": "object",
            "properties": {
                "tools": {"type": "array", "items": {"type": "string", "enum": list(tools)}},
                "search_keywords": {"type": "string"},
                "reason": {"type": "string"},
                "tasks": {
                    "type": "array",
                    "maxItems": MAX_TASKS,
                    "items": {"type": "object", "properties": task, "required": ["claim", "tool"]},
                },
            },
            "required": ["tools", "reason"],
        },
    )


def expanded_keywords(case: Inquiry) -> tuple[Part, ...]:
    """Return the keywords of the latest expansion as an untrusted part; empty without one."""
    if not isinstance(case.head, KeywordsExpanded) and not case.expansions:
        return ()
    return (Untrusted("expanded_keywords", bounded(", ".join(case.expansions[-1].keywords), 300)),)


def unopened_parts(case: Inquiry, tools: tuple[str, ...]) -> tuple[Part, ...]:
    """Return title and address of the unopened references as untrusted parts; empty if no offered tool opens pages."""
    urls = unopened(case) if "web_scrape" in tools else ()
    shown = (r for r in references_so_far(case) if r.url in urls)
    return tuple(Untrusted(f"unopened {r.reference_number}", f"{bounded(r.title, 120)}\n{r.url}") for r in shown)


def queries_allowed(case: Inquiry) -> int:
    """Return the maximum number of different queries in the next plan, at least 1.

    The simple path has one. A complex case searches claim by claim: up to ``DEEP_ANALYSIS_MAX_TOOL_CALLS`` (the number
    of rounds) in a round and ``MAX_TASKS`` in all rounds; after that each further round has one.
    """
    if not is_complex(case):
        return 1
    asked = Counter(task.tool for plan in case.plans for task in plan.tasks if task.tool.startswith("search:"))
    return max(1, min(case.limits.rounds, MAX_TASKS - max(asked.values(), default=0)))


def sub_tasks(
    case: Inquiry, tools: tuple[str, ...], keywords: str, wanted: tuple[RequestedTask, ...] = ()
) -> tuple[SubTask, ...]:
    """Return the independent sub-tasks of a round, which run concurrently.

    The keywords (or built queries) go to every provider of the event's role, each further claim of a complex case to
    one. There are at most ``MAX_TASKS``, searches and figures first, but every provider of the keywords is kept.
    Earlier queries are not repeated, unless no provider would be asked at all.
    """
    asked = {(task.tool, task.query, task.domains) for plan in case.plans for task in plan.tasks}

    def new(tasks: list[SubTask]) -> list[SubTask]:
        fresh = {(t.tool, t.query, t.domains): t for t in tasks if (t.tool, t.query, t.domains) not in asked}
        return list(fresh.values())

    main: list[SubTask] = []
    further: list[SubTask] = []
    if "search" in tools:
        same = next((w.claim for w in wanted if w.tool == "search" and w.query == keywords), "")
        main = list(TOOLS["search"].tasks(case, RequestedTask(tool="search", claim=same, query=keywords)))
        further = [t for t in new(_claim_by_claim(case, keywords, wanted)) if t not in main]
    figures, others = _beside(case, tools, keywords, wanted)
    rest = [*new(figures), *further, *new(others)]
    first = new(main) or main
    return tuple([*first, *rest][: max(MAX_TASKS, len(first))])


def decision_of(reply: ModelReply) -> Decision:
    """Return the arguments of the model's function call.

    Raises:
        StepFailure: invalid_output, if it did not call the function or the arguments do not match.
    """
    call = next((c for c in reply.function_calls if c.name == "decide_next_tools"), None)
    if call is None:
        raise StepFailure(invalid_output("the model did not call decide_next_tools"))
    return checked(call.args, Decision)


def tasks_of(case: Inquiry, questions: tuple[SubQuestion, ...]) -> tuple[SubTask, ...]:
    """Return the sub-tasks of given questions: the first goes to every provider, each other question to one.

    Earlier queries are not repeated.
    """
    tasks: list[SubTask] = []
    for question in questions:
        tool = "platform_search" if question.platforms else "search"
        wish = RequestedTask(tool=tool, claim=question.question, query=question.query)
        wanted = TOOLS[tool].tasks(case, wish) if tool in offered_tools(case) else ()
        home = tuple(t for t in wanted if t.tool.partition(":")[2] == one_provider(case)) or wanted
        tasks += wanted if not tasks else home[:1]
    asked = {(t.tool, t.query) for plan in case.plans for t in plan.tasks}
    return tuple(t for t in dict.fromkeys(tasks) if (t.tool, t.query) not in asked)


def _claim_by_claim(case: Inquiry, keywords: str, wanted: tuple[RequestedTask, ...]) -> list[SubTask]:
    # One provider is enough for a further claim; the main claim goes to all.
    other = [w for w in wanted if w.tool == "search" and w.query and w.query != keywords]
    tasks = []
    for wish in other[: queries_allowed(case) - 1]:
        per_provider = TOOLS["search"].tasks(case, wish)
        preferred = (t for t in per_provider if t.tool == f"search:{one_provider(case)}")
        tasks.append(next(preferred, per_provider[0]))
    return tasks


def _beside(
    case: Inquiry, tools: tuple[str, ...], keywords: str, wanted: tuple[RequestedTask, ...]
) -> tuple[list[SubTask], list[SubTask]]:
    figures: list[SubTask] = []
    others: list[SubTask] = []
    for name in (t for t in tools if t != "search"):
        wishes = [w for w in wanted if w.tool == name] or [RequestedTask(tool=name, query=keywords)]
        tool = TOOLS[name]
        paid = tool.reads in ("evidence", "context")
        tasks = [t for wish in (wishes[:1] if paid else wishes) for t in tool.tasks(case, wish)]
        (figures if tool.reads == "figures" else others).extend(tasks)
    return figures, others
