"""Watchers at work: on a log in memory with a clock that skips every wait, and on Kafka."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from decimal import Decimal

import pytest
from msgspec.structs import replace

from agents.graphs import research, verification
from agents.tables import load_tables
from agents.text.hosts import host_of
from infra.clickhouse.record import epoch_ms
from infra.kafka.news import NewsPublisher
from infra.offline.scripted.critic import in_slots
from infra.offline.simulated import Simulated
from infra.ports import Answer, Ports
from newsproof.app.watches import WatchBook, find_watch, view_of, watch_of
from schemas.effects import BriefReply, CallModel, ModelReply, RecallReply
from schemas.errors import ConfigError, ContractError
from schemas.events import BriefWritten, InvestigationAsked
from schemas.evidence import PreviousBrief
from schemas.news import News, decode_news
from schemas.topics import partition_of
from schemas.watches import WatchSet
from streams.journal.appender import Appender
from streams.journal.clock import utc_now
from streams.journal.log import KafkaLog
from streams.watches.matching import NewsMatches
from streams.watches.reading import read_watches
from streams.watches.watcher import Watcher
from streams.watches.writer import WatchWriter, append_record
from tests.agents.investigation.worlds import DATES, corpus
from tests.streams.memory_log import MemoryLog
from tests.streams.records import TRIAGED, after, opening
from tests.streams.runtime.test_investigations import SNAPSHOT, Counted, Knows
from tests.streams.runtime.test_research import Watched, until_ended
from tests.streams.runtime.test_two_stages import DEEP, offline
from tests.streams.watches.in_memory import TOPICS, MemoryAppender, asked_by, pinned
from tests.streams.world import World, news
from tests.virtual_time import run_virtually, virtual_now

TABLES = load_tables(demo=False)
HOURLY = WatchSet(id="clock", subject="DeepSeek", every_s=3600, language="en", by="test")
ON_NEWS = replace(HOURLY, id="news", subject="DeepSeek launches", every_s=None)
PARTITIONS = 2


class InMemory:
    """A log in memory with one watcher, which runs while a test goes on."""

    def __init__(self, daily_limit: int) -> None:
        self.log = MemoryLog({TOPICS.watches: 1, TOPICS.research: 1, TOPICS.cases: PARTITIONS})
        writer = WatchWriter(MemoryAppender(self.log), TOPICS, partitions=1, ask=asked_by, pin=pinned)
        matches = NewsMatches(self.log, TOPICS.cases, TABLES)
        self.watcher = Watcher(self.log, TOPICS.watches, writer, matches, virtual_now, daily_limit)

    async def set(self, watch: WatchSet) -> None:
        await append_record(MemoryAppender(self.log), TOPICS, watch)

    async def judged(self, number: int, **changes: str) -> str:
        """Write a case that was opened and triaged; return its id."""
        case, head, value, headers = opening(number, **changes)
        _, triaged, more = after(case, head, TRIAGED)
        for said, with_ in ((value, headers), (triaged, more)):
            where = partition_of(case, PARTITIONS)
            self.log.append(TOPICS.cases, where, value=said, headers=with_, timestamp=epoch_ms(virtual_now()))
        return case

    async def fired(self, id: str) -> int:
        return (await read_watches(self.log, TOPICS)).watches[id].n


def run_in_memory(story: Callable[[InMemory], Awaitable[None]], daily_limit: int = 12) -> None:
    async def run() -> None:
        there = InMemory(daily_limit)
        watching = asyncio.create_task(there.watcher.run())
        await story(there)
        there.watcher.stop()
        with suppress(asyncio.CancelledError):
            await watching

    run_virtually(run())


def test_a_watch_fires_no_more_often_than_it_may_on_a_day_and_goes_on_the_next() -> None:
    async def story(there: InMemory) -> None:
        await there.set(HOURLY)
        await asyncio.sleep(23 * 3600)
        assert await there.fired("clock") == 3
        seen = view_of(there.watcher.state.watches["clock"], virtual_now(), 3, None)
        assert "has run 3 times today" in seen.note and seen.next_due_at is not None and seen.next_due_at.hour == 0
        await asyncio.sleep(3600 + 60)
        assert await there.fired("clock") == 4

    run_in_memory(story, daily_limit=3)


@pytest.mark.security
def test_news_that_concern_the_subject_fire_once_triaged_and_a_watchs_own_news_never_do() -> None:
    async def story(there: InMemory) -> None:
        await there.judged(1, text="DeepSeek launches before anybody watched")
        await there.set(ON_NEWS)
        await asyncio.sleep(3600)
        assert await there.fired("news") == 1  # to have something to compare with
        await there.judged(2, text="DeepSeek launches, says its own watch", source="watch:deepseek")
        await there.judged(3, text="Somebody else launches")
        await asyncio.sleep(60)
        assert await there.fired("news") == 1
        case = await there.judged(4, text="DeepSeek launches a chip")
        await there.judged(4, text="DeepSeek launches a chip", source="another")
        await asyncio.sleep(10)
        last = there.watcher.state.watches["news"].last
        assert last is not None and (last.n, last.news) in {
            (2, case),
            (2, opening(4, text="DeepSeek launches a chip", source="another")[0]),
        }
        await asyncio.sleep(3600)
        assert await there.fired("news") == 2

    run_in_memory(story)


class Critic(Watched):
    """The offline rules, with a critic that reads on each page what its title says."""

    async def perform(self, effect: CallModel) -> Answer:
        if effect.task != "critique":
            return await super().perform(effect)
        titles = [p.text.partition("\n")[0] for p in effect.parts if getattr(p, "label", "").startswith("reference")]
        said = [
            in_slots({"number": n, "stance": "supports", "quote": title}) for n, title in enumerate(titles, start=1)
        ]
        return Answer(
            reply=ModelReply(data={"references": said, "claims": [], "verdict": "supported"}), cost_usd=Decimal(0)
        )


@pytest.mark.slow
async def test_on_kafka_a_watch_is_looked_into_once_publishes_what_is_new_and_obeys(world: World) -> None:
    book = WatchBook(world.address, world.topics, daily_limit=12)
    watch = await book.set(watch_of("关注DeepSeek的最新进展", "6h", on_news=False, by="test"))
    with pytest.raises(ConfigError, match="already watched"):
        await book.set(watch_of("DeepSeek", None, on_news=True, by="test"))
    model, before = Critic(), BriefReply(brief=PreviousBrief(investigation_id="earlier", as_of=DATES[0]))
    ports = Ports(
        models={"light": model, "heavy": model}, search={"offline": Counted()}, scrape=corpus()[1],
        recall=Knows(RecallReply(entries=())), briefs=Knows(before),
        news=NewsPublisher(world.address, world.topics, mode="offline"),
    )  # fmt: skip

    async with world.working(research(), ports=ports, snapshot=SNAPSHOT) as worker:

        def watcher() -> Watcher:
            log = KafkaLog(world.address)
            writer = WatchWriter(
                Appender(world.address), world.topics, partitions=world.partitions,
                ask=lambda watch, _at: asked_by(watch, DATES[1]), pin=lambda by: worker.configs.publish(SNAPSHOT, by),
            )  # fmt: skip
            return Watcher(log, world.topics.watches, writer, NewsMatches(log, world.topics.cases, TABLES), utc_now, 12)

        both = [watcher(), watcher()]
        running = [asyncio.create_task(one.run()) for one in both]
        await world.until(lambda: all(w.state.watches and w.state.watches[watch.id].investigation for w in both))
        for one in both:
            one.stop()
        await asyncio.gather(*running, return_exceptions=True)
        investigation = both[0].state.watches[watch.id].investigation or ""
        events = await until_ended(world, investigation)
    await ports.close()
    openings = [e for e in events if isinstance(e, InvestigationAsked)]
    assert [(e.watch, e.subject, e.language) for e in openings] == [(watch.id, "DeepSeek", "zh")]
    brief = events[-1]
    assert isinstance(brief, BriefWritten) and brief.new_since
    published = [decode_news(record.value, now=utc_now()) for record in await world.records(world.topics.news)]
    assert published and {n.source for n in published} == {"watch:deepseek"} and all(n.origins for n in published)
    assert sorted(brief.published) == sorted(n.case_id for n in published)
    await its_own_pages_are_no_witnesses(world, published)

    (listed,) = await book.views()
    assert (listed.state, listed.fired, listed.source) == ("active", 1, "watch:deepseek")
    assert listed.last_result is not None
    assert (listed.last_result.state, listed.last_result.new) == ("brief", len(brief.new_since))
    short = watch.id[:8]
    assert (await book.change(short, "pause", by="test")).state == "paused"
    with pytest.raises(ConfigError, match="paused already"):
        await book.change(short, "pause", by="test")
    assert (await book.change(short, "resume", by="test")).state == "active"
    assert (await book.change(short, "end", by="test")).next_due_at is None
    with pytest.raises(ConfigError, match="has ended: set a new watch"):
        await book.change(short, "resume", by="test")
    with pytest.raises(ConfigError, match="no watch 'nobody'"):
        find_watch(await book.state(), "nobody")


async def its_own_pages_are_no_witnesses(world: World, published: list[News]) -> None:
    """What a watch published is judged as any news is; neither its pages nor others of their owners bear it out.

    For the same words from somebody else they count.
    """
    product = next(n for n in published if "V4 Lite" in n.text)
    await world.publish(news(1, text=product.text, published_at=product.published_at.isoformat()))
    async with (
        world.working(verification(), ports=offline(Simulated(), Simulated()), snapshot=DEEP),
        world.publishing(),
    ):
        await world.until_closed(len(published) + 1)
        await world.until(lambda: _is_final(world, len(published) + 1))
    final = [s for s in await world.signals() if s.stage == "final"]
    assert {s.case_id for s in final if s.news_source == "watch:deepseek"} == {n.case_id for n in published}
    mine, other = (
        next(s for s in final if product.text in s.summary and s.news_source == source)
        for source in ("watch:deepseek", "wire")
    )
    told = {e.url: e for e in mine.evidence if e.stance == "supports"}
    own = {url for url in told if any(host_of(url) == host_of(origin) for origin in product.origins)}
    assert own & set(product.origins) and not any(told[url].independent for url in own)
    assert mine.verdict == "unconfirmed"
    assert mine.supporting_sources == len(told.keys() - own) == 1 < (other.supporting_sources or 0)


async def _is_final(world: World, count: int) -> bool:
    return sum(s.stage == "final" for s in await world.signals()) == count


@pytest.mark.parametrize(
    ("subject", "every", "on_news", "told"),
    [
        ("DeepSeek", None, False, "either at an interval or on news"),
        ("DeepSeek", "6h", True, "not both"),
        ("DeepSeek", "29m", False, "too often: an investigation may take 15 minutes.*30m or more"),
        ("DeepSeek", "31d", False, "30d or less"),
        ("DeepSeek", "daily", False, "such as 45m, 6h or 1d"),
        ("?!", "6h", False, "holds no word"),
    ],
)
def test_what_is_asked_wrongly_is_told_what_to_write(subject: str, every: str | None, on_news: bool, told: str) -> None:
    with pytest.raises(ContractError, match=told):
        watch_of(subject, every, on_news=on_news, by="test")
