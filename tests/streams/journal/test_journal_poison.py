"""Poison in the journal, a log that moved, a schema that is too new: the partition goes on, or the worker says why not."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.admin import RecordsToDelete

from infra.offline.simulated import Simulated
from infra.ports import Ports
from schemas import events as ev
from schemas.effects import Failure
from schemas.envelope import NewerSchemaError
from schemas.errors import ConfigError
from schemas.topics import partition_of
from streams.journal.case_reading import read_case
from streams.journal.log import KafkaLog
from tests.plain_graph import plain_registry
from tests.streams.records import TRIAGED, after, opening, write
from tests.streams.world import World


@pytest.mark.slow
@pytest.mark.parametrize("value", [b"{broken", None], ids=["half a record", "null"])
async def test_an_undecodable_head_quarantines_its_case_alone(world: World, value: bytes | None) -> None:
    case, opened, first, first_headers = opening(1)
    _, _, headers = after(case, opened, TRIAGED)
    await write(world, case, first, first_headers)
    at = await write(world, case, value, headers)
    await world.publish(2, 3, 4)
    async with world.working(plain_registry(asks=False)):
        report = await world.until_closed(4)
        await watermarks_reach_the_ends(world)
    ends = [e for e in await world.story(of_case=case) if isinstance(e, ev.CaseFailed)]
    told = await read_case(KafkaLog(world.address), world.topics, case)
    assert [type(r.event) for r in told] == [ev.EventReceived, ev.CaseFailed], "and its story can still be told"
    assert len(ends) == 1 and "quarantined" in ends[0].reason
    assert (report.failed, report.lost) == (1, 0)
    letters = [h for h in await world.letters() if h.get("dl_topic") == world.topics.cases]
    assert [(int(h["dl_offset"]), h["dl_reason"], h["dl_consumer"]) for h in letters] == [
        (at, "bad_event", "projector")
    ]


async def test_an_undecodable_opening_is_closed_and_does_not_hold_the_log_for_ever(world: World) -> None:
    case, _, _, headers = opening(1)
    await write(world, case, b"{broken", headers)
    async with world.working(plain_registry(asks=False)):
        await world.publish(2)
        report = await world.until_closed(2)
        await watermarks_reach_the_ends(world)
    assert (report.failed, report.signals, report.open) == (1, 0, 0)


async def test_an_old_version_that_its_upcaster_cannot_read_is_poison_like_any_other(world: World) -> None:
    case, opened, first, first_headers = opening(1)
    failure = ev.StepFailed(
        step="triage", failure=Failure(kind="internal", message="", retryable=False), attempt=1, outcome="degrade"
    )
    _, _, headers = after(case, opened, failure)
    as_v1 = [(k, b"1" if k == "ce_schemaversion" else v) for k, v in headers]
    await write(world, case, first, first_headers)
    await write(world, case, b"[1, 2]", as_v1)
    async with world.working(plain_registry(asks=False)):
        report = await world.until_closed(1)
    assert report.failed == 1


@pytest.mark.parametrize("missing", ["ce_subject", "ce_schemaversion"])
async def test_a_record_without_a_readable_envelope_is_passed_by_with_a_dead_letter(world: World, missing: str) -> None:
    case, _, value, headers = opening(1)
    at = await write(world, case, value, [(k, v) for k, v in headers if k != missing])
    async with world.working(plain_registry(asks=False)):
        await world.publish(2)
        report = await world.until_closed(1)
        await world.until(lambda: _letter_count(world, 1))
    [letter] = await world.letters()
    assert (int(letter["dl_offset"]), letter["dl_reason"]) == (at, "bad_envelope")
    assert (report.cases, report.repeated_records, report.failed) == (1, 1, 0)


async def test_a_time_without_a_zone_in_the_envelope_does_not_stop_the_partition(world: World) -> None:
    case, _, value, headers = opening(1)
    naive = [(k, b"2026-01-01T00:00:00" if k == "ce_time" else v) for k, v in headers]
    await write(world, case, value, naive)
    async with world.working(plain_registry(asks=False)):
        await world.publish(2)
        await world.until(lambda: _letter_count(world, 1))
        await world.until(lambda: _has_closed(world, "news number 2"))


async def test_a_newer_schema_version_stops_the_worker_and_the_text_says_what_to_deploy(world: World) -> None:
    case, _, value, headers = opening(1)
    newer = [(k, b"99" if k == "ce_schemaversion" else v) for k, v in headers]
    at = await write(world, case, value, newer)
    for _ in range(2):  # and it stops again: the record is not behind it after the first stop
        with pytest.raises(NewerSchemaError, match="deploy this reader"):
            async with world.working(plain_registry(asks=False)):
                await world.until(lambda: False)
    committed = (await world.committed(world.topics.cases)).get(partition_of(case, world.partitions), 0)
    assert committed <= at


async def test_an_unknown_event_type_stops_the_worker_too(world: World) -> None:
    case, opened, first, first_headers = opening(1)
    _, value, headers = after(case, opened, TRIAGED)
    unknown = [(k, b"newsproof.case_dreamt" if k == "ce_type" else v) for k, v in headers]
    await write(world, case, first, first_headers)
    await write(world, case, value, unknown)
    with pytest.raises(NewerSchemaError, match="case_dreamt"):
        async with world.working(plain_registry(asks=True)):
            await world.until(lambda: False)


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

    class Held(Simulated):
        """Answers everyone but the case that is held."""

        def __init__(self) -> None:
            super().__init__()
            self.free = asyncio.Event()

        async def perform(self, effect: Any) -> Any:
            if effect.parts[0].text == case:
                await self.free.wait()
            return await super().perform(effect)

    held = Held()
    ports = Ports(models={"light": held, "heavy": held}, search={}, recall=held, earlier=held)
    async with world.working(plain_registry(asks=True), ports=ports, commit_interval_s=0.2) as worker:
        await world.publish(*range(2, 22))
        await world.until(lambda: worker.projector.open_cases == 1 and worker.intake.opened == 20)
        other = 1 - number
        await world.until(
            lambda: _committed_is(world, other, lambda c: c > 0 and c == worker.projector.safe_offset(other))
        )
        assert (await world.committed(world.topics.cases)).get(number, 0) <= at
        held.free.set()
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


async def _has_closed(world: World, text: str) -> bool:
    return any(isinstance(e, ev.TERMINAL) for e in await world.story(of_text=text))


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
