"""The audit of published signals: what publish wrote passes, what anybody else wrote or changed is counted and listed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from schemas import events as ev
from schemas.envelope import CAUSE, OFFSET, PARTITION, REVISION, TOPIC, read_signal
from schemas.ids import uuid5
from schemas.signals import Signal
from streams.audit.audit import audit
from streams.journal.log import KafkaLog
from tests.newsproof.signal_samples import FIRST, as_published, signal
from tests.streams.publish.test_publisher import signals_reach
from tests.streams.publish.test_retractions import Written, denial
from tests.streams.records import DROPPED, TRIAGED, MemoryWorld
from tests.streams.world import World

pytestmark = pytest.mark.security

FORGED = signal("nobody's", verdict="likely", action="sell", confidence=0.99)


async def published(world: World) -> list[tuple[Signal, Any]]:
    """Publish a first word and the last one, a withdrawal of it, and a first word whose case is dropped: five revisions."""
    target = Written(world, 1)
    first = replace(TRIAGED, preliminary_signal=target.signal(**FIRST))
    await (await (await target.open()).go(first)).end()
    denier = await (await Written(world, 2).open()).go(denial(target))
    await denier.go(DROPPED)
    dropped = Written(world, 3)
    await (await dropped.open()).go(replace(TRIAGED, preliminary_signal=dropped.signal(**FIRST)), DROPPED)
    async with world.publishing():
        await signals_reach(world, 5)
    records = await world.records(world.topics.signals, isolation_level="read_committed")
    return [(read_signal(record)[0], record) for record in records]


def written_like(record: Any, value: Signal | bytes, **headers: str) -> dict[str, Any]:
    """A record with the headers of another one, some of them changed."""
    body = value if isinstance(value, bytes) else msgspec.json.encode(value)
    changed = {**dict(record.headers), **{name: text.encode() for name, text in headers.items()}}
    return {"value": body, "key": changed["ce_subject"], "headers": list(changed.items())}


def with_revision(one: Signal, record: Any, revision: int, **changes: Any) -> dict[str, Any]:
    """The signal once more under another revision, with headers that agree."""
    again = replace(one, revision=revision, supersedes=revision - 1 or None, **changes)
    number = uuid5("signal-revision", one.signal_id, str(revision))
    return written_like(record, again, **{REVISION: str(revision), "ce_id": number})


def no_headers(world: World, _: Signal, record: Any) -> dict[str, Any]:
    return {"value": record.value, "key": record.key}


def a_place_that_is_empty(world: World, _: Signal, record: Any) -> dict[str, Any]:
    made = as_published(FORGED, world.topics)
    return {**made, "headers": [(k, str(10**15).encode() if k == OFFSET else v) for k, v in made["headers"]]}


def a_place_that_publishes_nothing(world: World, _: Signal, record: Any) -> dict[str, Any]:
    return as_published(FORGED, world.topics)  # the opening of a case


def another_partition(world: World, one: Signal, record: Any) -> dict[str, Any]:
    return written_like(record, one, **{PARTITION: "77"})


def another_journal(world: World, one: Signal, record: Any) -> dict[str, Any]:
    return written_like(record, one, **{TOPIC: world.topics.research})


def another_cause(world: World, one: Signal, record: Any) -> dict[str, Any]:
    return written_like(record, one, **{CAUSE: "somebody else's"})


def a_changed_word(world: World, one: Signal, record: Any) -> dict[str, Any]:
    return written_like(record, replace(one, confidence=0.99))


def a_key_that_comes_twice(world: World, one: Signal, record: Any) -> dict[str, Any]:
    return written_like(record, b'{"action":"buy",' + record.value[1:])


def a_signal_of_another_case(world: World, one: Signal, record: Any) -> dict[str, Any]:
    whose = uuid5("signal", "another")
    number = uuid5("signal-revision", whose, str(one.revision))
    return written_like(record, replace(one, signal_id=whose), ce_subject=whose, ce_id=number)


def an_old_word_said_again(world: World, one: Signal, record: Any) -> dict[str, Any]:
    return with_revision(one, record, 9)


def a_withdrawal_that_nobody_decided(world: World, one: Signal, record: Any) -> dict[str, Any]:
    return with_revision(one, record, 9, stage="retracted", action="observe", confidence=0.0)


def a_schema_of_tomorrow(world: World, one: Signal, record: Any) -> dict[str, Any]:
    return written_like(record, one, ce_schemaversion="77")


def no_signal_at_all(world: World, one: Signal, record: Any) -> dict[str, Any]:
    return written_like(record, b"{}")


FORGERIES: tuple[tuple[Callable[[World, Signal, Any], dict[str, Any]], str], ...] = (
    (no_headers, "publisher did not write"),
    (a_place_that_is_empty, "no accepted event"),
    (a_place_that_publishes_nothing, "no accepted event"),
    (another_partition, "no accepted event"),
    (another_journal, "is not the journal"),
    (another_cause, "differs from what the journal holds"),
    (a_changed_word, "differs from what the journal holds"),
    (a_key_that_comes_twice, "more than the signal"),
    (a_signal_of_another_case, "differs from what the journal holds"),
    (an_old_word_said_again, "several revisions name one event"),
    (a_withdrawal_that_nobody_decided, "differs from what the journal holds"),
    (a_schema_of_tomorrow, "update newsproof"),
    (no_signal_at_all, "is no signal"),
)


async def test_what_publish_wrote_is_found_in_the_journal_and_each_forgery_is_listed_with_its_place(
    world: World,
) -> None:
    seen = await published(world)
    assert sorted((one.stage, one.revision) for one, _ in seen) == [
        ("final", 2), ("preliminary", 1), ("preliminary", 1), ("retracted", 2), ("retracted", 3)
    ]  # fmt: skip
    report = await audit(KafkaLog(world.address), world.topics)
    assert (report.forged_signals, report.forged, report.clean) == (0, (), True)
    [(one, record)] = [(s, r) for s, r in seen if s.stage == "final"]
    [(last, withdrawal)] = [(s, r) for s, r in seen if s.revision == 3]
    forgeries = [(forgery.__name__, forgery(world, one, record), why) for forgery, why in FORGERIES]
    changed = replace(last, action="sell", confidence=0.9)
    forgeries.append(("a changed withdrawal", written_like(withdrawal, changed), "differs from what the journal holds"))
    wanted = {}
    for name, forged, why in forgeries:
        sent = await world.producer.send_and_wait(world.topics.signals, partition=0, **forged)
        wanted[sent.offset] = name, why
    report = await audit(KafkaLog(world.address), world.topics)
    found = {f.offset: f.why for f in report.forged if f.partition == 0}
    assert [name for offset, (name, why) in wanted.items() if why not in found.get(offset, "")] == []
    # Which of two revisions of one event is the genuine one, the journal does not tell: both are listed.
    assert (report.forged_signals, report.clean) == (len(wanted) + 1, False)


OVERSTATED: tuple[tuple[dict[str, Any], str], ...] = (
    ({"verdict": "unconfirmed", "confidence": 0.5}, "sell of what is unconfirmed"),
    ({"verdict": "unchecked", "unchecked_reason": "gate", "confidence": 0.6}, "sell of what is unchecked"),
    ({"verdict": "likely", "asset": "UNKNOWN"}, "sell of no asset"),
    ({"verdict": "likely", "confidence": 0.86}, "likely with confidence 0.86, above 0.85"),
    ({"verdict": "unconfirmed", "action": "observe", "confidence": 0.61}, "above 0.60"),
    ({"verdict": "stale", "action": "observe", "confidence": 0.51}, "above 0.50"),
    ({"verdict": "disputed", "action": "observe", "confidence": 0.51}, "above 0.50"),
    ({"verdict": "refuted", "action": "observe", "confidence": 0.21}, "above 0.20"),
    ({"verdict": "unchecked", "action": "observe", "confidence": 0.61}, "above 0.60"),
    ({"verdict": "confirmed", "confidence": 1.01}, "above 1.00"),
    ({"verdict": None, "action": "observe", "confidence": 0.1}, "no verdict"),
)
WITHIN: tuple[dict[str, Any], ...] = (
    {"verdict": "confirmed", "confidence": 1.0},
    {"verdict": "likely", "confidence": 0.85, "action": "buy"},
    {"verdict": "confirmed", "asset": "UNKNOWN", "action": "observe"},
    {"verdict": "unconfirmed", "confidence": 0.6, "action": "observe"},
    {"verdict": "refuted", "confidence": 0.2, "action": "observe"},
)


async def test_what_the_pipeline_itself_says_beyond_its_verdict_is_listed(world: World) -> None:
    wanted = {}
    for number, fields in enumerate([*(fields for fields, _ in OVERSTATED), *WITHIN]):
        case = await Written(world, number).open()
        await case.go(ev.SignalSynthesized(signal=case.signal(**fields), path="deep"))
        if number < len(OVERSTATED):
            wanted[case.signal_id] = OVERSTATED[number][1]
    first = await Written(world, 50).open()
    await first.go(replace(TRIAGED, preliminary_signal=first.signal(**{**FIRST, "action": "buy"})))
    wanted[first.signal_id] = "buy of what is unchecked"
    await first.end()
    async with world.publishing():
        await signals_reach(world, len(OVERSTATED) + len(WITHIN) + 2)
    report = await audit(KafkaLog(world.address), world.topics)
    records = await world.records(world.topics.signals, isolation_level="read_committed")
    at = {(record.partition, record.offset): read_signal(record)[0] for record in records}
    listed = {at[one.partition, one.offset].signal_id: one.why for one in report.overstated}
    assert listed.keys() == wanted.keys()
    assert all(why in listed[of] for of, why in wanted.items()), listed
    assert (report.overstated_signals, report.forged_signals, report.clean) == (len(wanted), 0, False)


async def test_a_flood_of_forged_signals_is_counted_and_listed_in_part() -> None:
    world = MemoryWorld()
    for number in range(30):
        await world.send_and_wait(world.topics.signals, **as_published(signal(f"flood {number}"), world.topics))
    report = await audit(world.log, world.topics)
    assert (report.forged_signals, len(report.forged)) == (30, 20)
