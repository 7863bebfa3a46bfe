"""Fresh news overtakes a backlog, and nothing is lost, doubled or put out of order by it."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from datetime import timedelta
from functools import partial
from typing import Any

import orjson

from schemas.events import OPENING_NAME, TERMINAL_NAMES, EventReceived
from schemas.news import BACKLOG_AFTER, fresh_key
from streams.audit.audit import audit
from streams.effects.bulkhead import KEPT_FOR_FRESH, EffectSlots
from streams.intake.admission import KEPT_FOR_FRESH as KEPT_OPEN
from streams.journal.clock import utc_now
from streams.journal.log import KafkaLog
from streams.runtime.dispatcher import LONGEST_S, Turns
from tests.plain_graph import plain_registry
from tests.streams.graphs import Gate
from tests.streams.intake.test_admission import admission, cases_of, news_partition
from tests.streams.world import World, leave_at_once, news

LIMIT = 24
BACKLOG = 300


def hot(world: World, count: int, *, first: int = 0) -> list[int]:
    """Numbers of news of partition 0."""
    return [n for n in range(first, first + 4 * count + 40) if news_partition(world, n) == 0][:count]


def fresh(number: int | str, **changes: Any) -> dict[str, Any]:
    return news(number, published_at=utc_now().isoformat(), **changes)


async def events_of(world: World, names: set[str]) -> list[tuple[int, str]]:
    """(Time at the broker, case) of the accepted events of these types, in that order."""
    journal = await world.journal()
    kept = [f for f in journal if f.accepted and f.envelope is not None and f.envelope.type in names]
    return sorted((f.record.timestamp, f.envelope.case_id) for f in kept if f.envelope)


async def case_of(world: World, text: str) -> str:
    openings = [f for f in await world.journal() if f.envelope and f.envelope.type == OPENING_NAME]
    return next(f.envelope.case_id for f in openings if f.envelope and f.event.news.text == text)  # type: ignore[attr-defined]


async def test_fresh_news_is_decided_before_the_backlog_that_came_first(world: World) -> None:
    gate = Gate()
    async with world.working(plain_registry(asks=True), ports=gate.ports(), max_open_cases=LIMIT) as worker:
        await world.publish(*hot(world, BACKLOG))
        await world.until(lambda: worker.admission.full)
        await world.publish(fresh(hot(world, 1, first=5000)[0], text="fresh news"))
        await world.until(lambda: (0, True) in worker.admission._waiting)
        gate.opened.set()
        report = await world.until_closed(BACKLOG + 1, within_s=60)
        assert worker.intake.overtook == 1
    case = await case_of(world, "fresh news")
    ends = [case for _, case in await events_of(world, set(TERMINAL_NAMES))]
    assert ends.index(case) < 3 * LIMIT, "it waited for the backlog"
    assert (report.lost, report.duplicate_events) == (0, 0)


async def test_what_overtook_before_a_crash_opens_no_second_case(world: World) -> None:
    gate = Gate()
    async with world.working(plain_registry(asks=True), ports=gate.ports(), max_open_cases=LIMIT) as worker:
        await world.publish(*hot(world, LIMIT * 2))
        await world.until(lambda: worker.admission.full)
        leave_at_once(worker)
        slots = worker.admission.held
        await world.publish(fresh(hot(world, 1, first=5000)[0], text="fresh news"))
        await world.until(lambda: (0, True) in worker.admission._waiting)
        worker.admission.limit += 1  # one case ends, and the fresh news takes its slot
        worker.admission.wake()
        await world.until(lambda: worker.intake.overtook == 1)
        assert worker.admission.held == slots + 1
        assert (safe := worker.intake.safe_offset(0)) is not None and safe <= LIMIT, "what it overtook is not safe yet"
    gate.opened.set()
    async with world.working(plain_registry(asks=True), ports=gate.ports(), max_open_cases=LIMIT) as worker:
        await world.until_closed(LIMIT * 2 + 1, within_s=60)
        await world.until(lambda: worker.intake.repeated == 1)
    openings = [f for f in await world.journal() if f.envelope and f.envelope.type == OPENING_NAME]
    assert len(openings) == LIMIT * 2 + 1
    report = await audit(KafkaLog(world.address), world.topics)
    assert (report.lost, report.duplicate_events) == (0, 0)


async def test_an_edit_does_not_overtake_the_item_that_it_edits(world: World) -> None:
    gate = Gate()
    async with world.working(plain_registry(asks=True), ports=gate.ports(), max_open_cases=LIMIT) as worker:
        await world.publish(*(old := hot(world, LIMIT * 2)))
        await world.until(lambda: worker.admission.full)
        await world.publish(fresh(old[-1], text="corrected"), fresh(hot(world, 1, first=5000)[0]))
        await world.until(lambda: (0, True) in worker.admission._waiting)
        assert not worker.intake._news[0].waiting.fresh, "two overtake"
        gate.opened.set()
        await world.until_closed(LIMIT * 2 + 2, within_s=60)
        assert worker.intake.overtook == 1
    received = {e.news.text: e for f in await world.journal() if isinstance(e := f.event, EventReceived)}
    assert received["corrected"].edits == await case_of(world, f"news number {old[-1]}")
    assert received[f"news number {old[-1]}"].edits is None


async def test_of_those_that_wait_fresh_news_gets_the_next_slot() -> None:
    a, parts = admission(8, 2)
    a.assign({0, 1}, {0, 1})
    a.on_live(0, [])
    a.on_live(1, [])
    ids = cases_of(0, 2, 12)
    for case in ids[:8]:
        await a.enter(0, case) if len(a._held) < 7 else await a.enter(1, case)
        parts[0].cases[case] = ...  # type: ignore[assignment]
        a.on_opened(0, case, a._held[case])
    old = asyncio.create_task(a.enter(1, ids[8], is_backlog=True))
    await asyncio.sleep(0)
    new = asyncio.create_task(a.enter(0, ids[9], overtakes=True))
    await asyncio.sleep(0)
    a.on_closed(ids[0])
    a.on_closed(ids[1])
    await asyncio.wait_for(new, 5)
    old.cancel()


async def test_an_effect_of_fresh_news_gets_the_next_place() -> None:
    places, order = EffectSlots(1, 1), []

    async def call(name: str, *, depth: int, is_backlog: bool) -> None:
        async with places.one("search", depth, is_backlog=is_backlog):
            order.append(name)

    async with places.one("search", 1):
        calls = [call("old", depth=1, is_backlog=True), call("fresh", depth=9, is_backlog=False)]
        tasks = [asyncio.create_task(c) for c in calls]
        await asyncio.sleep(0)
    await asyncio.gather(*tasks)
    assert order == ["fresh", "old"]


def test_fresh_is_what_was_published_a_moment_ago_and_says_when() -> None:
    now = utc_now()

    def is_fresh(published_at: object) -> bool:
        return fresh_key(orjson.dumps({"source": "s", "text": "t", "published_at": published_at}), now)[1]

    assert is_fresh(now.isoformat())
    assert is_fresh((now - BACKLOG_AFTER + timedelta(seconds=1)).isoformat())
    assert not is_fresh((now - BACKLOG_AFTER - timedelta(seconds=1)).isoformat())
    assert not is_fresh(now.replace(tzinfo=None).isoformat()), "a time without a zone"
    assert not is_fresh(7) and not is_fresh(None)
    for raw in (None, b"", b"{", b"[" * 100_000, b"[1]", b"\xff", b'{"source": 1}'):
        assert fresh_key(raw, now) == (0, False)


async def test_the_backlog_leaves_some_slots_to_effects_of_fresh_news() -> None:
    places, release = EffectSlots(2 * KEPT_FOR_FRESH, KEPT_FOR_FRESH), asyncio.Event()

    async def call(step: str, *, is_backlog: bool) -> None:
        async with places.one(step, 1, is_backlog=is_backlog):
            await release.wait()

    async with asyncio.TaskGroup() as calls:
        for _ in range(2 * KEPT_FOR_FRESH):
            calls.create_task(call("search", is_backlog=True))
        await asyncio.sleep(0)
        assert places.used == KEPT_FOR_FRESH - 1
        calls.create_task(call("search", is_backlog=False))
        await asyncio.sleep(0)
        assert places.used == KEPT_FOR_FRESH, "fresh news waits for an effect of the backlog to end"
        for _ in range(2 * KEPT_FOR_FRESH):
            calls.create_task(call("scrape", is_backlog=True))
        await asyncio.sleep(0)
        assert places.used == 2 * KEPT_FOR_FRESH - 1, "the step's share, and that of all steps"
        release.set()
    assert places.used == 0


async def test_the_backlog_leaves_a_place_among_the_open_cases_to_fresh_news() -> None:
    held, _ = admission(KEPT_OPEN, 1)
    held.assign({0}, {0})
    held.on_live(0, [])
    *cases, old, first, second = cases_of(0, 1, KEPT_OPEN + 2)
    for case in cases:
        await held.enter(0, case, is_backlog=True)
    waiting = asyncio.create_task(held.enter(0, old, is_backlog=True))
    await asyncio.sleep(0)
    for case in (first, second):
        await asyncio.wait_for(held.enter(0, case, overtakes=True), 5)
        assert held.held == KEPT_OPEN and not waiting.done()
        held.give_up(case)
        await asyncio.sleep(0)
    assert not waiting.done(), "the place stays free for the next fresh news"
    held.give_up(cases[0])
    await asyncio.wait_for(waiting, 5)


async def test_a_turn_of_the_loop_computes_as_much_of_the_backlog_as_fits_into_it() -> None:
    turns, turn_of, turn = Turns(), [], 0

    def slow() -> None:
        turn_of.append(turn)
        until = time.perf_counter() + 2 * LONGEST_S
        while time.perf_counter() < until:
            pass

    for _ in range(8):
        turns.add(slow)
    while len(turn_of) < 8:
        turn += 1
        await asyncio.sleep(0)
    assert max(Counter(turn_of).values()) <= 2, "a reply for fresh news would wait for all of them"
    order: list[int] = []
    waits = [asyncio.create_task(turns.wait()) for _ in range(500)]
    for number in range(500):
        turns.add(partial(order.append, number))
    await asyncio.gather(*waits)
    while len(order) < 500:
        await asyncio.sleep(0)
        turn += 1
    assert order == list(range(500)) and turn < 200, "what is short is not slowed down: more and more fit"
