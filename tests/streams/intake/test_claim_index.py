"""The index of claims: a denial is answered with what earlier cases claim, whichever partition they lie in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from schemas import events as ev
from schemas.effects import ConcernedReply, FindConcerned
from streams.intake import claim_index as module
from streams.intake.claim_index import LIMIT, ClaimIndex
from streams.intake.text_index import TextIndex
from tests.newsproof.signal_samples import signal
from tests.streams.records import TRIAGED, after, opening, write
from tests.streams.world import World

AT = datetime(2026, 1, 1, tzinfo=UTC)  # when plain news is published
LTC = replace(TRIAGED, draft=replace(TRIAGED.draft, asset="LTC", entity="Walmart"))


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds that a loaded machine does not reach."""
    for name in ("READ_WITHIN_S", "TAKEN_IN_WITHIN_S", "TRIAGED_WITHIN_S"):
        monkeypatch.setattr(module, name, 60.0)


@asynccontextmanager
async def index_of(world: World, **options: Any) -> AsyncIterator[ClaimIndex]:
    texts = TextIndex(world.address, world.topics)
    index = ClaimIndex(world.address, world.topics, texts, partitions=world.partitions, **options)
    await texts.start()
    try:
        yield index
    finally:
        await texts.close()


def asking(case: str = "mine", **changes: Any) -> FindConcerned:
    plain = FindConcerned(
        case_id=case, assets=("LTC",), names=("walmart", "沃尔玛"), as_of=AT, since=AT - timedelta(days=14)
    )
    return replace(plain, **changes)


async def claims(index: ClaimIndex, effect: FindConcerned) -> ConcernedReply:
    reply = (await index.perform(effect)).reply
    assert isinstance(reply, ConcernedReply)
    return reply


async def written(world: World, number: int, text: str, *events: ev.Event, **changes: str) -> tuple[str, str]:
    """A case with these events after its opening; (case id, head)."""
    case, head, value, headers = opening(number, text=text, **changes)
    await write(world, case, value, headers)
    for event in events:
        head, value, headers = after(case, head, event)
        await write(world, case, value, headers)
    return case, head


async def test_claims_about_the_asset_that_name_the_party_are_found_in_every_partition(world: World) -> None:
    found = {(await written(world, n, f"Walmart partners with Litecoin {n}", LTC))[0] for n in range(12)}
    chinese = await written(world, 20, "沃爾瑪與萊特幣合作", LTC, published_at="2025-12-31T00:00:00Z")
    await written(world, 21, "Kroger partners with Litecoin", replace(LTC, draft=replace(LTC.draft, entity="Kroger")))
    await written(world, 22, "Walmart buys Bitcoin", replace(LTC, draft=replace(LTC.draft, asset="BTC")))
    await written(world, 23, "Walmart in the future", LTC, published_at="2026-01-01T00:00:01Z")
    await written(world, 24, "Walmart of long ago", LTC, published_at="2025-12-01T00:00:00Z")
    await written(world, 25, "Walmart spam", ev.CaseDropped(reason="spam", detail="d"))
    retelling = ev.CaseDropped(reason="same_story", detail="d", duplicate_of=chinese[0])
    await written(world, 27, "Walmart and Litecoin, told again", LTC, retelling)
    own, _ = await written(world, 26, "Walmart denies it", LTC)
    async with index_of(world) as index:
        reply = await claims(index, asking(own))
    assert {c.case_id for c in reply.claims} == {*found, chinese[0]}, "traditional characters are the same name"
    assert reply.claims[-1].case_id == chinese[0] and (reply.unread, reply.left_off) == (0, 0)
    assert (reply.claims[0].asset, reply.claims[0].entity, reply.claims[0].as_of) == ("LTC", "Walmart", AT)


async def test_a_claim_that_is_opened_and_not_triaged_is_waited_for(world: World) -> None:
    case, head = await written(world, 1, "Walmart partners with Litecoin")
    await written(world, 2, "Kroger, which nobody asked about, is never triaged")
    async with index_of(world) as index:
        asked = asyncio.create_task(claims(index, asking()))
        await world.until(lambda: len(index) == 2)
        assert not asked.done()
        _, value, headers = after(case, head, LTC)
        await write(world, case, value, headers)
        assert [c.case_id for c in (await asked).claims] == [case]


async def test_what_is_not_triaged_in_time_is_counted(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TRIAGED_WITHIN_S", 0.1)
    await written(world, 1, "Walmart partners with Litecoin")
    async with index_of(world) as index:
        assert await claims(index, asking()) == ConcernedReply(claims=(), unread=1)


async def test_news_that_came_in_before_the_question_is_waited_for(world: World) -> None:
    """It lies on its topic, nobody has opened it yet: the answer is not given before somebody did."""
    await world.publish(
        {"source": "wire", "external_id": "item-1", "text": "t", "published_at": "2026-01-01T00:00:00Z"}
    )
    (partition,) = [n for n, end in (await world.ends(world.topics.news)).items() if end]
    async with index_of(world) as index:
        asked = asyncio.create_task(claims(index, asking()))
        await asyncio.sleep(0)
        case, head, value, headers = opening(0, text="Walmart partners with Litecoin")
        event = msgspec.json.decode(value, type=ev.EventReceived)
        moved = replace(event, news_partition=partition, news_offset=0)
        await write(world, case, msgspec.json.encode(moved), headers)
        _, value, headers = after(case, head, LTC)
        await write(world, case, value, headers)
        assert [c.case_id for c in (await asked).claims] == [case]


async def test_a_case_that_degraded_before_its_triage_claims_what_its_signal_does(world: World) -> None:
    end = ev.SignalSynthesized(signal=signal("s", asset="LTC"), path="degraded")
    case, _ = await written(world, 1, "Walmart partners with Litecoin", end)
    async with index_of(world) as index:
        assert [c.case_id for c in (await claims(index, asking())).claims] == [case]


async def test_an_answer_is_bounded_and_says_what_it_leaves_off(world: World) -> None:
    for n in range(LIMIT + 3):
        await written(world, n, f"Walmart partners with Litecoin {n}", LTC)
    async with index_of(world) as index:
        reply = await claims(index, asking())
    assert (len(reply.claims), reply.left_off) == (LIMIT, 3)


async def test_what_lies_beyond_the_window_is_forgotten(world: World) -> None:
    await written(world, 1, "Walmart partners with Litecoin", LTC)
    async with index_of(world) as index:
        await claims(index, asking())
        assert len(index) == 1
        index._window_ms = -3_600_000.0  # as if the next opening came an hour after the window
        await written(world, 2, "another", LTC)
        await claims(index, asking())
        assert len(index) == 1
