"""The tools that a plan may choose from, and the sub-tasks that a choice becomes."""

from __future__ import annotations

from agents.case import Case
from agents.evidence.claim import claim_of
from agents.evidence.query_builder import build_query, fit_query
from agents.verification.asking import bounded
from agents.verification.providers import providers_of
from schemas.config import Snapshot
from schemas.effects import FunctionDeclaration, Part, Untrusted
from schemas.events import KeywordsExpanded, SubTask

TOOLS: dict[str, tuple[str, str]] = {
    "search": ("tool_search_enabled", "search the web for evidence"),
    "price_check": ("tool_price_enabled", "read the asset's price"),
    "macro_check": ("tool_macro_enabled", "read macro indicators"),
    "onchain_check": ("tool_onchain_enabled", "read on-chain figures of the asset"),
}
"""Every tool by name: the setting that switches it on, and what it does."""


def enabled_tools(config: Snapshot) -> tuple[str, ...]:
    """Return the names of the tools that are switched on; a search needs a provider as well."""
    on = (name for name, (setting, _) in TOOLS.items() if getattr(config, setting))
    return tuple(name for name in on if name != "search" or config.search_providers)


def decide_next_tools(tools: tuple[str, ...]) -> FunctionDeclaration:
    """Return the function that the model is forced to call."""
    choice = "; ".join(f"{name}: {TOOLS[name][1]}" for name in tools)
    return FunctionDeclaration(
        name="decide_next_tools",
        description=f"Choose what to look up next ({choice}). No tools: nothing more is needed.",
        parameters={
            "type": "object",
            "properties": {
                "tools": {"type": "array", "items": {"type": "string", "enum": list(tools)}},
                "search_keywords": {"type": "string"},
                "reason": {"type": "string"},
            },
            "required": ["tools", "reason"],
        },
    )


def expanded_keywords(case: Case) -> tuple[Part, ...]:
    """Return the keywords that the expansion found in the evidence, where it led to this plan. Words from outside."""
    if not isinstance(case.head, KeywordsExpanded) and not case.expansions:
        return ()
    return (Untrusted("expanded_keywords", bounded(", ".join(case.expansions[-1].keywords), 300)),)


def sub_tasks(case: Case, tools: tuple[str, ...], keywords: str, *, built: bool) -> tuple[SubTask, ...]:
    """Return one sub-task per provider and tool, each with a query of the provider's own kind.

    ``built``: the query builder's own instead of the keywords. A provider that was asked the same before is left out,
    unless nobody would be asked.
    """
    config, claim = case.config, case.draft.summary
    tasks = []
    for tool in tools:
        if tool != "search":
            tasks.append(SubTask(tool=tool, query=case.draft.asset, claim=claim))
            continue
        asked = {(task.tool, task.query) for plan in case.plans for task in plan.tasks}
        searches = [
            _search(case, provider, keywords, built) for provider in providers_of(config, case.draft.event_type)
        ]
        tasks += [task for task in searches if (task.tool, task.query) not in asked] or searches
    return tuple(tasks)


def _search(case: Case, provider: str, keywords: str, built: bool) -> SubTask:
    claim, tables = claim_of(case), case.config.tables
    query = build_query(claim, provider=provider, tables=tables)
    if not built:
        query = fit_query(keywords, claim, provider=provider, tables=tables)
    return SubTask(tool=f"search:{provider}", query=query, claim=case.draft.summary)
