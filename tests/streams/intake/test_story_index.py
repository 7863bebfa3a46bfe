"""The story index: of all reports of one event exactly one is the first, whoever asks, and whenever."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from msgspec.structs import replace

from infra.listeners.source import Source
from schemas import events as ev
from schemas.effects import FindStory, StoryReply
from schemas.signals import Story
from schemas.topics import partition_of
from streams.intake.story_index import StoryIndex
from streams.intake.text_index import TextIndex
from streams.journal.clock import utc_now
from tests.newsproof.signal_samples import signal
from tests.streams.publish.test_retractions import Written
from tests.streams.records import TRIAGED
from tests.streams.world import World

LISTED = {"desk": Source(id="desk", kind="feed", url="https://desk.example/rss", group="papers")}
HACK = Story(subject="halden bridge", predicate="hacked", side="claimed", amount=38e6, unit="usd")


@asynccontextmanager
async def index_of(world: World, signal_within_s: float = 0.05) -> AsyncIterator[StoryIndex]:
    texts = TextIndex(world.address, world.topics)
    stories = StoryIndex(
        texts, lambda: LISTED, partitions=world.partitions, window_hours=48.0, signal_within_s=signal_within_s
    )
    await texts.start()
    try:
        yield stories
    finally:
        await texts.close()


async def told(index: StoryIndex, case: str) -> list[str]:
    """The cases of the story's earlier reports, the analysed ones first."""
    reply = (await index.perform(FindStory(case_id=case, hours=48.0))).reply
    assert isinstance(reply, StoryReply)
    return [t.case_id for t in reply.tellings]


async def telling(
    world: World, number: int, news: dict[str, Any] | None = None, *, authenticated: bool = False, **changes: Any
) -> Written:
    triaged = replace(TRIAGED, route="story", then="deep", story=replace(HACK, **changes))
    return await (await Written(world, number, authenticated=authenticated, **(news or {})).open()).go(triaged)


def same_story(first: str) -> ev.CaseDropped:
    return ev.CaseDropped(reason="same_story", detail="", duplicate_of=first)


CHECKED = ev.StoryChecked(route="deep")


async def test_of_reports_triaged_at_once_in_all_partitions_exactly_one_is_the_first(world: World) -> None:
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


async def test_a_later_report_gets_the_first_and_what_differs_is_a_story_of_its_own(world: World) -> None:
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


async def test_nobody_lends_a_report_the_address_of_another(world: World) -> None:
    """Two items with the addresses of known papers would make any claim likely, and one with the SEC's confirmed."""
    desk = {"source": "desk", "url": "https://desk.example/hack"}
    forged = [
        {"source": "stranger", "url": "https://desk.example/hack"},
        {"source": "desk", "url": "https://www.sec.gov/x"},
        desk,
    ]
    first = await (await telling(world, 1, desk, authenticated=True)).go(CHECKED)
    others = [await telling(world, n, news, authenticated=n < 4) for n, news in enumerate(forged, start=2)]
    async with index_of(world) as index:
        replies = [(await index.perform(FindStory(case_id=o.case_id, hours=48.0))).reply for o in others]
    assert [(r.tellings[0].case_id, r.tellings[0].url, r.tellings[0].group, r.own.url) for r in replies] == [
        (first.case_id, desk["url"], "papers", None)
    ] * 3, "an address that is not its source's, or an item without the listener's mark"
    assert replies[2].own.group == "", "who only names a source is not of its group"


async def test_a_report_waits_for_the_earlier_ones_signal_and_gets_its_verdict(world: World) -> None:
    first = await (await telling(world, 1)).go(CHECKED)
    second = await telling(world, 2)
    async with index_of(world, signal_within_s=30.0) as index:
        asked = FindStory(case_id=second.case_id, hours=48.0)
        waiting = asyncio.create_task(index.perform(asked))
        now = (await index.perform(replace(asked, again=True))).reply
        assert isinstance(now, StoryReply) and now.tellings[0].verdict is None and not waiting.done()
        await first.go(ev.SignalSynthesized(signal=signal("s", verdict="likely"), path="deep"))
        reply = (await waiting).reply
    assert isinstance(reply, StoryReply)
    (report,) = reply.tellings
    assert (report.case_id, report.verdict, report.story) == (first.case_id, "likely", HACK)


async def test_a_fresh_report_does_not_wait_for_the_signal_of_a_report_of_the_backlog(world: World) -> None:
    now = utc_now()
    old = await telling(
        world, 1, {"published_at": (now - timedelta(hours=1)).isoformat(), "received_at": now.isoformat()}
    )
    await old.go(CHECKED)
    fresh = await telling(world, 2, {"published_at": now.isoformat()})
    async with index_of(world, signal_within_s=60.0) as index, asyncio.timeout(20):
        assert await told(index, fresh.case_id) == [old.case_id]


async def test_what_was_retracted_or_reported_later_is_no_earlier_report(world: World) -> None:
    hours = {1: 0.0, 2: 1.0, 4: 4.0, 5: -1.0}
    at = {n: f"2026-01-02T{12 + h:02.0f}:04:05Z" for n, h in hours.items()}

    async def tells_at(number: int) -> Written:
        return await telling(world, number, {"published_at": at[number]})

    first = await (await tells_at(1)).go(
        CHECKED, ev.SignalSynthesized(signal=signal("s", verdict="refuted"), path="deep")
    )
    async with index_of(world) as index:
        asked = FindStory(case_id=(await tells_at(2)).case_id, hours=48.0)
        reply = (await index.perform(asked)).reply
        assert isinstance(reply, StoryReply)
        assert [(t.case_id, t.verdict) for t in reply.tellings] == [(first.case_id, "refuted")]
        assert await told(index, (await tells_at(5)).case_id) == [], "nobody repeats what is reported later"
        denier = await Written(world, 50).open()
        of = reply.tellings[0].case_id
        await denier.go(
            ev.RetractionFound(signal_id=first.signal_id, of_case=of, kind="retracted", reason="denied"),
            same_story("x"),
        )
        assert first.case_id not in await told(index, (await tells_at(4)).case_id)


async def test_a_first_report_that_failed_or_was_dropped_reports_nothing_so_the_next_one_is_the_first(
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


async def test_the_signal_of_a_second_look_counts_as_the_first_cases(world: World) -> None:
    first = await (await telling(world, 1)).go(
        CHECKED, ev.SignalSynthesized(signal=signal("s", verdict="unconfirmed"), path="deep")
    )
    look = await Written(world, 9, text="the look writes under an id of its own").open()
    found = replace(signal("s", verdict="confirmed"), case_id=first.case_id)
    await look.go(ev.SignalSynthesized(signal=found, path="deep"))
    later = await telling(world, 2)
    async with index_of(world) as index:
        reply = (await index.perform(FindStory(case_id=later.case_id, hours=48.0))).reply
    assert isinstance(reply, StoryReply)
    assert [(t.case_id, t.verdict) for t in reply.tellings] == [(first.case_id, "confirmed")]
