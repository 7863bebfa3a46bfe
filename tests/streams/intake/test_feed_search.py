"""The search among what listeners brought in: what it finds, what no item may pass for, and that it never says "nothing" unread."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

import streams.intake.feed_search as module
from agents.graphs import verification
from evaluation.replay.journal import LogSource
from evaluation.replay.verify import verify
from infra.listeners.source import sources_of
from infra.offline.model import OfflineModel
from infra.offline.simulated import Simulated
from infra.ports import Ports
from infra.settings import Settings, load_settings
from newsproof.app.composition import snapshot_of
from newsproof.cli.operate.doctor import check_feeds
from schemas.effects import Search, SearchReply
from schemas.errors import ConfigError, FailureKind, PermanentError, TransientError
from schemas.events import SearchCompleted
from schemas.evidence import SearchResult
from schemas.news import is_marked
from schemas.topics import Topics
from streams.intake.feed_search import FeedSearch
from streams.journal.clock import utc_now
from streams.journal.log import KafkaLog
from tests.streams.memory_log import MemoryLog
from tests.streams.world import KEY, World, by_the_listener, news

NOW = utc_now().replace(microsecond=0)
TOPICS = Topics("t.")
HACK = "Bybit cold wallet hacked, 1.4 billion dollars of ether stolen\n\nThe exchange confirmed the theft."
ASKED = Search(provider="feeds", query="Bybit wallet hacked ether", max_results=5, as_of=NOW)


def item(source: str, url: str, *, text: str = HACK, minutes: float = 10, **changes: Any) -> dict[str, Any]:
    at = (NOW - timedelta(minutes=minutes)).isoformat()
    return by_the_listener(news(url, source=source, url=url, text=text, published_at=at, received_at=at, **changes))


DESK = item("coindesk", "https://www.coindesk.com/bybit-hacked")
BLOCK = item("theblock", "https://www.theblock.co/post/1", text=HACK.replace("hacked", "attacked"), minutes=8)
FLASH = item(
    "odaily-flash", "https://www.odaily.news/newsflash/1", text="Bybit 冷錢包遭黑客攻擊,14 億美元以太坊被盜", minutes=5
)


UNMARKED = [
    news("u1", source="solana-status", url="https://status.solana.com/1", text=HACK, published_at=DESK["published_at"]),
    DESK | {"url": "https://www.coindesk.com/with-the-mark-of-another", "external_id": "u2"},
]


def search_of(log: Any, topics: Topics = TOPICS, **given: Any) -> FeedSearch:
    return FeedSearch(lambda: log, topics, lambda: sources_of(None), lambda news: is_marked(news, [KEY]), **given)


@asynccontextmanager
async def memory(
    *items: dict[str, Any], appended: datetime = NOW, **given: Any
) -> AsyncIterator[tuple[FeedSearch, MemoryLog]]:
    log = MemoryLog({TOPICS.news: 2})
    for number, one in enumerate(items):
        log.append(
            TOPICS.news,
            number % 2,
            value=msgspec.json.encode(by_the_listener(one)),
            timestamp=int(appended.timestamp() * 1000),
        )
    search = search_of(log, **given)
    try:
        yield search, log
    finally:
        await search.close()


async def found(search: FeedSearch, **changes: Any) -> list[SearchResult]:
    answer = await search.perform(replace(ASKED, **changes))
    assert isinstance(answer.reply, SearchReply) and answer.cost_usd == 0
    return list(answer.reply.results)


def hosts(results: list[SearchResult]) -> list[str]:
    return [result.domain for result in results]


async def test_what_came_in_before_the_question_is_found_in_every_partition_and_nothing_later(world: World) -> None:
    search = search_of(KafkaLog(world.address), world.topics)
    try:
        search.begin()
        later = item("blockworks", "https://blockworks.co/news/bybit", minutes=0)
        backdated = item("decrypt", "https://decrypt.co/1", minutes=0) | {"published_at": DESK["published_at"]}
        backdated = by_the_listener(backdated)
        await world.publish(DESK, BLOCK, b"no news", FLASH, later, backdated, *UNMARKED)
        first, *others = await found(search)
        assert hosts([first, *others]) == ["www.coindesk.com", "www.theblock.co", "www.odaily.news"]
        assert first == SearchResult(
            title=HACK.split("\n", maxsplit=1)[0], url=str(DESK["url"]), domain="www.coindesk.com", snippet=HACK, score=first.score,
            published_at=NOW - timedelta(minutes=10), provider="feeds", content_complete=False,
        ) and 0.6 < first.score <= 1  # fmt: skip
        assert hosts(await found(search, query="Bybit 冷钱包 被盗 以太坊"))[0] == "www.odaily.news", (
            "and in either script"
        )
        assert {"blockworks.co", "decrypt.co"} < {*hosts(await found(search, as_of=NOW + timedelta(hours=1)))}
        assert hosts(await found(search, include_domains=("theblock.co",))) == ["www.theblock.co"]
        assert "www.coindesk.com" not in hosts(await found(search, since=NOW - timedelta(minutes=9)))
        assert await found(search, query="tomato soup recipe") == []
        await world.publish(item("protos", "https://protos.com/bybit", text=HACK + " Later words.", minutes=1))
        assert "protos.com" in hosts(await found(search)), "what is there at the question is waited for"
    finally:
        await search.close()


async def test_a_source_bears_out_none_of_its_own_news_and_an_address_counts_once() -> None:
    edited = DESK | {"external_id": "edit", "text": HACK + " An edit."}
    post = item("odaily-post", "https://www.odaily.news/post/1")
    async with memory(DESK, edited, BLOCK, post) as (search, _):
        assert sorted(hosts(await found(search))) == ["www.coindesk.com", "www.odaily.news", "www.theblock.co"]
        assert sorted(hosts(await found(search, source="coindesk"))) == ["www.odaily.news", "www.theblock.co"]
        assert "www.odaily.news" not in hosts(await found(search, source="odaily-flash")), "one owner, two feeds"
        assert len(await found(search, source="telegram:desk")) == 3


@pytest.mark.security
async def test_no_item_passes_for_a_page_of_somebody_else() -> None:
    """Whoever has a message relayed chooses the link in it; its words are not those of the link's owner."""
    forged = [
        item("telegram:desk", "https://www.sec.gov/news/1"),
        item("coindesk", "https://www.binance.com/en/support/announcement/1"),
        item("wublock", "https://binance.substack.com/p/1"),
        item("coindesk", "javascript:alert(1)"),
        item("bwenews", "https://www.coindesk.com.evil.io/1"),
        item("coindesk", "https://www.coindesk.com/made-of-others", origins=["https://evil.io/1"]),
    ]
    async with memory(*forged, item("wublock", "https://wublock.substack.com/p/1")) as (search, _):
        assert hosts(await found(search)) == ["wublock.substack.com"]


async def test_what_is_older_than_the_window_or_beyond_the_limit_is_forgotten_and_no_case_of_then_is_answered() -> None:
    clock = [NOW]
    old = [item("coindesk", "https://www.coindesk.com/old", minutes=days * 1440) for days in (6.1, 6.2)]
    async with memory(*old, appended=NOW - timedelta(days=6), now=lambda: clock[0]) as (search, _):
        assert len(await found(search)) == 1
        with pytest.raises(PermanentError, match="hold the last 7 days") as caught:
            await found(search, as_of=NOW - timedelta(days=8))
        assert caught.value.kind == "invalid_request"
        clock[0] = NOW + timedelta(days=2)
        with pytest.raises(PermanentError, match="no item with the listener's mark") as caught:
            await found(search, as_of=clock[0])
        assert caught.value.kind == "not_configured"
    async with memory(DESK, BLOCK, max_held=2) as (search, log):
        at = int(NOW.timestamp() * 1000)
        log.append(TOPICS.news, 0, value=msgspec.json.encode(by_the_listener(FLASH)), timestamp=at + 1000)
        assert await search.read_to_the_ends() == 2
        with pytest.raises(PermanentError, match="2 items at most"):
            await found(search)
        assert "www.coindesk.com" not in hosts(await found(search, as_of=NOW + timedelta(seconds=1)))


class _Silent(MemoryLog):
    async def bounds(self, *_: Any, **__: Any) -> Any:
        await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("log", "error", "kind", "says"),
    [
        (_Silent({TOPICS.news: 1}), TransientError, "timeout", "still being read"),
        (MemoryLog({}), ConfigError, None, "topics create"),
    ],
)
async def test_what_was_not_read_is_never_nothing_found(
    log: MemoryLog, error: type[Exception], kind: FailureKind | None, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "READ_WITHIN_S", 0.05)
    search = search_of(log)
    with pytest.raises(error, match=says) as caught:
        await found(search)
    assert getattr(caught.value, "kind", None) == kind
    await search.close()


async def test_a_log_that_breaks_off_is_told_and_read_anew_by_the_next_search() -> None:
    async with memory(DESK, BLOCK) as (search, log):
        log.break_after(1)
        with pytest.raises(TransientError, match="check the broker") as caught:
            await found(search)
        assert caught.value.kind == "unavailable"
        log.break_after(None)
        assert len(await found(search)) == 2


async def test_a_case_is_judged_by_what_other_listeners_brought_and_a_backtest_replays_it(world: World) -> None:
    live = snapshot_of(
        load_settings(newsproof_mode="offline", deep_analysis_tools_enabled=True, phase1_rollout_percentage=1.0)
    )
    snapshot = replace(live, search_providers=("feeds",), quality_floors={"feeds": 0.6}, quality_widths={"feeds": 20})
    model, ours = OfflineModel(), Simulated()
    search = search_of(KafkaLog(world.address), world.topics)
    ports = Ports(
        models={"light": model, "heavy": model}, search={"feeds": search}, recall=ours, earlier=ours, concerned=ours
    )
    told = "Hackers drained about 1.4 billion dollars of ether from a Bybit cold wallet, the exchange says on Friday"
    own = item("protos", "https://protos.com/earlier", text=told)
    await world.publish(DESK, item("theblock", "https://www.theblock.co/2", text=told, minutes=8), own)
    await world.publish(item("protos", "https://protos.com/bybit", text=f"{HACK} As told.", minutes=0))
    async with world.working(verification(), ports=ports, snapshot=snapshot):
        await world.until_closed(4)
    events = [one.event for one in await world.journal() if one.accepted]
    pages = [{r.url for r in e.findings.references} for e in events if isinstance(e, SearchCompleted)]
    assert {DESK["url"], "https://www.theblock.co/2"} in pages, "of the last case; nobody is a witness of their own"
    verified = await verify(await LogSource.made(KafkaLog(world.address), world.topics))
    assert (verified.cases, verified.differences, verified.misses, verified.calls) == (4, [], 0, 0)


async def test_doctor_says_what_there_is_to_search(world: World, tmp_path: Path) -> None:
    at = Settings(
        _env_file=None, gemini_api_key="k", listen=True, listener_key=KEY.decode(), newsproof_data_dir=tmp_path, newsproof_topic_prefix=world.topics.prefix,
        **{name.lower(): value for name, value in world.address.as_environment().items()},
    )  # fmt: skip
    (empty,) = await check_feeds(at)
    assert (empty.state, empty.do) == ("note", "newsproof up --listen") and "so this search fails" in empty.found
    await world.publish(DESK, BLOCK, news())
    (check,) = await check_feeds(at)
    assert (check.state, check.found) == ("ok", "2 from the last 7 days")
    (away,) = await check_feeds(at.model_copy(update={"kafka_bootstrap_servers": None}))
    assert (away.state, away.found) == ("note", "unknown: Kafka is not running")
    assert await check_feeds(at.model_copy(update={"newsproof_mode": "offline"})) == []
