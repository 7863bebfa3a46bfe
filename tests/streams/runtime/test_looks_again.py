"""A second look from news to bot: the real steps, a search that has nothing indexed at first, a real Kafka."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from msgspec.structs import replace

from agents.graphs import verification
from agents.prompts import load_prompts
from agents.tables import load_tables
from evaluation.replay.journal import LogSource
from evaluation.replay.verify import verify
from infra.offline.model import OfflineModel
from infra.offline.newsroom.search import PlayedSearch
from infra.offline.sample_news import sample_news
from infra.offline.simulated import Simulated
from infra.ports import Answer, Ports
from schemas import events as ev
from schemas.config import RULES, Snapshot
from schemas.effects import CallModel, Failure, Search, SearchReply
from schemas.ids import LIVE_RUN, signal_id
from schemas.news import News, look_id
from streams.audit.audit import audit
from streams.journal.case_reading import read_case, read_cases
from streams.journal.log import KafkaLog
from tests.streams.world import World

LOOKING = Snapshot(
    rules=RULES,
    deep_analysis_tools_enabled=True,
    phase1_rollout_percentage=1.0,
    second_looks_after_seconds=(720.0, 7200.0),
    prompts=load_prompts(),
    tables=load_tables(demo=True),
)


class NotIndexedYet(PlayedSearch):
    """Finds nothing before the second look of this number; ``failure`` answers every look."""

    def __init__(self, indexed_by: int = 1, failure: Failure | None = None) -> None:
        super().__init__()
        self.indexed_by, self.failure = indexed_by, failure
        self.asked: list[Search] = []

    async def perform(self, effect: Any) -> Answer:
        self.asked.append(effect)
        if effect.look and self.failure is not None:
            return Answer(reply=self.failure, cost_usd=Decimal(0))
        if effect.look < self.indexed_by:
            reply = SearchReply(provider=self.provider, query=effect.query, results=())
            return Answer(reply=reply, cost_usd=Decimal(0))
        return await super().perform(effect)


class Counted(OfflineModel):
    """Counts its calls by task."""

    def __init__(self) -> None:
        super().__init__()
        self.tasks: list[str] = []

    async def perform(self, effect: CallModel) -> Answer:
        self.tasks.append(effect.task)
        return await super().perform(effect)


class Clock:
    """The wall clock, put forward by a test."""

    def __init__(self) -> None:
        self.ahead = timedelta()

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self.ahead


class Story:
    """One case of today, its search and its model."""

    def __init__(self, world: World, search: NotIndexedYet) -> None:
        self.world, self.search, self.model, self.clock = world, search, Counted(), Clock()
        hack = next(one for one in sample_news() if one.external_id == "h07")
        now = datetime.now(UTC)
        self.news = replace(hack, published_at=now, received_at=now)
        self.case_id = self.news.case_id
        self.look = look_id(self.case_id, 1, world.partitions)

    @asynccontextmanager
    async def running(self, **options: Any) -> AsyncIterator[None]:
        known = Simulated()
        ports = Ports(
            models={"light": self.model, "heavy": self.model}, search={"offline": self.search}, recall=known,
            earlier=known, concerned=known,
        )  # fmt: skip
        working = self.world.working(verification(), ports=ports, snapshot=LOOKING, clock=self.clock, **options)
        async with working, self.world.publishing():
            yield

    async def told(self) -> None:
        await self.world.publish(fields_of(self.news))
        await self.world.until_closed(1)
        assert (await self.ends())[0] == "unconfirmed"

    async def ends(self) -> list[str]:
        """How the case and its looks ended."""
        records = await read_case(KafkaLog(self.world.address), self.world.topics, self.case_id)
        said: list[str] = []
        for record in (r for r in records if r.accepted):
            match record.event:
                case ev.SignalSynthesized(signal=signal):
                    said.append(str(signal.verdict))
                case ev.CaseDropped(reason=reason, detail=detail):
                    said.append(f"{reason}: {detail}")
                case _:
                    pass
        return said

    async def until_ended(self, *how: str) -> None:
        async def as_wanted() -> bool:
            return tuple(await self.ends()) == how

        await self.world.until(as_wanted)

    async def verdicts(self) -> list[tuple[int, str | None]]:
        of = signal_id(LIVE_RUN, self.case_id)
        return [(s.revision, s.verdict) for s in await self.world.signals() if s.signal_id == of]

    async def until_published(self, *verdicts: tuple[int, str]) -> None:
        async def as_wanted() -> bool:
            return tuple(await self.verdicts()) == verdicts

        await self.world.until(as_wanted)


def fields_of(news: News) -> dict[str, Any]:
    assert news.received_at is not None
    return {
        "source": news.source, "external_id": news.external_id, "text": news.text, "language": news.language,
        "published_at": news.published_at.isoformat(), "received_at": news.received_at.isoformat(),
    }  # fmt: skip


async def test_what_no_search_knew_at_first_is_confirmed_by_the_look_in_the_next_revision(world: World) -> None:
    story = Story(world, NotIndexedYet())
    async with story.running():
        await story.told()
        before = len(story.model.tasks)
        story.clock.ahead = timedelta(minutes=13)
        await story.until_ended("unconfirmed", "confirmed")
        await story.until_published((1, "unconfirmed"), (2, "confirmed"))
    assert story.model.tasks[before:] == ["critique", "synthesize"], "neither triage nor a plan is paid for again"
    [last] = [s for s in await world.signals() if s.revision == 2]
    assert (last.case_id, last.action, last.supersedes) == (story.case_id, "sell", 1)
    assert last.adjustments[-1].rule == "second_look"
    report = await audit(KafkaLog(world.address), world.topics)
    assert report.clean and (report.forged, report.overstated) == ((), ())
    assert (report.signals, report.second_looks, report.news) == (1, 1, 1)
    assert (report.model_calls, report.second_analysis_calls) == (len(story.model.tasks), 2)
    [row] = await read_cases(KafkaLog(world.address), world.topics)
    assert (row.case_id, row.status, row.end[:4]) == (story.case_id, "signal", "sell"), "a look is no case of its own"
    assert row.calls == report.calls
    replayed = await verify(await LogSource.made(KafkaLog(world.address), world.topics))
    assert (replayed.cases, replayed.differences, replayed.misses, replayed.calls) == (2, [], 0, 0)


async def looked(story: Story) -> list[Any]:
    records = await read_case(KafkaLog(story.world.address), story.world.topics, story.case_id)
    return [r for r in records if r.envelope.case_id == story.look]


async def test_one_that_finds_nothing_costs_no_model_and_the_second_one_comes_after_two_hours(world: World) -> None:
    story = Story(world, NotIndexedYet(indexed_by=2))
    async with story.running():
        await story.told()
        before = len(story.model.tasks)
        story.clock.ahead = timedelta(minutes=13)
        nothing = "unchanged: no page that the first case did not have"
        await story.until_ended("unconfirmed", nothing)
        assert story.model.tasks[before:] == []
        story.clock.ahead = timedelta(minutes=121)
        await story.until_ended("unconfirmed", nothing, "confirmed")
        await story.until_published((1, "unconfirmed"), (2, "confirmed"))
    assert [s.look for s in story.search.asked] == sorted(s.look for s in story.search.asked)
    assert {s.look for s in story.search.asked} == {0, 1, 2}
    assert (await audit(KafkaLog(world.address), world.topics)).clean


async def test_where_the_budget_denies_the_search_it_says_so_and_publishes_nothing(world: World) -> None:
    denied = Failure(kind="budget", message="the day's searches are used up", retryable=False)
    story = Story(world, NotIndexedYet(failure=denied))
    async with story.running():
        await story.told()
        story.clock.ahead = timedelta(minutes=13)
        await story.until_ended("unconfirmed", "unchanged: search failed (budget)")
    assert await story.verdicts() == [(1, "unconfirmed")]
