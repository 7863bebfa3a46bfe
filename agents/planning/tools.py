"""The table of planning tools, and the conversion of a request into sub-tasks and effects.

To add a tool, add one row; ``tool_answers`` reads the replies. A row states how the tool is described to a model, when it is
offered, which sub-tasks a request for it becomes, and which effect performs a sub-task. Every argument of an effect comes
from the case, from our tables, or through ``wanted``, the sanitised request.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Literal

import msgspec

from agents.core.answers import ticker
from agents.core.inquiry import Inquiry
from agents.evidence.compiled import compiled
from agents.evidence.news_claim import claim_of
from agents.planning.providers import one_provider, providers_of, search_of
from agents.planning.query_builder import build_query, fit_query
from agents.planning.requested_task import MAX_DAYS, PLATFORMS, TIME_RANGES, RequestedTask
from agents.planning.rounds import is_web, references_so_far
from schemas.config import Entity
from schemas.effects import Effect, FetchMarket, Recall, Scrape, Search
from schemas.events import SubTask

TIMELINE_DAYS = 90
"""Default length of a timeline: a quarter."""
TIMELINE_CASES = 20
MAX_PEERS = 4
_HOME_PLATFORMS = {"zh": ("wechat", "zhihu")}
_ABROAD = ("x", "reddit")


def searched(case: Inquiry, wanted: RequestedTask) -> tuple[SubTask, ...]:
    """Return one search per provider of the event's role, in the provider's form. Without keywords, the query is built."""
    claim, tables = claim_of(case), case.config.tables
    tasks = []
    for provider in providers_of(case.config, case.about.event_type):
        query = fit_query(wanted.query, claim, provider=provider, tables=tables) if wanted.query else ""
        query = query or build_query(claim, provider=provider, tables=tables)
        tasks.append(SubTask(tool=f"search:{provider}", query=query, claim=_claim(case, wanted)))
    return tuple(tasks)


def search_effect(case: Inquiry, task: SubTask) -> Search:
    return search_of(case, task.tool.partition(":")[2], task.query, domains=task.domains, days=task.days)


def platforms(case: Inquiry, wanted: RequestedTask) -> tuple[SubTask, ...]:
    """Return one search limited to the platforms' sites; empty if no provider supports that."""
    provider = one_provider(case)
    query = wanted.query or build_query(claim_of(case), provider=provider or "", tables=case.config.tables)
    names = wanted.platforms or _HOME_PLATFORMS.get(case.language, _ABROAD)
    domains = tuple(site for name in names for site in PLATFORMS[name])
    task = SubTask(
        tool=f"platform_search:{provider}",
        query=query,
        claim=_claim(case, wanted),
        domains=domains,
        days=wanted.days,
    )
    return (task,) if provider else ()


def competitors(case: Inquiry, wanted: RequestedTask) -> tuple[SubTask, ...]:
    """Return one search for the peers of the named party, with names only from the table; at most one per case."""
    index = compiled(case.config.tables).entities
    claim, provider = claim_of(case), one_provider(case)
    entity = next(iter(index.named(wanted.subject)), None) if wanted.subject else next(iter(index.parties(claim)), None)
    done = any(t.tool.startswith("competitor_lookup") for plan in case.plans for t in plan.tasks)
    if entity is None or provider is None or done:
        return ()
    words = "竞争对手 同类" if case.language == "zh" else "competitors"
    query = " ".join([entity.name, words, *(peer.name for peer in _peers(case, entity))])
    return (SubTask(tool=f"competitor_lookup:{provider}", query=query, claim=_claim(case, wanted)),)


def _peers(case: Inquiry, entity: Entity) -> list[Entity]:
    known = case.config.tables.entities
    same = [e for e in known if e.kind == entity.kind and e.name != entity.name and e.synthetic == entity.synthetic]
    return same[:MAX_PEERS]


def recalled(case: Inquiry, wanted: RequestedTask) -> tuple[SubTask, ...]:
    """Return one memory query in other words than the news."""
    query = wanted.query or case.about.summary
    subject = _asset(case, wanted.subject) or case.about.asset
    return (
        SubTask(tool="memory_search", query=query, claim=_claim(case, wanted), subject=subject, detail=wanted.detail),
    )


def recall_effect(case: Inquiry, task: SubTask) -> Recall:
    timeline = task.tool == "timeline_query"
    return Recall(
        text=task.query,
        asset=task.subject,
        as_of=case.as_of,
        limit=TIMELINE_CASES if timeline else case.config.memory_limit,
        exclude_case=case.case_id,
        since=case.as_of - timedelta(days=task.days) if timeline else None,
    )


def timeline(case: Inquiry, wanted: RequestedTask) -> tuple[SubTask, ...]:
    """Return one query for a subject's past cases. The default subject is the claim's own party or asset."""
    named = wanted.subject or case.about.entity or case.about.asset
    asset = _asset(case, wanted.subject) if wanted.subject else case.about.asset
    days = min(wanted.days or TIMELINE_DAYS, MAX_DAYS)
    return (SubTask(tool="timeline_query", query=named, claim=_claim(case, wanted), subject=asset, days=days),)


def _asset(case: Inquiry, subject: str) -> str:
    # A subject may be a ticker, or a party with its own token. Otherwise it is a name to search for in summaries, or empty.
    known = compiled(case.config.tables).entities.named(subject) if subject else ()
    tokens = [asset for entity in known for asset in entity.assets]
    written = subject.removeprefix("$")
    return tokens[0] if tokens else ticker(written) if written.isupper() and " " not in written else ""


def scraped(case: Inquiry, wanted: RequestedTask) -> tuple[SubTask, ...]:
    """Return one page to open. The address must be that of an unopened reference of this case."""
    known = wanted.url if wanted.url in unopened(case) else ""
    return (SubTask(tool="web_scrape", query=known, claim=_claim(case, wanted)),) if known else ()


def scrape_effect(_case: Inquiry, task: SubTask) -> Scrape:
    return Scrape(url=task.query)


def unopened(case: Inquiry) -> tuple[str, ...]:
    """Return the addresses of the references whose pages were not opened yet."""
    opened = {p.url for p in case.opened_pages}
    return tuple(r.url for r in references_so_far(case) if r.url not in opened and is_web(r.url))


def mood(case: Inquiry, wanted: RequestedTask) -> tuple[SubTask, ...]:
    """Return one sentiment analysis of the evidence. ``query`` lists the texts to read."""
    read = wanted.texts or ("references", "pages")
    return (SubTask(tool="analyze_sentiment", query=" ".join(read), claim=_claim(case, wanted), detail=wanted.detail),)


def _claim(case: Inquiry, wanted: RequestedTask) -> str:
    return wanted.claim or case.about.summary


Reads = Literal["evidence", "page", "figures", "memory", "context", "mood"]
Tasks = Callable[[Inquiry, RequestedTask], tuple[SubTask, ...]]
_STRING: dict[str, Any] = {"type": "string"}
_FLAG: dict[str, Any] = {"type": "boolean"}


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """One row. ``parameters`` are the properties of the tool's JSON Schema.

    ``setting`` switches the tool on (None: always on). ``makes_sense`` returns whether a case can use it. ``reads`` is the
    kind of its reply: evidence, pages and figures justify a plan; the others only accompany one.
    """

    name: str
    about: str
    reads: Reads
    tasks: Tasks
    effect: Callable[[Inquiry, SubTask], Effect | None]
    setting: str | None = None
    parameters: dict[str, Any] = {}
    makes_sense: Callable[[Inquiry], bool] = lambda _case: True


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
        tasks=searched,
        effect=search_effect,
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
        makes_sense=lambda case: bool(unopened(case)),
        parameters={"url": _STRING},
        tasks=scraped,
        effect=scrape_effect,
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
        tasks=platforms,
        effect=search_effect,
    ),
    Tool(
        name="competitor_lookup",
        about="find what the peers of a named party do; costs as much as a search",
        reads="context",
        setting="tool_competitor_enabled",
        makes_sense=lambda case: one_provider(case) is not None,
        parameters={"name": _STRING},
        tasks=competitors,
        effect=search_effect,
    ),
    Tool(
        name="memory_search",
        about="find past cases by other words than the news', and with detect_changes how they differ",
        reads="memory",
        setting="tool_memory_enabled",
        makes_sense=_remembers,
        parameters={"query": _STRING, "subject": _STRING, "detect_changes": _FLAG},
        tasks=recalled,
        effect=recall_effect,
    ),
    Tool(
        name="timeline_query",
        about="list the past cases of a subject (name or ticker) in the order of time",
        reads="memory",
        setting="tool_memory_enabled",
        makes_sense=_remembers,
        parameters={"subject": _STRING, "days": {"type": "integer", "minimum": 1, "maximum": MAX_DAYS}},
        tasks=timeline,
        effect=recall_effect,
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
        tasks=mood,
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
    """Return the effect of a sub-task, or None if the case itself contains the answer."""
    tool = tool_of(task)
    return tool.effect(case, task) if tool else None
