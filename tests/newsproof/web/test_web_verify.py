"""A claim that somebody asks about: answered from a case, and moving nobody. On the real pipeline, offline."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from agents.graphs import verification
from agents.retraction import earlier_claims_query
from infra.clickhouse.rows import rows_of
from infra.settings import Settings
from newsproof.app.composition import (
    clickhouse_of,
    journal_ports_of,
    publisher_of,
    snapshot_of,
    worker_of,
    worker_options,
)
from newsproof.sdk.verification import Verification, verifying
from schemas.envelope import TEXT_HASH_HEADER
from schemas.errors import ContractError
from schemas.events import CaseDropped, CaseTriaged, EventReceived, SecondLookOpened, SignalSynthesized
from schemas.news import News
from streams.effects.search_cache import SearchCache
from streams.journal.log import KafkaLog
from streams.reputation.fold import ReputationFold
from tests import builders
from tests.builders import NOW
from tests.infra.clickhouse.clickhouse_samples import record
from tests.newsproof.web.conftest import Serving
from tests.plain_graph import DRAFT as HACK
from tests.specification import case_after
from tests.streams.world import World, news

REPORTED = "OKX lists coin number 99"
CLAIM = "Bybit was hacked for 1.4 billion USD"


@pytest.fixture
def settings(web_settings: Settings) -> Settings:
    """Of a worker that searches, and publishes first judgements, too: what a question must never do."""
    changes = {"full_pipeline": True, "publish_preliminary": True, "clickhouse_url": "http://127.0.0.1:9"}
    return web_settings.model_copy(update={**web_settings.defaults_of_up, **changes})


@asynccontextmanager
async def working(settings: Settings) -> AsyncIterator[None]:
    """Run the worker of an offline installation, and its publisher."""
    searches = SearchCache(settings.search_cache_ttl_seconds)
    ports, texts = journal_ports_of(settings, clickhouse_of(settings), searches)
    await texts.start()
    worker, _ = worker_of(
        settings, verification(), ports, snapshot_of(settings), worker_options(settings), searches=searches
    )
    publisher = publisher_of(settings, worker)
    running = [asyncio.create_task(worker.run()), asyncio.create_task(publisher.run())]
    try:
        yield
    finally:
        worker.stop()
        publisher.stop()
        await asyncio.gather(*running)


async def test_a_question_is_answered_and_moves_nobody(settings: Settings, world: World) -> None:
    """Many at once, half of them twice, and news with the same text before and after a question."""
    claims = [f"Binance lists coin number {n}" for n in range(47)]
    denial = "Bybit denies that it was hacked"
    async with working(settings), verifying(world.address, world.topics) as verifier:
        await world.publish(news(text=REPORTED))
        await world.until_closed(1)
        asked = [*claims, *claims, REPORTED, denial, CLAIM]
        answers = await asyncio.gather(*(verifier.verify(claim, client="test", deadline_s=60) for claim in asked))
        assert {answer.reached for answer in answers} == {"final"}
        assert len({answer.case_id for answer in answers}) == len(set(asked))
        again = await verifier.verify(CLAIM, client="test")
        assert (again.from_log, again.cost_usd, again.case_id) == (True, 0.0, answers[-1].case_id)
        searched = next(answer for answer in answers if answer.case_id == again.case_id)
        assert searched.searched
        assert searched.verdict == "unconfirmed"
        assert CLAIM in searched.sentence_en
        # The same texts as news: not silenced by the questions, which came first.
        await world.publish(*(news(number, text=text) for number, text in ((1, CLAIM), (2, claims[0]))))
        report = await world.until_closed(len(set(asked)) + 3)
        await world.until(lambda: three_published(world))
    assert report.clean, report.broken
    asked_cases = {answer.case_id for answer in answers}
    for found in await world.journal():
        if found.accepted and found.envelope is not None and found.envelope.case_id in asked_cases:
            event = found.event
            assert not isinstance(event, SecondLookOpened)
            assert not (isinstance(event, CaseTriaged) and (event.story or event.preliminary_signal))
            assert not (isinstance(event, CaseDropped) and event.reason == "duplicate")
            assert not (isinstance(event, EventReceived) and dict(found.record.headers).get(TEXT_HASH_HEADER))
    published = {signal.case_id for signal in await signals_of(world)}
    assert len(published) == 3
    assert published.isdisjoint(asked_cases)


async def three_published(world: World) -> bool:
    return len({signal.case_id for signal in await signals_of(world)}) == 3


async def signals_of(world: World) -> list[Any]:
    from streams.journal.case_reading import read_signals

    return [signal for signal, _ in await read_signals(KafkaLog(world.address), world.topics)]


async def test_a_deadline_is_honest_and_bad_questions_are_refused(settings: Settings, world: World) -> None:
    async with verifying(world.address, world.topics) as verifier:
        first = await verifier.verify(CLAIM, client="test", deadline_s=0.2)  # nobody works
        assert (first.verdict, first.why, first.reached) == ("unchecked", "deadline", "waiting to be read")
        assert first.sentence_en == f"Not checked yet (waiting to be read): {CLAIM}"
        for bad, why in (("", "contains no words"), ("?!", "contains no words"), ("x" * 2001, "shorten it")):
            with pytest.raises(ContractError, match=why):
                await verifier.verify(bad, client="test")
    async with working(settings), verifying(world.address, world.topics) as later:
        final = await later.verify(CLAIM, client="test", deadline_s=60)
    assert (final.case_id, final.reached) == (first.case_id, "final")
    assert len([e for e in await world.story() if isinstance(e, EventReceived)]) == 1


async def test_the_api_answers_and_refuses(settings: Settings, serving: Serving) -> None:
    async with serving() as http, working(settings):
        done = await http.post("/api/verify", json={"claim": CLAIM, "deadline_s": 60})
        assert (done.status_code, done.json()["reached"]) == (200, "final")
        wanted = {"verdict", "confidence", "sentence_en", "sentence_zh", "quotes", "searched", "cost_usd", "seconds"}
        assert wanted <= set(done.json()) <= set(Verification.__struct_fields__)
        refused: list[httpx.Response] = [
            await http.post("/api/verify", json=body)
            for body in ({}, {"claim": ""}, {"claim": "x" * 2001}, {"claim": CLAIM, "deadline_s": 0}, {"claim": 1})
        ]
        assert {one.status_code for one in refused} == {400}
        assert all(one.json()["do"] for one in refused)


def test_a_question_is_in_no_memory_and_no_reputation_and_denies_nothing() -> None:
    received = EventReceived(
        news=News(source="verify:somebody", text="Bybit denies that it was hacked", published_at=NOW),
        config_hash="c", text_hash="t", language="en",
    )  # fmt: skip
    case = case_after(received, CaseTriaged(draft=HACK, route="deep", gate_reason="", rollout_bucket=0.0))
    assert earlier_claims_query(case) is None
    assert case.source_group == "verify"
    end = SignalSynthesized(signal=builders.signal(news_source="verify:somebody"), path="deep")
    assert "memories" not in rows_of(record(end))
    fold = ReputationFold()
    fold.take("case", received, NOW)
    assert fold.reputations(NOW) == []
