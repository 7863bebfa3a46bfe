"""Publish and what withdraws a signal: in order, exactly once through kills, and nothing without a signal to withdraw."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from aiokafka import TopicPartition
from msgspec.structs import replace

from infra.kafka.topics import committed_by
from schemas import events as ev
from schemas.ids import LIVE_RUN, signal_id
from schemas.signals import Signal, SignalEvidence
from schemas.topics import partition_of
from streams.audit.audit import audit
from streams.journal.log import KafkaLog
from streams.publish.publisher import Publisher
from tests.newsproof.signal_samples import FIRST, signal
from tests.streams.publish.test_publisher import die_inside_a_transaction, signals_reach
from tests.streams.records import TRIAGED, after, opening, write
from tests.streams.world import World

PAGE = SignalEvidence(url="https://walmart.example/no", hash="h", stance="denies", reference_number=7, official=True)


class Written:
    """A case whose events a test writes by hand. ``head`` is the id of its last event."""

    def __init__(self, world: World, number: int, *, authenticated: bool = False, **news: Any) -> None:
        self._world = world
        self.case_id, self.head, self._value, self._headers = opening(number, authenticated=authenticated, **news)
        self.signal_id = signal_id(LIVE_RUN, self.case_id)
        self.partition = partition_of(self.case_id, world.partitions)
        self.offset = -1

    async def open(self) -> Written:
        self.offset = await write(self._world, self.case_id, self._value, self._headers)
        return self

    async def go(self, *events: ev.Event) -> Written:
        for event in events:
            self.head, value, headers = after(self.case_id, self.head, event)
            await write(self._world, self.case_id, value, headers)
        return self

    async def end(self) -> Written:
        return await self.go(ev.SignalSynthesized(signal=self.signal(), path="deep"))

    def signal(self, **changes: Any) -> Signal:
        return replace(
            signal("s"), signal_id=self.signal_id, case_id=self.case_id, notes="因为", language="zh", **changes
        )


def denial(target: Written, kind: str = "retracted", **changes: Any) -> ev.RetractionFound:
    plain = ev.RetractionFound(
        signal_id=target.signal_id, of_case=target.case_id, kind=kind, reason="被否认", evidence=(PAGE,)
    )
    return replace(plain, **changes)


async def revisions(world: World, of: Written) -> list[str]:
    return [s.stage for s in await world.signals() if s.signal_id == of.signal_id]


async def verdicts(world: World, of: Written) -> list[tuple[str | None, str | None]]:
    found = [s for s in await world.signals() if s.signal_id == of.signal_id]
    return [(s.verdict, s.unchecked_reason) for s in found]


async def until_read(world: World, publisher: Publisher) -> None:
    """Wait until the publisher has read and published everything that is in the journal: it commits every end."""
    marker = await (await Written(world, 900 + publisher.published + len(await world.signals())).open()).end()
    await world.until(lambda: _has(world, marker), within_s=60)


async def _has(world: World, of: Written) -> bool:
    return bool(await revisions(world, of))


def apart(world: World, partition: int, start: int) -> Written:
    """A case that lies in another partition."""
    return next(w for n in range(start, start + 50) if (w := Written(world, n)).partition != partition)


async def test_a_retraction_is_the_next_revision_and_says_by_whom_and_why(world: World) -> None:
    target = await (await Written(world, 1).open()).end()
    denier = await (await Written(world, 2).open()).go(denial(target))
    await denier.end()
    async with world.publishing():
        await signals_reach(world, 3)
    found = [s for s in await world.signals() if s.signal_id == target.signal_id]
    assert [(s.revision, s.supersedes, s.stage) for s in found] == [(1, None, "final"), (2, 1, "retracted")]
    last = found[-1]
    assert (last.action, last.direction, last.confidence) == ("observe", "neutral", 0.0)
    assert (last.verdict, last.unchecked_reason, last.schema_version) == ("refuted", None, 2)
    assert "retracted" in last.risk_flags and last.notes == "被否认. 因为" and last.links == (PAGE.url,)
    assert last.evidence[-1].stance == "denies" and last.adjustments[-1].rule == "retracted"
    assert (last.case_id, last.summary, last.asset) == (found[0].case_id, found[0].summary, found[0].asset)
    report = await audit(KafkaLog(world.address), world.topics)
    assert (report.signals, report.duplicate_signals, report.foreign) == (2, 0, {})


async def test_a_retraction_waits_for_a_target_that_still_runs_and_whoever_leads_next_makes_it(world: World) -> None:
    target = await Written(world, 1).open()
    denier = await apart(world, target.partition, 2).open()
    await denier.go(denial(target))
    await denier.end()
    async with world.publishing() as first:
        await signals_reach(world, 1)
        await until_read(world, first)
    assert await revisions(world, target) == []
    held = (await committed_by(world.address, world.topics.group("publisher")))[
        TopicPartition(world.topics.cases, denier.partition)
    ]
    assert held.offset == denier.offset, "the case that denies must be read again from its beginning"
    async with world.publishing() as second:
        await world.until(lambda: second.active, within_s=40)
        await target.end()
        await world.until(lambda: _is(world, target, ["final", "retracted"]), within_s=60)
        await until_read(world, second)
    seen = Counter((s.signal_id, s.revision) for s in await world.signals())
    assert set(seen.values()) == {1}
    assert await revisions(world, denier) == ["final"]


async def _is(world: World, of: Written, wanted: list[str]) -> bool:
    return await revisions(world, of) == wanted


async def test_a_target_that_ends_without_a_signal_leaves_nothing_and_holds_nothing(world: World) -> None:
    target = await (await Written(world, 1).open()).go(ev.CaseDropped(reason="spam", detail="d"))
    denier = await (await Written(world, 2).open()).go(denial(target), denial(target, signal_id="another"))
    stranger = Written(world, 3)  # never opened
    await denier.go(denial(stranger))
    await denier.end()
    async with world.publishing() as publisher:
        await signals_reach(world, 1)
        await until_read(world, publisher)
    assert await revisions(world, target) == await revisions(world, stranger) == []
    committed = await committed_by(world.address, world.topics.group("publisher"))
    assert committed[TopicPartition(world.topics.cases, denier.partition)].offset > denier.offset


TWICE: list[tuple[tuple[str, str], list[str], list[str]]] = [
    (("retracted", "retracted"), ["final", "retracted"], ["confirmed", "refuted"]),
    (("retracted", "superseded"), ["final", "retracted"], ["confirmed", "refuted"]),
    (("superseded", "superseded"), ["final", "superseded"], ["confirmed", "confirmed"]),
    (("superseded", "retracted"), ["final", "superseded", "retracted"], ["confirmed", "confirmed", "refuted"]),
]


async def test_what_is_withdrawn_stays_withdrawn_and_only_what_is_denied_is_refuted(world: World) -> None:
    targets = []
    for number, (kinds, _, _) in enumerate(TWICE):
        targets.append(target := await (await Written(world, number).open()).end())
        denier = await Written(world, 10 + number).open()
        await (await denier.go(*(denial(target, kind) for kind in kinds))).end()
    async with world.publishing() as publisher:
        await until_read(world, publisher)
        await signals_reach(world, 14)
    for target, (_, stages, found) in zip(targets, TWICE, strict=True):
        assert await revisions(world, target) == stages
        assert [verdict for verdict, _ in await verdicts(world, target)] == found
    assert (await audit(KafkaLog(world.address), world.topics)).forged == ()


@pytest.mark.slow
async def test_a_publisher_killed_inside_the_transaction_of_a_retraction_makes_it_once(world: World) -> None:
    """Seven records are sent when it dies: six signals, and the retraction of the first, or the last of the signals."""
    targets = [await (await Written(world, n).open()).end() for n in range(5)]
    denier = await (await Written(world, 10).open()).go(*(denial(t) for t in targets))
    await denier.end()
    await die_inside_a_transaction(world)
    async with world.publishing():
        await signals_reach(world, 11)
    for target in targets:
        assert await revisions(world, target) == ["final", "retracted"]
    assert set(Counter((s.signal_id, s.revision) for s in await world.signals()).values()) == {1}
    async with world.publishing() as again:
        await world.until(lambda: again.active, within_s=40)
        await until_read(world, again)
        assert again.published == 1, "only the marker"


async def test_a_preliminary_revision_comes_first_and_the_final_one_supersedes_it(world: World) -> None:
    case = await Written(world, 1).open()
    await case.go(replace(TRIAGED, preliminary_signal=case.signal(**FIRST)))
    async with world.publishing():
        await signals_reach(world, 1)
        await case.end()
        await signals_reach(world, 2)
    assert [(s.revision, s.supersedes, s.stage) for s in await world.signals()] == [
        (1, None, "preliminary"),
        (2, 1, "final"),
    ]


async def test_a_case_that_ends_without_a_signal_withdraws_its_preliminary_one(world: World) -> None:
    cases = []
    for number, end in enumerate(
        (ev.CaseDropped(reason="spam", detail="d"), ev.CaseFailed(reason="cancelled", failed_step="", attempts=0))
    ):
        cases.append(case := await Written(world, number).open())
        await case.go(replace(TRIAGED, preliminary_signal=case.signal(**FIRST)), end)
        denier = await Written(world, 10 + number).open()
        await (await denier.go(denial(case))).end()  # a second reason changes nothing
    async with world.publishing() as publisher:
        await signals_reach(world, 6)
        await until_read(world, publisher)
    for case in cases:
        assert await revisions(world, case) == ["preliminary", "retracted"]
        assert await verdicts(world, case) == [("unchecked", "preliminary")] * 2, "nobody has denied it"


async def test_a_retraction_of_a_preliminary_revision_waits_for_the_final_one(world: World) -> None:
    case = await Written(world, 1).open()
    await case.go(replace(TRIAGED, preliminary_signal=case.signal(**FIRST)))
    denier = await apart(world, case.partition, 2).open()
    await denier.go(denial(case))
    await denier.end()
    async with world.publishing() as publisher:
        await signals_reach(world, 2)
        await until_read(world, publisher)
        assert await revisions(world, case) == ["preliminary"]
        await case.end()
        await world.until(lambda: _is(world, case, ["preliminary", "final", "retracted"]), within_s=60)


async def test_events_without_a_value_stop_no_publisher(world: World) -> None:
    for number, event in enumerate(
        (TRIAGED, ev.CaseFailed(reason="r", failed_step="", attempts=0), denial(Written(world, 1)))
    ):
        case = await Written(world, 10 + number).open()
        _, _, headers = after(case.case_id, case.head, event)
        await write(world, case.case_id, None, headers)
    case = await (await Written(world, 2).open()).end()
    async with world.publishing():
        await world.until(lambda: _has(world, case), within_s=60)
    assert len(await world.signals()) == 1
