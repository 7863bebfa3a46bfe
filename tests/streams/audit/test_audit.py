"""The audit finds what was planted: by hand-written logs that break each promise once."""

from __future__ import annotations

from typing import Literal

import pytest
from msgspec.structs import replace

import streams.journal.acceptance
from schemas.deliveries import Attempted, DeliveryRecord, Outcome, Planned, Settled, encode
from schemas.ids import LIVE_RUN, event_id
from streams.audit.audit import AuditReport, audit
from tests.newsproof.signal_samples import NOW, as_published, signal
from tests.streams.records import DROPPED, TRIAGED, MemoryWorld, after, opening, paid_call, write


@pytest.fixture
def world() -> MemoryWorld:
    return MemoryWorld()


async def closed_case(world: MemoryWorld, number: int) -> str:
    """Write the news and the whole short case of it."""
    await world.publish(number)
    case, opened, value, headers = opening(number)
    await write(world, case, value, headers)
    await write(world, case, *after(case, opened, DROPPED)[1:])
    return case


async def test_a_log_that_keeps_its_promises_is_clean(world: MemoryWorld) -> None:
    for number in range(3):
        await closed_case(world, number)
    report = await audit(world.log, world.topics)
    assert report.clean
    assert (report.news, report.cases, report.events, report.dropped) == (3, 3, 6, 3)


async def test_news_without_a_case_or_a_dead_letter_is_lost(world: MemoryWorld) -> None:
    await closed_case(world, 1)
    await world.publish(2, b"poison that nobody wrote a letter for")
    report = await audit(world.log, world.topics)
    assert (report.lost, report.clean) == (2, False)


async def test_a_case_that_is_open_is_lost_when_the_log_is_quiet(world: MemoryWorld) -> None:
    await world.publish(1)
    case, _, value, headers = opening(1)
    await write(world, case, value, headers)
    report = await audit(world.log, world.topics)
    assert (report.open, report.lost, report.clean) == (1, 1, False)


async def test_records_that_the_rule_passes_by_are_counted_and_harmless(world: MemoryWorld) -> None:
    case, opened, value, headers = opening(1)
    await world.publish(1)
    await write(world, case, value, headers)
    await write(world, case, value, headers)  # sent twice
    triaged, value, headers = after(case, opened, TRIAGED)
    await write(world, case, value, headers)
    await write(world, case, *after(case, opened, DROPPED)[1:])  # a zombie's late answer
    await write(world, case, *after(case, triaged, DROPPED)[1:])
    await write(world, "0" * 36, *after("0" * 36, opened, TRIAGED)[1:])  # of a case that nobody opened
    report = await audit(world.log, world.topics)
    assert (report.repeated_records, report.duplicate_events, report.lost) == (3, 0, 0)
    assert report.events == 3


async def test_a_case_opened_again_after_its_tombstone_expired_is_a_duplicate(
    world: MemoryWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams.journal.acceptance, "TOMBSTONE_OFFSETS", 1)
    case = await closed_case(world, 1)
    _, opened, value, headers = opening(1)
    await write(world, case, *after(case, opened, TRIAGED)[1:])
    await write(world, case, *after(case, opened, TRIAGED)[1:])
    await write(world, case, value, headers)
    await write(world, case, *after(case, opened, DROPPED)[1:])
    report = await audit(world.log, world.topics)
    assert report.duplicate_events > 0
    assert not report.clean


async def test_a_signal_revision_that_a_subscriber_sees_twice_is_a_duplicate(world: MemoryWorld) -> None:
    for revision in (1, 2, 2):
        record = as_published(signal("one", revision=revision), world.topics)
        await world.producer.send_and_wait(world.topics.signals, partition=0, **record)
    report = await audit(world.log, world.topics)
    assert (report.signals, report.duplicate_signals, report.clean) == (1, 1, False)


async def test_repeated_calls_are_those_of_records_passed_by_and_equal_requests_paid_twice(world: MemoryWorld) -> None:
    await world.publish(1)
    case, opened, value, headers = opening(1)
    await write(world, case, value, headers)
    triaged, value, headers = after(case, opened, replace(TRIAGED, calls=(paid_call("a"),)))
    await write(world, case, value, headers)
    await write(world, case, value, headers)  # passed by: its call was paid again
    again = replace(DROPPED, calls=(paid_call("a"), paid_call("b"), replace(paid_call("b"), cost_usd=None)))
    await write(world, case, *after(case, triaged, again)[1:])
    report = await audit(world.log, world.topics)
    assert (report.calls, report.repeated_calls) == (5, 3)
    assert event_id(LIVE_RUN, case, opened) == triaged


async def test_entries_that_a_bot_made_twice_are_found(world: MemoryWorld) -> None:
    def entry(id: str, signal: str, mode: Literal["paper", "live"] = "live") -> Planned:
        return Planned(
            id=id, bot="ann", adapter="webhook", instrument="BTC/USDT", intent="enter", signal_id=signal, revision=2,
            asset="BTC", reason="buy", planned_at=NOW, valid_until=NOW, mode=mode, side="long",
        )  # fmt: skip

    def tried(id: str, n: int = 1) -> Attempted:
        return Attempted(delivery=id, bot="ann", n=n)

    def said(id: str, outcome: Outcome) -> Settled:
        return Settled(delivery=id, bot="ann", outcome=outcome)

    async def write_all(*records: DeliveryRecord) -> AuditReport:
        for record in records:
            await world.producer.send_and_wait(world.topics.deliveries, encode(record), partition=0)
        return await audit(world.log, world.topics)

    exit = replace(entry("x", "1"), intent="exit", entry="1")
    report = await write_all(
        entry("1", "1"), tried("1"), tried("1", 2), said("1", "delivered"),  # put off by the destination, and sent again
        exit, tried("x"), said("x", "unknown"), tried("x", 2), said("x", "delivered"),  # an exit is sent until it is done
        entry("2", "2", "paper"), tried("2"), said("2", "delivered"),  # first on paper, then live
        entry("2", "2"), tried("2"), said("2", "refused"),
        entry("3", "3"), tried("3"), said("3", "unknown"), said("3", "delivered"),
    )  # fmt: skip
    assert report.clean and report.foreign == {}
    report = await write_all(entry("again", "1"), tried("again"), said("again", "delivered"), tried("3", 2), tried("2"))
    assert (report.entries_delivered_twice, report.entries_attempted_again, report.clean) == (1, 2, False)
