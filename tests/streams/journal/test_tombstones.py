"""Tombstones: read once by a process and by all that follow it on its disk, and the same as a reader of the whole log knows."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import KafkaConnectionError
from hypothesis import given, settings
from hypothesis import strategies as st

import streams.journal.log
from infra.kafka.topics import committed_by, read_range
from schemas.topics import Topics, partition_of
from streams.journal import tombstones
from streams.journal.acceptance import AcceptedEvents
from streams.journal.fold import JournalFold
from streams.journal.stored_states import StoredStates
from streams.journal.tombstones import Tombstones
from tests.plain_graph import plain_registry
from tests.streams.memory_log import MemoryLog
from tests.streams.records import DROPPED, TRIAGED, after, opening
from tests.streams.world import World

TOPIC = Topics().cases
TPS = [TopicPartition(TOPIC, n) for n in range(2)]
FIRST = dict.fromkeys(TPS, 0)


class CountingLog(MemoryLog):
    """A log that remembers which offsets were read, single records aside."""

    def __init__(self) -> None:
        super().__init__({TOPIC: len(TPS)})
        self.read: list[int] = []

    async def replay(self, spans: Any, **more: Any) -> Any:
        async for tp, records in super().replay(spans, **more):
            if spans[tp][1] - spans[tp][0] > 1:
                self.read += [r.offset for r in records]
            yield tp, records


def write(log: MemoryLog, number: int, *, ends: bool = True, triaged: bool = False) -> None:
    """Append a case, and a marker behind it."""
    case, head, value, headers = opening(number)
    partition = partition_of(case, len(TPS))
    log.append(TOPIC, partition, value=value, key=case.encode(), headers=headers)
    for event in ([TRIAGED] if triaged else []) + ([DROPPED] if ends else []):
        head, value, headers = after(case, head, event)
        log.append(TOPIC, partition, value=value, key=case.encode(), headers=headers)
    log.skip(TOPIC, partition)


async def ends_of(log: MemoryLog) -> dict[TopicPartition, int]:
    return {tp: end for tp, (_, end) in (await log.bounds(TOPIC)).items()}


async def known(of: Tombstones, positions: Mapping[TopicPartition, int]) -> list[dict[str, int]]:
    accepted = {tp: AcceptedEvents(at) for tp, at in positions.items()}
    await of.load(accepted, FIRST, partitions=len(TPS))
    return [dict(a.tombstones()) for a in accepted.values()]


async def started(log: MemoryLog, directory: Path | None) -> tuple[list[dict[str, int]], Tombstones]:
    kept = Tombstones(log, directory)
    return await known(kept, await ends_of(log)), kept


def a_log(count: int = 20) -> CountingLog:
    log = CountingLog()
    for number in range(count):
        write(log, number, ends=number % 3 > 0)
    return log


async def test_tombstones_are_read_once_and_are_the_same_wherever_a_reader_starts() -> None:
    log = a_log()
    kept, ends = Tombstones(log), await ends_of(log)
    for share in (0.5, 1.0, 0.75):
        starts = {tp: int(end * share) for tp, end in ends.items()}
        log.read.clear()
        found, read = await known(kept, starts), list(log.read)
        assert found == await known(Tombstones(log), starts) and any(found)
    assert read == [], "all of it had been read before"


async def test_what_was_folded_is_taken_over_and_not_read() -> None:
    log = a_log()
    kept, ends = Tombstones(log), await ends_of(log)
    async for tp, records in MemoryLog.replay(log, {tp: (0, end) for tp, end in ends.items()}):
        fold = JournalFold(partitions=len(TPS))
        list(fold.accept(records))
        kept.keep(tp, fold.accepted)
    log.read.clear()
    found = await known(kept, ends)
    assert log.read == [] and found == await known(Tombstones(log), ends)
    assert sum(map(len, found)) == 20


async def test_a_second_start_reads_only_what_is_new(tmp_path: Path) -> None:
    log = a_log()
    _, kept = await started(log, tmp_path)
    await kept.store({})
    await kept.close()
    before = await ends_of(log)
    for number in range(20, 26):
        write(log, number)
    log.read.clear()
    found, again = await started(log, tmp_path)
    assert len(log.read) == 12
    assert found == (await started(log, None))[0]
    assert sum(before.values()) > 0
    await again.close()


async def test_what_a_worker_folds_is_kept_and_not_read_again(tmp_path: Path) -> None:
    log = a_log(4)
    _, kept = await started(log, tmp_path)
    folds = {tp: JournalFold(partitions=len(TPS)) for tp in TPS}
    for number in range(4, 20):
        write(log, number)
    async for tp, records in MemoryLog.replay(log, {tp: (0, end) for tp, end in (await ends_of(log)).items()}):
        list(folds[tp].accept(records))
    await kept.store({tp: fold.accepted for tp, fold in folds.items()})
    await kept.close()
    log.read.clear()
    found, again = await started(log, tmp_path)
    assert log.read == []
    assert found == (await started(log, None))[0]
    await again.close()


async def test_a_broker_that_is_away_while_the_disk_is_read_costs_no_kept_tombstone(tmp_path: Path) -> None:
    log = a_log()
    whole, kept = await started(log, tmp_path)
    await kept.store({})
    await kept.close()
    again = Tombstones(log, tmp_path)
    ends = await ends_of(log)
    log.break_after(0)
    with pytest.raises(KafkaConnectionError):
        await known(again, ends)
    log.break_after(None)
    log.read.clear()
    assert (await known(again, ends), log.read) == (whole, [])
    await again.close()


async def test_a_load_that_a_closing_worker_cancels_ends_before_the_file_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = a_log()
    _, kept = await started(log, tmp_path)
    await kept.store({})
    await kept.close()
    reading, may_read, read = threading.Event(), threading.Event(), list[bool]()
    as_it_is = StoredStates._read

    def slowly(*args: Any) -> Any:
        reading.set()
        may_read.wait(10)
        found = as_it_is(*args)
        read.append(True)
        return found

    monkeypatch.setattr(StoredStates, "_read", slowly)
    again, ends = Tombstones(log, tmp_path), await ends_of(log)
    loading = asyncio.ensure_future(known(again, ends))
    await asyncio.to_thread(reading.wait, 10)
    for _ in range(2):  # a revocation, and the end of the worker
        loading.cancel()
        await asyncio.sleep(0)
    closing = asyncio.ensure_future(again.close())
    await asyncio.wait([closing], timeout=0.01)
    assert not closing.done()
    may_read.set()
    await closing
    assert read == [True] and loading.cancelled()


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 12), st.booleans()), max_size=40),
    st.lists(st.tuples(st.integers(0, 40), st.sampled_from(["load", "store", "start", "kill"])), max_size=8),
    st.integers(2, 30),
)
async def test_kept_and_tail_come_to_what_the_whole_log_says(
    cases: Sequence[tuple[int, bool]], acts: Sequence[tuple[int, str]], distance: int
) -> None:
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as directory:
        for module in (tombstones, tombstones.acceptance):
            patch.setattr(module, "TOMBSTONE_OFFSETS", distance)
        patch.setattr(tombstones, "_SLACK", distance // 2)
        log = MemoryLog({TOPIC: len(TPS)})
        kept = Tombstones(log, Path(directory))
        for n, (number, ends) in enumerate(cases):
            write(log, number, ends=ends, triaged=True)
            for what in [what for at, what in acts if at == n]:
                if what in ("start", "kill"):
                    if what == "start":
                        await kept.store({})
                    await kept.close()
                    kept = Tombstones(log, Path(directory))
                ends_now = await ends_of(log)
                if what != "store":
                    assert await known(kept, ends_now) == await known(Tombstones(log), ends_now)
                else:
                    await kept.store({})
        ends_now = await ends_of(log)
        assert await known(kept, ends_now) == await known(Tombstones(log), ends_now)
        await kept.close()


async def test_a_worker_that_starts_again_reads_no_tombstone_of_before(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[tuple[int, int]] = []

    async def counting(*args: Any, **more: Any) -> Any:
        async for tp, records in read_range(*args, **more):
            read.extend((tp.partition, r.offset) for r in records if tp.topic == world.topics.cases)
            yield tp, records

    async with world.working(plain_registry(asks=False)):
        await world.publish(*range(10))
        await world.until_closed(10)
    known = (await committed_by(world.address, world.topics.group("worker"))).items()
    done = {tp.partition: at.offset for tp, at in known if tp.topic == world.topics.cases}
    assert sum(done.values()) == 60
    monkeypatch.setattr(streams.journal.log, "read_range", counting)
    async with world.working(plain_registry(asks=False)) as again:
        await world.until(lambda: len(again.projector.partitions) == 2)
        await world.until(lambda: all(p.live for p in again.projector.partitions.values()))
        tombstones = [dict(p.accepted.tombstones()) for _, p in sorted(again.projector.partitions.items())]
    assert sum(map(len, tombstones)) == 10
    before = {(partition, offset) for partition, offset in read if offset < done[partition]}
    assert len(before) <= 2, "only that each partition still holds the last record is looked at"
