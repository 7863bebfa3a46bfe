"""The world of an offline investigation: the rules, the bundled corpus, and an earlier brief where one is given."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from agents.investigation.subject import asked
from agents.prompts import load_prompts
from agents.tables import load_tables
from infra.offline.model import OfflineModel
from infra.offline.newsroom.search import SubjectSearch
from infra.offline.search import OfflinePages
from schemas.config import Snapshot
from schemas.effects import BriefReply, CallModel, Effect, FindBrief, Recall, RecallReply, Reply, Search
from schemas.evidence import PreviousBrief, PreviousClaim
from schemas.research_events import BriefWritten, Limits
from tests.specification import Run, run_case

QUESTION = "Monitor DeepSeek's latest developments"
DATES = tuple(datetime(2026, *day, 23, tzinfo=UTC) for day in ((1, 13), (1, 27), (2, 10)))


@lru_cache(maxsize=1)
def corpus() -> tuple[SubjectSearch, OfflinePages]:
    search = SubjectSearch()
    return search, OfflinePages(search.documents)


def config(**changes: Any) -> Snapshot:
    given: dict[str, Any] = {
        "prompts": load_prompts("investigation") | {"critique": load_prompts()["critique"]},
        "tables": load_tables(demo=True),
        "tool_scrape_enabled": True,
        "tool_platform_search_enabled": True,
        "quality_keep": 20,
        "case_deadline_seconds": 900.0,
    }
    return Snapshot(**(given | changes))


def answering(
    previous: PreviousBrief | None = None, model: Callable[[CallModel], Reply | None] = lambda _call: None
) -> Callable[[Effect], Reply]:
    """Return what performs effects: ``model`` first, and the offline rules where it answers None."""
    search, pages = corpus()
    rules = OfflineModel()

    def perform(effect: Any) -> Reply:
        if isinstance(effect, FindBrief):
            return BriefReply(brief=previous)
        if isinstance(effect, Recall):
            return RecallReply(entries=())
        if isinstance(effect, CallModel) and (said := model(effect)) is not None:
            return said
        port: Any = rules if isinstance(effect, CallModel) else search if isinstance(effect, Search) else pages
        return asyncio.run(port.perform(effect)).reply

    return perform


def investigated(question: str = QUESTION, at: datetime = DATES[0], **world: Any) -> Run:
    limits = world.pop("limits", Limits())
    return run_case(asked(question, as_of=at, config_hash="", limits=limits), answering(**world), config=config())


def as_previous(brief: BriefWritten) -> PreviousBrief:
    urls = {r.number: r.url for r in brief.references}
    claims = (
        PreviousClaim(claim=c.claim, verdict=c.verdict, urls=tuple(urls[e.number] for e in c.evidence))
        for c in brief.claims
    )
    return PreviousBrief(investigation_id="earlier", as_of=brief.as_of, claims=tuple(claims), urls=tuple(urls.values()))
