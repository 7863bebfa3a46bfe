"""A message with several claims from news to bot: the real steps and indexes, a real Kafka, and workers that die in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec.structs import replace

from agents.graphs import verification
from agents.retraction.earlier_claims import choose_concerned, earlier_claims_query, find_candidates
from evaluation.replay.journal import LogSource
from evaluation.replay.verify import verify
from infra.offline.newsroom.search import PlayedSearch
from infra.offline.simulated import Simulated
from infra.ports import Answer, Ports
from schemas import events as ev
from schemas.effects import OpenPart
from schemas.ids import LIVE_RUN, part_id, signal_id
from schemas.news import News
from streams.audit.audit import audit
from streams.intake.claim_index import ClaimIndex
from streams.intake.part_opener import PartOpener
from streams.intake.story_index import StoryIndex
from streams.intake.text_index import TextIndex
from streams.journal.log import KafkaLog
from tests.plain_graph import DRAFT
from tests.specification import case_after, opened
from tests.streams.runtime.test_looks_again import LOOKING, Counted
from tests.streams.world import World, leave_at_once, news

FIVE = ("ZK", "PEPE", "ARB", "OP", "STRK")
TEXT = "Binance Will List ZK, PEPE, ARB, OP and STRK"
CONFIG = replace(LOOKING, claims_per_message=5, story_window_hours=48.0, second_looks_after_seconds=())


class Dying(PartOpener):
    """Answers nothing about two assets: about one before its opening is in the log, about the other after."""

    async def perform(self, effect: OpenPart) -> Answer:
        if effect.part.asset == "ARB":
            await asyncio.Event().wait()
        answer = await super().perform(effect)
        if effect.part.asset == "PEPE":
            await asyncio.Event().wait()
        return answer


@asynccontextmanager
async def running(world: World, model: Counted, opener: type[PartOpener] = PartOpener) -> AsyncIterator[ClaimIndex]:
    texts = TextIndex(world.address, world.topics, by_owner=True)
    claims = ClaimIndex(world.address, world.topics, texts, partitions=world.partitions)
    stories = StoryIndex(texts, dict, partitions=world.partitions, window_hours=48.0, signal_within_s=0.1)
    parts = opener(world.address, world.topics, partitions=world.partitions)
    ports = Ports(
        models={"light": model, "heavy": model}, search={"offline": PlayedSearch()}, recall=Simulated(), earlier=texts,
        concerned=claims, story=stories, parts=parts,
    )  # fmt: skip
    await texts.start()
    async with world.working(verification(), ports=ports, snapshot=CONFIG) as worker, world.publishing():
        leave_at_once(worker)
        yield claims


def item(text: str = TEXT, **changes: Any) -> dict[str, Any]:
    now = datetime.now(UTC).isoformat()
    return news("five", text=text, published_at=now, received_at=now, **changes)


def cases_of(fields: dict[str, Any]) -> dict[str, str]:
    at = datetime.fromisoformat(fields["published_at"])
    known = News(source=fields["source"], external_id=fields["external_id"], text=fields["text"], published_at=at)
    return {"ZK": known.case_id, **{asset: part_id(known.case_id, asset) for asset in FIVE[1:]}}


async def openings(world: World) -> list[tuple[str, str | None]]:
    """Every accepted opening: its case, and the asset of a further claim."""
    return [
        (found.envelope.case_id, found.event.part and found.event.part.asset)
        for found in await world.journal()
        if found.accepted and found.envelope is not None and found.envelope.type == ev.OPENING_NAME
    ]


async def test_five_coins_are_five_signals_once_whoever_dies_and_whatever_comes_again(world: World) -> None:
    model, fields = Counted(), item()
    cases = cases_of(fields)

    async def four_are_open() -> bool:
        return len(await openings(world)) == 4

    async with running(world, model, Dying):
        await world.publish(fields)
        await world.until(four_are_open)
    async with running(world, model) as claims:
        await world.publish(fields)
        report = await world.until_closed(5)
        await world.publish(fields, item("an item behind it", external_id="last"))
        report = await world.until_closed(6)
        ours = set(map(signal_id, [LIVE_RUN] * 5, cases.values()))

        async def published() -> bool:
            return ours <= {s.signal_id for s in await world.signals()}

        await world.until(published)
        signals = [s for s in await world.signals() if s.signal_id in ours]
        assert len(signals) == 5
        assert {s.case_id: s.asset for s in signals} == {case: asset for asset, case in cases.items()}
        assert not any(other in s.summary for s in signals for other in FIVE if other != s.asset)
        assert model.tasks.count("triage") == 2, "one for the message, one for the item behind it"
        assert sorted(o for o in await openings(world) if o[1]) == sorted((cases[a], a) for a in FIVE[1:])
        assert report.clean
        await denied(claims, cases, "Binance denies it will list PEPE", "PEPE", {"PEPE"})
        await denied(claims, cases, "Binance denies it will list ZK, PEPE, ARB, OP and STRK", "ZK", set(FIVE))
        await copied(world)
    replayed = await verify(await LogSource.made(KafkaLog(world.address), world.topics))
    assert (replayed.differences, replayed.misses, replayed.calls) == ([], 0, 0)
    assert (await audit(KafkaLog(world.address), world.topics)).clean


async def denied(claims: ClaimIndex, cases: dict[str, str], text: str, asset: str, wanted: set[str]) -> None:
    """A denial finds the claims that it denies, and no other claim of the message."""
    event = opened(text, at=datetime.now(UTC) + timedelta(minutes=1))
    draft = replace(DRAFT, event_type="listing", asset=asset, entity="Binance", summary=text)
    triaged = ev.CaseTriaged(draft=draft, route="deep", gate_reason="", rollout_bucket=0.0)
    case = case_after(event, triaged, config=CONFIG)
    asked = earlier_claims_query(case)
    assert asked is not None
    reply: Any = (await claims.perform(asked)).reply
    given = find_candidates(case, reply.claims)
    concerned = choose_concerned(case, given, None, [text])
    assert {c.of_case for c in concerned} == {cases[a] for a in wanted}


async def copied(world: World) -> None:
    """Another source's report is a report of each story, and its claims are none of each other's."""
    fields = item("Binance to list STRK, OP, ARB, PEPE and ZK", source="copier")
    await world.publish(fields)
    await world.until_closed(11)
    checked = {
        found.envelope.case_id: found.event
        for found in await world.journal()
        if found.accepted
        and found.envelope is not None
        and isinstance(found.event, ev.StoryChecked | ev.StoryCorroborated)
    }
    told = {r.case_id: len(e.earlier) for e in checked.values() if isinstance(e, ev.StoryChecked) for r in e.earlier}
    assert told == dict.fromkeys(cases_of(item()).values(), 1)
