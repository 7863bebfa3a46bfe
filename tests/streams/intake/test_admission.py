"""Admission: never more open cases than allowed, whatever restarts, and places for every partition of news."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from agents.core.registry import Registry
from schemas.events import OPENING_NAME, TERMINAL_NAMES
from schemas.ids import uuid5
from schemas.topics import partition_of
from streams.intake.admission import GUARANTEED, Admission
from streams.runtime.partition import Partition, Partitions
from streams.wake import Wake
from streams.worker import Worker
from tests.plain_graph import plain_registry
from tests.streams.graphs import Gate
from tests.streams.world import World, leave_at_once, news

LIMIT = 24


def asking_once() -> Registry:
    return plain_registry(asks=True)


def is_ready(worker: Worker, partitions: int) -> bool:
    """Whether the worker has loaded all it was given: journal and index of news."""
    live = [p.live for p in worker.projector.partitions.values()]
    return len(live) == partitions and all(live) and all(p.safe is not None for p in worker.intake._news.values())


async def openings(world: World) -> int:
    return sum(1 for f in await world.journal() if f.accepted and f.envelope and f.envelope.type == OPENING_NAME)


@pytest.mark.slow
async def test_a_restart_with_as_many_open_cases_as_allowed_opens_no_more(world: World) -> None:
    gate = Gate()
    await world.publish(*range(4 * LIMIT))
    async with world.working(asking_once(), ports=gate.ports(), max_open_cases=LIMIT) as worker:
        await world.until(lambda: worker.projector.open_cases == LIMIT)
        await world.until(lambda: worker.admission.full)
        leave_at_once(worker)
    async with world.working(asking_once(), ports=gate.ports(), max_open_cases=LIMIT) as worker:
        await world.until(lambda: is_ready(worker, world.partitions) and worker.admission.full)
        assert worker.projector.open_cases == worker.admission.held == LIMIT
        assert await openings(world) == LIMIT, "news was opened before the worker knew what was open"
        gate.opened.set()
        report = await world.until_closed(4 * LIMIT)
        assert worker.admission.most_held == LIMIT
        assert worker.admission.held == 0
    assert (report.lost, report.duplicate_events) == (0, 0)


@pytest.mark.slow
async def test_two_workers_that_open_cases_for_each_other_keep_both_limits(world: World) -> None:
    gate = Gate()
    count = 200
    async with world.working(asking_once(), ports=gate.ports(), max_open_cases=LIMIT, slot="a") as a:
        await world.until(lambda: is_ready(a, world.partitions))
        async with world.working(asking_once(), ports=gate.ports(), max_open_cases=LIMIT, slot="b") as b:
            half = world.partitions // 2
            await world.until(lambda: is_ready(a, half) and is_ready(b, half))
            await world.publish(*range(count))
            await world.until(lambda: a.admission.full and b.admission.full)
            await all_is_folded(world, a, b)
            await world.until(lambda: min(a.projector.open_cases, b.projector.open_cases) > LIMIT // 2)
            assert max(a.projector.open_cases, b.projector.open_cases) <= LIMIT
            gate.opened.set()
            await world.until_closed(count)
            for worker in (a, b):
                assert LIMIT // 2 < worker.admission.most_held <= LIMIT
                leave_at_once(worker)


async def all_is_folded(world: World, *workers: Worker) -> None:
    """Wait until the workers have folded the journal to its ends, and nothing is appended meanwhile."""

    async def there() -> bool:
        ends = await world.ends(world.topics.cases)
        folded = {n: p.accepted.position for w in workers for n, p in w.projector.partitions.items() if p.live}
        return folded == ends

    await world.until(there)


@pytest.mark.slow
async def test_a_worker_that_takes_over_more_than_allowed_admits_nothing_until_it_is_below(world: World) -> None:
    gate = Gate()
    count = 120
    options: dict[str, Any] = {"ports": gate.ports(), "max_open_cases": LIMIT}
    async with world.working(asking_once(), slot="a", **options) as a:
        await world.until(lambda: is_ready(a, world.partitions))
        async with world.working(asking_once(), slot="b", **options) as b:
            await world.until(lambda: is_ready(a, 1) and is_ready(b, 1))
            await world.publish(*range(count))
            await world.until(lambda: a.admission.full and b.admission.full)
            await all_is_folded(world, a, b)
            before = await openings(world)
            assert LIMIT < before <= 2 * LIMIT
            leave_at_once(a)
            leave_at_once(b)
        await world.until(lambda: is_ready(a, world.partitions) and a.admission.full, within_s=60)
        assert await openings(world) == before == a.admission.held
        gate.opened.set()
        report = await world.until_closed(count, within_s=60)
        assert a.admission.most_held == before, "it admitted a case although it had too many"
    assert (report.lost, report.duplicate_events) == (0, 0)


async def test_a_hot_partition_leaves_places_for_its_neighbour_and_its_edits_all_become_cases(world: World) -> None:
    """One external id is edited again and again while its steps hang; its neighbour's news is opened at once."""
    gate = Gate()
    edits = 3 * LIMIT
    cold = [n for n in range(40) if news_partition(world, n) != news_partition(world, 0)][: LIMIT // GUARANTEED // 2]
    async with world.working(asking_once(), ports=gate.ports(), max_open_cases=LIMIT) as worker:
        await world.publish(*(news(0, text=f"edit {n}") for n in range(edits)))
        await world.until(lambda: worker.admission.full)
        await all_is_folded(world, worker)
        hot_open = worker.projector.open_cases
        assert hot_open == LIMIT - LIMIT // GUARANTEED // 2
        await world.publish(*cold)
        await world.until(lambda: worker.projector.open_cases == hot_open + len(cold))
        gate.opened.set()
        report = await world.until_closed(edits + len(cold))
    assert report.lost == 0


def news_partition(world: World, number: int) -> int:
    from aiokafka.partitioner import murmur2

    return int((murmur2(f"wire:item-{number}".encode()) & 0x7FFFFFFF) % world.partitions)


@pytest.mark.slow
async def test_cases_of_other_partitions_end_while_a_hot_one_is_queued(world: World) -> None:
    """One partition has fifty times the news: what comes to the other later does not wait for the end of the queue."""
    hot = [n for n in range(4000) if news_partition(world, n) == 0][:600]
    cold = [n for n in range(4000, 4200) if news_partition(world, n) == 1][:30]
    texts = {f"news number {n}" for n in cold}
    async with world.working(plain_registry(asks=False), max_open_cases=LIMIT) as worker:
        await world.publish(*hot)
        await world.until(lambda: worker.admission.full)
        await world.publish(*cold)
        await world.until_closed(len(hot) + len(cold), within_s=60)
    ends = await order_of_ends(world)
    last_cold = max(i for i, text in enumerate(ends) if text in texts)
    assert last_cold < len(ends) - 100, "the neighbour's cases ended with the last of the hot ones"


async def order_of_ends(world: World) -> list[str]:
    """The texts of the cases in the order of their ends at the broker."""
    text_of: dict[str, str] = {}
    ends: list[tuple[int, str]] = []
    for found in await world.journal():
        assert found.envelope is not None
        if found.envelope.type == OPENING_NAME:
            text_of[found.envelope.case_id] = found.event.news.text  # type: ignore[union-attr]
        elif found.envelope.type in TERMINAL_NAMES:
            ends.append((found.record.timestamp, found.envelope.case_id))
    return [text_of[case] for _, case in sorted(ends)]


# The rule by itself


class Others:
    """Another worker's partitions, as told."""

    def __init__(self, slice_: int | None) -> None:
        self.slice_of_news = slice_
        self.open: Counter[tuple[int, int]] = Counter()
        self.position = 0

    def open_in(self, partition: int, news_partition: int) -> int:
        return self.open[partition, news_partition]

    def position_of(self, partition: int) -> int:
        return self.position


def admission(limit: int, partitions: int, others: Others | None = None) -> tuple[Admission, Partitions]:
    parts = Partitions({number: Partition() for number in range(partitions)})
    wake = Wake()
    return Admission(limit, partitions, others or Others(None), parts, may_admit=lambda _cases: None, wake=wake), parts


def cases_of(partition: int, partitions: int, count: int) -> list[str]:
    ids = (uuid5("test", str(n)) for n in range(100_000))
    return [c for c in ids if partition_of(c, partitions) == partition][:count]


async def test_an_opening_that_is_passed_by_gives_its_place_back() -> None:
    a, parts = admission(1, 1)
    a.assign({0}, {0})
    a.on_live(0, [])
    first, second = cases_of(0, 1, 2)
    await a.enter(0, first)
    waiting = asyncio.create_task(a.enter(0, second))
    a.appended(first, 7)
    await asyncio.sleep(0)
    a.wake()
    assert not waiting.done(), "it is not folded yet"
    parts[0].accepted.position = 8  # folded, and nobody was told of a case: the rule passed it by
    a.wake()
    await asyncio.wait_for(waiting, 5)
    assert a.held == 1


async def test_who_stops_waiting_leaves_no_place_behind() -> None:
    a, _ = admission(1, 1)
    a.assign({0}, {0})
    a.on_live(0, [])
    first, second, third = cases_of(0, 1, 3)
    await a.enter(0, first)
    waiting = asyncio.create_task(a.enter(0, second))
    await asyncio.sleep(0)
    a.give_up(first)  # the place goes to the second, which is cancelled before it learns of it
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert a.held == 0
    await asyncio.wait_for(a.enter(0, third), 5)


async def test_of_those_that_wait_the_partition_that_holds_least_goes_first() -> None:
    a, parts = admission(8, 2)
    a.assign({0, 1}, {0, 1})
    a.on_live(0, [])
    a.on_live(1, [])
    ids = cases_of(0, 2, 12)
    for case in ids[:7]:
        await a.enter(0, case)
        parts[0].cases[case] = ...
        a.on_opened(0, case, 0)
    await a.enter(1, ids[7])
    hot, cold = (asyncio.create_task(a.enter(n, ids[8 + n])) for n in (0, 1))
    await asyncio.sleep(0)
    a.on_closed(ids[0])
    await asyncio.wait_for(cold, 5)
    assert not hot.done()
    hot.cancel()


async def test_other_workers_partitions_take_a_slice_and_own_news_leaves_theirs_free() -> None:
    others = Others(2)
    a, _ = admission(8, 2, others)
    a.assign({0}, {0})
    a.on_live(0, [])
    near, far = cases_of(0, 2, 9), cases_of(1, 2, 3)
    for case in near[:6]:
        await asyncio.wait_for(a.enter(0, case), 5)
    seventh = asyncio.create_task(a.enter(0, near[6]))
    await asyncio.sleep(0)
    assert not seventh.done() and a.held == 6, "two places are the other worker's"
    seventh.cancel()
    for case in far[:2]:
        await asyncio.wait_for(a.enter(0, case), 5)
    third = asyncio.create_task(a.enter(0, far[2]))
    await asyncio.sleep(0)
    assert not third.done() and a.held == 6, "its slice is used up, and nothing of it is held here"
    a.appended(far[0], 3)
    others.position = 4  # read there, and ended already
    a.wake()
    await asyncio.wait_for(third, 5)
