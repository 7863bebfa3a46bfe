"""The table of planning tools. To add a tool, add one row; ``tool_answers`` reads the answers.

A row states how the tool is described to a model, when it is offered, which sub-tasks a request for it becomes, and
which effect performs a sub-task. Every effect argument comes from the case, from our tables, or through ``wanted``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import msgspec

from agents.core.inquiry import Inquiry
from agents.planning import tool_tasks as of
from agents.planning.providers import one_provider
from agents.planning.requested_task import MAX_DAYS, PLATFORMS, TIME_RANGES, RequestedTask
from schemas.effects import Effect, FetchMarket, FunctionDeclaration
from schemas.events import SubTask

Reads = Literal["evidence", "page", "figures", "memory", "context", "mood"]
Tasks = Callable[[Inquiry, RequestedTask], tuple[SubTask, ...]]
_STRING: dict[str, Any] = {"type": "string"}
_FLAG: dict[str, Any] = {"type": "boolean"}


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """One row. ``parameters`` are the properties of the tool's JSON Schema, and ``required`` those that must be given.

    ``setting`` switches the tool on (None: always on). ``makes_sense`` tells whether a case can use it. ``reads`` is
    the kind of its answer: evidence, pages and figures justify a plan of their own; the others only accompany one.
    """

    name: str
    about: str
    reads: Reads
    tasks: Tasks
    effect: Callable[[Inquiry, SubTask], Effect | None]
    setting: str | None = None
    parameters: dict[str, Any] = {}
    required: tuple[str, ...] = ()
    makes_sense: Callable[[Inquiry], bool] = lambda _case: True

    @property
    def declaration(self) -> FunctionDeclaration:
        schema = {"type": "object", "properties": self.parameters, "required": list(self.required)}
        return FunctionDeclaration(name=self.name, description=self.about, parameters=schema)


def _market(kind: Literal["price", "macro", "onchain"], name: str) -> dict[str, Any]:
    # The asset is always the case's own: another asset's figure would become this signal's reference price.
    def tasks(case: Inquiry, wanted: RequestedTask) -> tuple[SubTask, ...]:
        return (SubTask(tool=name, query=case.about.asset, claim=wanted.claim or case.about.summary),)

    def effect(case: Inquiry, _task: SubTask) -> Effect:
        return FetchMarket(kind=kind, asset=case.about.asset, as_of=case.as_of)

    return {"name": name, "reads": "figures", "tasks": tasks, "effect": effect, "setting": f"tool_{kind}_enabled"}


def _remembers(case: Inquiry) -> bool:
    return case.has_memory


_ROWS = (
    Tool(
        name="search",
        about="search the web for evidence",
        reads="evidence",
        setting="tool_search_enabled",
        makes_sense=lambda case: bool(case.config.search_providers),
        parameters={"query": _STRING},
        required=("query",),
        tasks=of.searched,
        effect=of.search_effect,
    ),
    Tool(**_market("price", "price_check"), about="read the asset's price", parameters={"asset": _STRING}),
    Tool(**_market("macro", "macro_check"), about="read macro indicators"),
    Tool(
        **_market("onchain", "onchain_check"),
        about="read on-chain figures of the asset",
        parameters={"asset": _STRING},
    ),
    Tool(
        name="web_scrape",
        about="open one more page of the references, by its exact url",
        reads="page",
        setting="tool_scrape_enabled",
        makes_sense=lambda case: bool(of.unopened(case)),
        parameters={"url": _STRING},
        required=("url",),
        tasks=of.scraped,
        effect=of.scrape_effect,
    ),
    Tool(
        name="platform_search",
        about="search what is said on social platforms; costs as much as a search",
        reads="evidence",
        setting="tool_platform_search_enabled",
        makes_sense=lambda case: one_provider(case) is not None,
        parameters={
            "query": _STRING,
            "platforms": {"type": "array", "items": {"type": "string", "enum": list(PLATFORMS)}},
            "time_range": {"type": "string", "enum": list(TIME_RANGES)},
        },
        required=("query",),
        tasks=of.platforms,
        effect=of.search_effect,
    ),
    Tool(
        name="competitor_lookup",
        about="find what the peers of a named party do; costs as much as a search",
        reads="context",
        setting="tool_competitor_enabled",
        makes_sense=lambda case: one_provider(case) is not None,
        parameters={"name": _STRING},
        required=("name",),
        tasks=of.competitors,
        effect=of.search_effect,
    ),
    Tool(
        name="memory_search",
        about="find past cases by other words than the news', and with detect_changes how they differ",
        reads="memory",
        setting="tool_memory_enabled",
        makes_sense=_remembers,
        parameters={"query": _STRING, "subject": _STRING, "detect_changes": _FLAG},
        required=("query",),
        tasks=of.recalled,
        effect=of.recall_effect,
    ),
    Tool(
        name="timeline_query",
        about="list the past cases of a subject (name or ticker) in the order of time",
        reads="memory",
        setting="tool_memory_enabled",
        makes_sense=_remembers,
        parameters={"subject": _STRING, "days": {"type": "integer", "minimum": 1, "maximum": MAX_DAYS}},
        required=("subject",),
        tasks=of.timeline,
        effect=of.recall_effect,
    ),
    Tool(
        name="analyze_sentiment",
        about="measure the mood of the evidence, and with extract_opinions quote it",
        reads="mood",
        makes_sense=lambda case: bool(case.searches),
        parameters={
            "texts": {"type": "array", "items": {"type": "string", "enum": ["news", "references", "pages"]}},
            "extract_opinions": _FLAG,
        },
        tasks=of.mood,
        effect=lambda _case, _task: None,
    ),
)
TOOLS: dict[str, Tool] = {tool.name: tool for tool in _ROWS}
"""Every tool by name, in the order in which they are offered."""


def offered_tools(case: Inquiry) -> tuple[str, ...]:
    """Return the tools that are switched on and make sense for the case in its present state."""
    on = (t for t in _ROWS if t.setting is None or getattr(case.config, t.setting))
    return tuple(tool.name for tool in on if tool.makes_sense(case))


def tool_of(task: SubTask) -> Tool | None:
    """Return the tool of a sub-task, or None if the current code does not know it."""
    return TOOLS.get(task.tool.partition(":")[0])


def effect_of(case: Inquiry, task: SubTask) -> Effect | None:
    """Return the effect of a sub-task, or None if the case itself holds the answer."""
    tool = tool_of(task)
    return tool.effect(case, task) if tool else None
