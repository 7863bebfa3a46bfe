"""The plan step: decides what to look up next. Rules decide where they can; otherwise a model is asked."""

from __future__ import annotations

from msgspec.structs import replace

from agents.core.answers import clean_keywords, one_line
from agents.core.case import Case
from agents.core.case_core import Replies
from agents.core.failures import raise_to_retry
from agents.core.inquiry import Inquiry
from agents.core.step import On, StepFailure, StepRequest, needed, only_reply
from agents.evidence.news_claim import claim_of
from agents.planning.plan_rules import WHY_NOTHING, DecidedBy, KeywordsFrom, decided_by, needed_tools
from agents.planning.plan_tools import Decision, decide_next_tools, decision_of, planning_call, sub_tasks, tasks_of
from agents.planning.providers import providers_of
from agents.planning.query_builder import build_query, fallback_query
from agents.planning.requested_task import RequestedTask, wanted_tasks
from agents.planning.tools import TOOLS, offered_tools
from schemas.effects import Failure, FunctionDeclaration, ModelReply
from schemas.events import ContextGathered, Event, KeywordsExpanded, SubTask, ToolPlanned
from schemas.research_events import InvestigationFramed


class PlanTools:
    """Apply the rules in the order of :mod:`agents.planning.plan_rules`. If they choose no tools, no call is made."""

    takes = (On(ContextGathered), On(InvestigationFramed), On(KeywordsExpanded, route="plan"))
    emits = (ToolPlanned,)

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def declares(self) -> tuple[FunctionDeclaration, ...]:
        """The function with every tool, and with each tool alone. A case is offered a subset."""
        return decide_next_tools(tuple(TOOLS)), *(
            replace(declaration, name=f"{declaration.name}/{tool}")
            for tool in TOOLS
            for declaration in (decide_next_tools((tool,)),)
        )

    def ask(self, case: Inquiry) -> StepRequest:
        if isinstance(case, Case) and case.look is not None:
            return _again(case, case.look.keywords)
        rule = decided_by(case)
        if rule not in ("model", "force_search"):
            return _nothing(case, rule)
        if isinstance(case, Case):
            return planning_call(case)
        asked, tasks = case.next_questions, tasks_of(case, case.next_questions)
        why = "keywords that the evidence named" if case.plans else "the sub-questions of the frame"
        return _event(case, "model", tasks, "; ".join(q.query for q in asked), "model", reason=why)

    def tell(self, case: Inquiry, replies: Replies) -> Event:
        rule, reply = decided_by(case), only_reply(replies)
        try:
            decision = decision_of(needed(reply, ModelReply))
        except StepFailure as stop:
            if rule != "force_search":
                raise
            return _without_model(case, replies, stop.failure, step=self.name)
        return _planned(case, rule, decision)


def _planned(case: Inquiry, rule: DecidedBy, decision: Decision) -> ToolPlanned:
    wanted = wanted_tasks(decision.tasks)
    named = {*decision.tools, *needed_tools(case), *(w.tool for w in wanted)}
    tools = tuple(t for t in offered_tools(case) if t in named)
    reason, keywords = one_line(decision.reason, 300), _keywords(decision, wanted)
    source: KeywordsFrom = "model" if "search" in tools else "none"
    if source == "model" and not keywords:
        keywords, source = fallback_query(case.about), "fallback"
    return _event(case, rule, sub_tasks(case, tools, keywords, wanted), keywords, source, reason=reason)


def _keywords(decision: Decision, wanted: tuple[RequestedTask, ...]) -> str:
    first = next((w.query for w in wanted if w.tool == "search" and w.query), "")
    return clean_keywords(decision.search_keywords) or first


def _without_model(case: Inquiry, replies: Replies, failure: Failure, *, step: str) -> ToolPlanned:
    # A forced search needs no model; it only improves the keywords.
    raise_to_retry(case, step, (failure,), now=replies.at)
    keywords = build_query(
        claim_of(case), provider=providers_of(case.config, case.about.event_type)[0], tables=case.config.tables
    )
    why = f"a search is forced for {case.about.event_type}; no keywords from the model ({failure.kind})"
    return _event(case, "force_search", sub_tasks(case, ("search",), ""), keywords, "query_builder", reason=why)


def _again(case: Case, keywords: str) -> ToolPlanned:
    # The first plan's keywords, or built ones: no model is called again to find new pages.
    tasks = sub_tasks(case, ("search",), keywords) if "search" in offered_tools(case) else ()
    source: KeywordsFrom = "model" if keywords else "query_builder"
    return _event(case, "second_look", tasks, keywords, source, reason="the same search, once more")


def _nothing(case: Inquiry, rule: DecidedBy) -> ToolPlanned:
    return _event(case, rule, (), "", "none", reason=WHY_NOTHING[rule])


def _event(
    case: Inquiry, rule: DecidedBy, tasks: tuple[SubTask, ...], keywords: str, source: KeywordsFrom, *, reason: str
) -> ToolPlanned:
    return ToolPlanned(
        round=len(case.plans) + 1,
        tools=tuple(dict.fromkeys(task.tool.partition(":")[0] for task in tasks)),
        search_keywords=keywords if source != "none" else "",
        keywords_from=source,
        decided_by=rule,
        reason=reason,
        tasks=tasks,
        route="search" if tasks else "critique",
    )


STEP = PlanTools("plan")
