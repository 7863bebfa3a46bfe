"""Single hostile records that once stopped, held up or misled a part of the pipeline, each on the real broker."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest

import streams.worker
from agents.core.case import open_case
from lab.hostile.record import HostileRecord
from lab.hostile.sender import Sender, Sent
from schemas import events as ev
from schemas.config import Snapshot
from schemas.envelope import CAUSE, OFFSET, PARTITION, REVISION, TOPIC
from schemas.ids import uuid5
from schemas.topics import partition_of
from streams.audit.audit import audit
from streams.journal.log import KafkaLog
from streams.runtime.deadlines import Deadlines
from tests.builders import received
from tests.plain_graph import plain_registry
from tests.streams.records import opening, write
from tests.streams.world import World, news

REGISTRY = plain_registry(asks=False)
MB = 1024 * 1024


async def send(world: World, *records: HostileRecord) -> list[Sent]:
    async with Sender.connected(world.address, world.topics, world.partitions) as sender:
        return await sender.send(records, Random(0))


def on_news(value: bytes | None, **more: Any) -> HostileRecord:
    return HostileRecord(kind="-", topic="news", fate="dead_letter", key=more.pop("key", b"k"), value=value, **more)


async def letters_of(world: World, topic: str) -> dict[tuple[int, int], dict[str, bytes]]:
    found = [dict(r.headers) for r in await world.records(world.topics.dead_letters)]
    return {(int(h["dl_partition"]), int(h["dl_offset"])): h for h in found if h.get("dl_topic") == topic.encode()}


async def test_what_lies_behind_a_header_name_that_is_not_utf8_is_read_too(world: World) -> None:
    await send(world, on_news(b"{", partition=0, headers=[(b"\xff\xfe", b"x")]))
    async with world.working(REGISTRY):
        await world.publish(1, partition=0)
        await world.until_closed(1)
        await world.until(lambda: _has_letters(world, 1))


@pytest.mark.parametrize(
    "record",
    [on_news(None, key=None, partition=0), on_news(b'"' + b"y" * 6 * MB + b'"', partition=0)],
    ids=["neither key nor value", "too large for a letter of its own"],
)
async def test_a_record_that_cannot_be_written_as_it_was_read_is_a_dead_letter_all_the_same(
    world: World, record: HostileRecord
) -> None:
    [sent] = await send(world, record)
    async with world.working(REGISTRY):
        await world.publish(1)
        await world.until_closed(1)
        await world.until(lambda: _has_letters(world, 1))
    [(place, letter)] = (await letters_of(world, world.topics.news)).items()
    assert place == (sent.partition, sent.offset)
    assert letter.get("dl_cut", b"0") == (b"0" if record.value is None else b"%d" % len(record.value))


@pytest.mark.parametrize("commit", [True, False], ids=["committed", "aborted"])
async def test_the_markers_of_a_foreign_transaction_at_the_end_of_the_journal_hold_nobody_up(
    world: World, commit: bool
) -> None:
    async with world.address.producer(transactional_id=f"{world.topics.prefix}foreign") as producer:
        await producer.begin_transaction()
        for partition in range(world.partitions):
            await producer.send_and_wait(world.topics.cases, b"{}", partition=partition)
        await (producer.commit_transaction() if commit else producer.abort_transaction())
    async with world.working(REGISTRY) as worker:
        await world.until(lambda: all(p.live for p in worker.projector.partitions.values()) and worker.assigned)
        await world.publish(1)
        await world.until_closed(1)


async def test_an_opening_in_the_partition_of_other_cases_opens_nothing_anywhere(world: World) -> None:
    case, _, value, headers = opening(1)
    wrong = 1 - partition_of(case, world.partitions)
    await world.producer.send_and_wait(world.topics.cases, value, partition=wrong, headers=headers)
    async with world.working(REGISTRY):
        await world.publish(2)
        report = await world.until_closed(1)
        await world.until(lambda: _has_letters(world, 1))
    assert (report.cases, report.open, report.foreign) == (1, 0, {"cases": 1})


async def test_a_case_whose_configuration_does_not_exist_ends_and_says_so(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams.worker, "UNPINNED_END_S", 0.0)
    case, _, value, headers = opening(1)
    forged = value.replace(_config_hash_in(value), b'"config_hash":"' + b"0" * 32 + b'"')
    assert forged != value
    await write(world, case, forged, headers)
    async with world.working(REGISTRY):
        await world.until_closed(1)
    [end] = [e for e in await world.story(of_case=case) if isinstance(e, ev.CaseFailed)]
    assert "configs topic" in end.reason


async def test_foreign_records_on_signals_neither_stop_the_publisher_nor_hide_a_signal(world: World) -> None:
    async with world.working(REGISTRY):
        await world.publish(1, 2)
        await world.until_closed(2)
    # One names an offset that lies before everything, and is whole in all else; the others are not even that.
    hides_all = _forged_publication(world, offset=10**15)
    for headers in ([], [(REVISION, b"one")], [(PARTITION, None)], hides_all):
        await world.producer.send_and_wait(world.topics.signals, b"{}", key=b"k", headers=headers)
    await world.producer.send_and_wait(world.topics.signals, b"{}", key=_SIGNAL.encode(), headers=hides_all)
    async with world.publishing() as publisher:
        await world.until(lambda: publisher.published == 2)
    report = await audit(KafkaLog(world.address), world.topics)
    assert (report.foreign["signals"], report.duplicate_signals) == (4, 0)


_SIGNAL = uuid5("forged signal")


def _forged_publication(world: World, *, offset: int) -> list[tuple[str, bytes]]:
    return [
        ("ce_id", uuid5("signal-revision", _SIGNAL, "1").encode()), ("ce_type", b"newsproof.signal"),
        ("ce_subject", _SIGNAL.encode()), ("ce_schemaversion", b"1"), ("ce_runid", b"live"), (CAUSE, b"none"),
        (TOPIC, world.topics.cases.encode()), (PARTITION, b"0"), (OFFSET, b"%d" % offset), (REVISION, b"1"),
    ]  # fmt: skip


async def test_ids_that_would_collide_open_a_case_each(world: World) -> None:
    async with world.working(REGISTRY):
        await world.publish(news(source="a:b", external_id="c"), news(source="a", external_id="b:c"))
        report = await world.until_closed(2)
    openings = [e for e in await world.story() if isinstance(e, ev.EventReceived)]
    assert report.cases == 2 and [e.edits for e in openings] == [None, None], "neither is an edit of the other"


def _config_hash_in(value: bytes) -> bytes:
    start = value.index(b'"config_hash":"')
    return value[start : value.index(b'"', start + 15) + 1]


async def _has_letters(world: World, count: int) -> bool:
    return len(await world.records(world.topics.dead_letters)) >= count


def test_a_case_is_overdue_for_as_long_as_it_was_seen_so_whatever_its_opening_says() -> None:
    at = datetime(2026, 6, 1, tzinfo=UTC)
    old = open_case(
        received(), case_id="c", event_id="e", run_id="live", at=at - timedelta(days=900), config=Snapshot()
    )
    deadlines = Deadlines()
    assert deadlines.longest_overdue_s([(old, at - timedelta(hours=1))], at) == 0.0
    assert deadlines.longest_overdue_s([(old, at - timedelta(hours=1))], at + timedelta(seconds=61)) == 61.0
    assert deadlines.longest_overdue_s([], at + timedelta(seconds=62)) == 0.0
