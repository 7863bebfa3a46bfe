"""The story index: of all tellings of one event exactly one is the first, whoever asks, and whenever."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from msgspec.structs import replace

from infra.listeners.source import Source
from schemas import events as ev
from schemas.effects import FindStory, StoryReply
from schemas.signals import Story
from schemas.topics import partition_of
from streams.intake.story_index import StoryIndex
from streams.intake.text_index import TextIndex
from tests.newsproof.signal_samples import signal
from tests.streams.publish.test_retractions import Written
from tests.streams.records import TRIAGED
from tests.streams.world import World

LISTED = {"desk": Source(id="desk", kind="feed", url="https://desk.example/rss", group="papers")}
HACK = Story(subject="halden bridge", predicate="hacked", side="claimed", amount=38e6, unit="usd")


@asynccontextmanager
async def index_of(world: World) -> AsyncIterator[StoryIndex]:
    texts = TextIndex(world.address, world.topics)
    stories = StoryIndex(texts, lambda: LISTED, partitions=world.partitions, window_hours=48.0)
    await texts.start()
    try:
        yield stories
    finally:
        await texts.close()


async def told(index: StoryIndex, case: str) -> list[str]:
    """The cases of the story's earlier tellings, the first one first."""
    reply = (await index.perform(FindStory(case_id=case, hours=48.0))).reply
    assert isinstance(reply, StoryReply)
    return [t.case_id for t in reply.tellings]


async def telling(world: World, number: int, news: dict[str, Any] | None = None, **changes: Any) -> Written:
    triaged = replace(TRIAGED, route="story", then="deep", story=replace(HACK, **changes))
    return await (await Written(world, number, **(news or {})).open()).go(triaged)


def same_story(first: str) -> ev.CaseDropped:
    return ev.CaseDropped(reason="same_story", detail="", duplicate_of=first)


CHECKED = ev.StoryChecked(route="deep")


async def test_of_tellings_triaged_at_once_in_all_partitions_exactly_one_is_the_first(world: World) -> None:
    async with index_of(world) as one, index_of(world) as other:

        async def tell_and_ask(index: StoryIndex, number: int) -> tuple[Written, list[str]]:
            case = await telling(world, number, amount=38e6 + number * 1e4)
            found = await told(index, case.case_id)
            await case.go(same_story(found[0]) if found else CHECKED)
            return case, found

        answers = await asyncio.gather(*(tell_and_ask((one, other)[n % 2], n) for n in range(20)))
        assert {case.partition for case, _ in answers} == set(range(world.partitions))
        (first,) = [case.case_id for case, found in answers if not found]
        assert {found[0] for _, found in answers if found} == {first}
        late = await telling(world, 99)
    async with index_of(world) as restarted:
        assert (await told(restarted, late.case_id))[0] == first


async def test_a_later_telling_gets_the_first_and_what_differs_is_a_story_of_its_own(world: World) -> None:
    first = await (await telling(world, 1)).go(CHECKED)
    grown = await telling(world, 2, amount=41e6)
    unlike = {"amount": 5.2e6, "side": "denied", "predicate": "halts", "subject": "varda bridge"}
    others = [await telling(world, 10 + n, **{name: value}) for n, (name, value) in enumerate(unlike.items())]
    async with index_of(world) as index:
        assert await told(index, grown.case_id) == [first.case_id]
        assert [await told(index, o.case_id) for o in others] == [[], [], [], []]
        await grown.go(same_story(first.case_id))
        grew_on = await telling(world, 3, amount=44e6)
        assert await told(index, grew_on.case_id) == [], "as like the last figure as it is unlike the first one"
        between = await telling(world, 4, amount=40e6)
        assert await told(index, between.case_id) == [first.case_id, grown.case_id]


async def test_nobody_lends_a_telling_the_address_of_another(world: World) -> None:
    """Two items with the addresses of known papers would make any claim likely, and one with the SEC's confirmed."""
    desk = {"source": "desk", "url": "https://desk.example/hack", "authenticated": True}
    forged = [
        {"source": "stranger", "url": "https://desk.example/hack"},
        {"source": "desk", "url": "https://www.sec.gov/x", "authenticated": True},
        {"source": "desk", "url": "https://desk.example/forged"},
    ]
    first = await (await telling(world, 1, desk)).go(CHECKED)
    others = [await telling(world, n, news) for n, news in enumerate(forged, start=2)]
    async with index_of(world) as index:
        replies = [(await index.perform(FindStory(case_id=o.case_id, hours=48.0))).reply for o in others]
    assert [(r.tellings[0].case_id, r.tellings[0].url, r.tellings[0].group, r.own.url) for r in replies] == [
        (first.case_id, desk["url"], "papers", None)
    ] * 3
    assert replies[2].own.group == "", "who only names a source is not of its group"


async def test_what_was_refuted_or_retracted_or_told_later_holds_back_no_claim(world: World) -> None:
    hours = {1: 0.0, 2: 1.0, 3: 3.0, 4: 4.0, 5: -1.0}
    at = {n: f"2026-01-02T{12 + h:02.0f}:04:05Z" for n, h in hours.items()}

    async def tells_at(number: int) -> Written:
        return await telling(world, number, {"published_at": at[number]})

    refuted = await (await tells_at(1)).go(
        CHECKED, ev.SignalSynthesized(signal=signal("s", verdict="refuted"), path="deep")
    )
    async with index_of(world) as index:
        assert await told(index, (await tells_at(2)).case_id) == [refuted.case_id], "a repetition"
        assert await told(index, (await tells_at(5)).case_id) == [], "nobody repeats what is told later"
        anew = await (await tells_at(3)).go(
            CHECKED, ev.SignalSynthesized(signal=signal("s", verdict="likely"), path="deep")
        )
        assert await told(index, anew.case_id) == [], "told again hours later, it may be true by now"
        denier = await Written(world, 50).open()
        await denier.go(
            ev.RetractionFound(signal_id=anew.signal_id, of_case=anew.case_id, kind="retracted", reason="denied")
        )
        assert await told(index, (await tells_at(4)).case_id) == []


async def test_a_first_telling_that_failed_or_was_dropped_tells_nothing_so_the_next_one_is_the_first(
    world: World,
) -> None:
    failed = await (await telling(world, 1)).go(CHECKED, ev.CaseFailed(reason="r", failed_step="search", attempts=3))
    async with index_of(world) as index:
        second = await telling(world, 2)
        assert await told(index, second.case_id) == []
        await second.go(CHECKED, ev.SignalSynthesized(signal=signal("s"), path="deep"))
        assert await told(index, (await telling(world, 3)).case_id) == [second.case_id]
    assert failed.case_id != second.case_id
    assert partition_of(second.case_id, world.partitions) == second.partition
