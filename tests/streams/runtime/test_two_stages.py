"""Two stages and a retraction from news to bot: the real steps, offline providers, a real Kafka."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

from agents.graphs import verification
from agents.prompts import load_prompts
from agents.tables import load_tables
from infra.offline.model import OfflineModel
from infra.offline.sample_news import sample_news
from infra.offline.search import OfflineSearch
from infra.offline.simulated import Simulated
from infra.ports import Ports
from newsproof import subscribe
from schemas.config import Snapshot
from schemas.news import News
from streams.audit.audit import audit
from streams.intake.claim_index import ClaimIndex
from streams.intake.text_index import TextIndex
from streams.journal.log import KafkaLog
from tests.streams.world import World

DEEP = Snapshot(
    deep_analysis_tools_enabled=True,
    phase1_rollout_percentage=1.0,
    publish_preliminary=True,
    prompts=load_prompts(),
    tables=load_tables(demo=True),
)


def offline(earlier: Any, concerned: Any) -> Ports:
    model, search = OfflineModel(), OfflineSearch()
    return Ports(
        models={"light": model, "heavy": model},
        search={"offline": search},
        recall=Simulated(),
        earlier=earlier,
        concerned=concerned,
    )


def as_item(news: News) -> dict[str, Any]:
    """The fields that a listener writes."""
    return {
        "source": news.source,
        "external_id": news.external_id,
        "text": news.text,
        "published_at": news.published_at.isoformat(),
        "language": news.language,
    }


async def given(world: World, count: int, **options: Any) -> list[tuple[str, int, str]]:
    """What a bot is given, up to so many revisions: (news, revision, stage)."""
    ids = {news.case_id: news.external_id or "" for news in sample_news()}
    found = []
    bot = subscribe(start="earliest", kafka=world.address, prefix=world.topics.prefix, **options)
    async with asyncio.timeout(60), aclosing(bot) as running:  # type: ignore[type-var]
        async for signal in running:
            found.append((ids[signal.case_id], signal.revision, signal.stage))
            if len(found) == count:
                break
    return sorted(found)


async def test_a_bot_that_asks_for_it_gets_the_first_judgement_the_final_one_and_the_retraction(
    world: World,
) -> None:
    wanted = {news.external_id: news for news in sample_news() if news.external_id in {"h09", "h41"}}
    texts = TextIndex(world.address, world.topics)
    claims = ClaimIndex(world.address, world.topics, texts, partitions=world.partitions)
    await texts.start()
    async with world.working(verification(), ports=offline(texts, claims), snapshot=DEEP), world.publishing():
        # The denial is opened first: it waits for what it denies.
        await world.publish(*(as_item(wanted[name]) for name in ("h41", "h09")))
        every = await given(world, 5, preliminary=True)
        by_default = await given(world, 1, actions=None)  # the order of 2021 has expired
    report = await audit(KafkaLog(world.address), world.topics)
    assert (report.forged, report.overstated) == ((), ())
    final = [("h09", 2, "final"), ("h09", 3, "retracted"), ("h41", 2, "final")]
    assert every == sorted([("h09", 1, "preliminary"), ("h41", 1, "preliminary"), *final])
    assert by_default == [("h41", 2, "final")], "what nobody confirmed is no order, and its retraction no news"
