"""Poison in the journal, a log that moved, a schema that is too new: the partition goes on, or the worker says why not."""

from __future__ import annotations

from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.admin import RecordsToDelete

from schemas import events as ev
from schemas.effects import Failure
from schemas.envelope import NewerSchemaError
from schemas.errors import ConfigError
from schemas.topics import partition_of
from streams.journal.case_reading import read_case
from streams.journal.log import KafkaLog
from tests.plain_graph import plain_registry
from tests.streams.graphs import Gate
from tests.streams.records import TRIAGED, after, opening, write
from tests.streams.world import World


async def test_poison_of_every_kind_is_put_aside_alone_and_the_others_go_on(world: World) -> None:
    failure = Failure(kind="internal", message="", retryable=False)
    failed = ev.StepFailed(step="triage", failure=failure, attempt=1, outcome="degrade")
    heads: list[tuple[ev.Event, bytes | None]] = [(TRIAGED, b"{broken"), (TRIAGED, None), (failed, b"[1, 2]")]
    closed, wanted = [], {}
    for number, (event, value) in enumerate(heads):
        case, opened, first, first_headers = opening(number)
        _, _, headers = after(case, opened, event)
        if event is failed:  # an old version that its upcaster cannot read
            headers = [(k, b"1" if k == "ce_schemaversion" else v) for k, v in headers]
        await write(world, case, first, first_headers)
        wanted[partition_of(case, 2), await write(world, case, value, headers)] = "bad_event"
        closed.append(case)
    case, _, _, headers = opening(3)
    wanted[partition_of(case, 2), await write(world, case, b"{broken", headers)] = "bad_event"
    for number, (name, changed) in enumerate(
        (("ce_subject", None), ("ce_schemaversion", None), ("ce_time", b"2026-01-01T00:00:00")), start=4
    ):
        case, _, value, headers = opening(number)
        spoilt = [(k, changed if k == name else v) for k, v in headers if k != name or changed]
        wanted[partition_of(case, 2), await write(world, case, value, spoilt)] = "bad_envelope"  # type: ignore[arg-type]
    async with world.working(plain_registry(asks=False)):
        await world.publish(12, 13, 14)
        report = await world.until_closed(7)
        await world.until(lambda: _letter_count(world, len(wanted)))
        await watermarks_reach_the_ends(world)
    assert (report.cases, report.failed, report.repeated_records, report.lost) == (7, 4, 3, 0)
    letters = [h for h in await world.letters() if h.get("dl_topic") == world.topics.cases]
    assert {(int(h["dl_partition"]), int(h["dl_offset"])): h["dl_reason"] for h in letters} == wanted
    assert {h["dl_consumer"] for h in letters} == {"projector"}
    for case in closed:
        told = [one.event for one in await read_case(KafkaLog(world.address), world.topics, case)]
        assert [type(event) for event in told] == [ev.EventReceived, ev.CaseFailed], "and its story can still be told"
        assert isinstance(told[1], ev.CaseFailed) and "quarantined" in told[1].reason


@pytest.mark.parametrize(
    ("header", "value", "why"),
    [("ce_schemaversion", b"99", "deploy this reader"), ("ce_type", b"newsproof.case_dreamt", "case_dreamt")],
)
async def test_an_event_of_a_newer_schema_stops_the_worker_and_the_text_says_what_to_deploy(
    world: World, header: str, value: bytes, why: str
) -> None:
    case, opened, first, first_headers = opening(1)
    _, triaged, headers = after(case, opened, TRIAGED)
    await write(world, case, first, first_headers)
    at = await write(world, case, triaged, [(k, value if k == header else v) for k, v in headers])
    for _ in range(2):  # and it stops again: the record is not behind it after the first stop
        with pytest.raises(NewerSchemaError, match=why):
            async with world.working(plain_registry(asks=False)):
                await world.until(lambda: False)
    committed = (await world.committed(world.topics.cases)).get(partition_of(case, world.partitions), 0)
    assert committed <= at


@pytest.mark.slow
async def test_a_log_whose_start_moved_past_the_committed_offset_is_refused(world: World) -> None:
    async with world.working(plain_registry(asks=False)):
        await world.publish(*range(6))
        await world.until_closed(6)
        await watermarks_reach_the_ends(world)
    behind = await world.ends(world.topics.cases)
    for number in range(6, 12):  # a foreign log: openings that this group has not seen, then deleted
        case, _, value, headers = opening(number)
        await write(world, case, value, headers)
    ends = await world.ends(world.topics.cases)
    assert any(ends[p] > behind[p] for p in ends)
    async with world.address.admin() as admin:
        await admin.delete_records(
            {TopicPartition(world.topics.cases, p): RecordsToDelete(end) for p, end in ends.items()}
        )
    with pytest.raises(ConfigError, match="cases that were open are gone"):
        async with world.working(plain_registry(asks=False)):
            await world.until(lambda: False)


async def test_the_committed_offset_never_passes_an_open_case(world: World) -> None:
    case, _, value, headers = opening(1)
    at = await write(world, case, value, headers)
    number = partition_of(case, world.partitions)

    held = Gate(lambda effect: effect.parts[0].text == case)
    async with world.working(plain_registry(asks=True), ports=held.ports(), commit_interval_s=0.2) as worker:
        await world.publish(*range(2, 22))
        await world.until(lambda: worker.projector.open_cases == 1 and worker.intake.opened == 20)
        other = 1 - number
        await world.until(
            lambda: _committed_is(world, other, lambda c: c > 0 and c == worker.projector.safe_offset(other))
        )
        assert (await world.committed(world.topics.cases)).get(number, 0) <= at
        held.opened.set()
        await world.until_closed(21)
        await watermarks_reach_the_ends(world)


async def watermarks_reach_the_ends(world: World) -> None:
    """Wait until nothing pins the log: every partition's committed offset is its end."""

    async def there() -> bool:
        committed = await world.committed(world.topics.cases)
        return all(committed.get(p, 0) == end for p, end in (await world.ends(world.topics.cases)).items())

    await world.until(there)


async def _letter_count(world: World, count: int) -> bool:
    return len(await world.letters()) >= count


async def _committed_is(world: World, number: int, right: Any) -> bool:
    return bool(right((await world.committed(world.topics.cases)).get(number, -1)))


@pytest.mark.slow
@pytest.mark.parametrize("live", [True, False])
async def test_a_case_that_waits_for_a_step_that_there_is_not_is_put_aside_and_the_others_go_on(
    world: World, live: bool
) -> None:
    case, opened, first, first_headers = opening(1)
    _, value, headers = after(case, opened, ev.StepStarted(step="renamed", crashes=1))

    async def forge() -> None:
        await write(world, case, first, first_headers)
        await write(world, case, value, headers)

    if not live:
        await forge()
    async with world.working(plain_registry(asks=False)) as worker:
        if live:
            await world.until(lambda: worker.assigned and all(p.live for p in worker.projector.partitions.values()))
            await forge()
        await world.publish(2)
        report = await world.until_closed(2)
    async with world.working(plain_registry(asks=False)):  # and whoever comes after it meets nothing of it
        await world.publish(3)
        await world.until_closed(3)
    assert report.failed == 1
    [letter] = await world.letters()
    assert letter["dl_reason"] == "unknown_step" and "renamed" in letter["dl_why"]
