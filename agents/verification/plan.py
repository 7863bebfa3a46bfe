"""Plan: what to look up next. Rules decide where they can; only then a model is paid to."""

from __future__ import annotations

import msgspec

from agents.case import Case, Replies
from agents.evidence.claim import claim_of
from agents.evidence.query_builder import build_query, fallback_query
from agents.failures import failed
from agents.step import Asked, On, StepFailure, invalid_output, needed, only_reply
from agents.verification.answers import checked, clean_keywords, one_line
from agents.verification.asking import ask_model, facts, findings_facts, memory_parts, news_parts
from agents.verification.plan_rules import WHY_NOTHING, DecidedBy, KeywordsFrom, decided_by
from agents.verification.plan_tools import decide_next_tools, enabled_tools, expanded_keywords, sub_tasks
from agents.verification.providers import providers_of
from agents.verification.rounds import findings_so_far
from schemas.effects import CallModel, Failure, ModelReply
from schemas.events import ContextGathered, Event, KeywordsExpanded, ToolPlanned


class Decision(msgspec.Struct):
    """The arguments of ``decide_next_tools``, as the model wrote them."""

    tools: list[str]
    reason: str
    search_keywords: str = ""


class PlanTools:
    """Rules in the order of VERIFICATION, "Plan"; where they say none, no call is made."""

    name = "plan"
    takes = (On(ContextGathered), On(KeywordsExpanded, route="plan"))
    emits = (ToolPlanned,)

    def ask(self, case: Case) -> Asked:
        rule = decided_by(case)
        return _question(case) if rule in ("model", "force_search") else _nothing(case, rule)

    def tell(self, case: Case, replies: Replies) -> Event:
        rule, reply = decided_by(case), only_reply(replies)
        if rule == "force_search":
            try:
                decision = _decision(needed(reply, ModelReply))
            except StepFailure as stop:
                return _without_model(case, replies, stop.failure)
            return _planned(case, rule, ["search", *decision.tools], decision)
        decision = _decision(needed(reply, ModelReply))
        return _planned(case, rule, decision.tools, decision)


def _question(case: Case) -> CallModel:
    config, findings = case.config, findings_so_far(case)
    known = facts(**findings_facts(findings), searches=len(case.searches), event_type=case.draft.event_type)
    memories = memory_parts(case.context.entries if case.context else ())
    tools = enabled_tools(config)
    return ask_model(
        case,
        "plan",
        (*news_parts(case), known, *memories, *expanded_keywords(case)),
        functions=(decide_next_tools(tools),),
        forced_function="decide_next_tools",
        round=str(len(case.plans) + 1),
        rounds=str(config.deep_analysis_max_tool_calls),
        tools=", ".join(tools),
    )


def _decision(reply: ModelReply) -> Decision:
    call = next((c for c in reply.function_calls if c.name == "decide_next_tools"), None)
    if call is None:
        raise StepFailure(invalid_output("the model did not call decide_next_tools"))
    return checked(call.args, Decision)


def _planned(case: Case, rule: DecidedBy, wanted: list[str], decision: Decision) -> ToolPlanned:
    tools = tuple(t for t in enabled_tools(case.config) if t in wanted)
    reason, keywords = one_line(decision.reason, 300), clean_keywords(decision.search_keywords)
    if "search" not in tools:
        return _event(case, rule, tools, "", "none", reason=reason)
    if not keywords:
        return _event(case, rule, tools, fallback_query(case.draft), "fallback", reason=reason)
    return _event(case, rule, tools, keywords, "model", reason=reason)


def _without_model(case: Case, replies: Replies, failure: Failure) -> ToolPlanned:
    # A forced search needs no model: only its keywords would have been better.
    if failed(case, STEP.name, failure, now=replies.at or case.head_at).outcome == "retry":
        raise StepFailure(failure)
    keywords = build_query(
        claim_of(case), provider=providers_of(case.config, case.draft.event_type)[0], tables=case.config.tables
    )
    why = f"a search is forced for {case.draft.event_type}; no keywords from the model ({failure.kind})"
    return _event(case, "force_search", ("search",), keywords, "query_builder", reason=why)


def _nothing(case: Case, rule: DecidedBy) -> ToolPlanned:
    return _event(case, rule, (), "", "none", reason=WHY_NOTHING[rule])


def _event(
    case: Case, rule: DecidedBy, tools: tuple[str, ...], keywords: str, source: KeywordsFrom, *, reason: str
) -> ToolPlanned:
    return ToolPlanned(
        round=len(case.plans) + 1,
        tools=tools,
        search_keywords=keywords,
        keywords_from=source,
        decided_by=rule,
        reason=reason,
        tasks=sub_tasks(case, tools, keywords, built=source == "query_builder"),
        route="search" if tools else "critique",
    )


STEP = PlanTools()
