"""What schema 1 published: audited as it was recorded, and withdrawn by today's code.

The golden log holds the journal of two cases and their signals, as they were recorded under schema 1: a false claim that
was published as a buy, and the case that denied it and had it retracted.
"""

from __future__ import annotations

import json
from typing import Any, Literal

import pytest

from evaluation.replay.log_file import Record, read_log_file
from schemas import events as ev
from schemas.envelope import OFFSET, PARTITION, TOPIC, read_publication, read_signal
from schemas.ids import LIVE_RUN, event_id
from schemas.signals import Signal
from schemas.topics import partition_of
from streams.audit.audit import AuditReport, audit
from streams.journal.log import KafkaLog
from tests.schemas.write_golden import GOLDEN_SIGNALS
from tests.streams.publish.test_publisher import signals_reach
from tests.streams.publish.test_retractions import PAGE, Written
from tests.streams.records import MemoryWorld, after, write
from tests.streams.world import World

LOG = read_log_file(GOLDEN_SIGNALS / "denied.v1.jsonl.gz")
DENIAL, BOUGHT, RETRACTED = LOG.signals
CLAIM = json.loads(BOUGHT.value or b"")
Place = tuple[int, int]


async def recorded(world: World | MemoryWorld, *signals: Record, denied: bool = False) -> dict[Place, Place]:
    """Write the journal of the golden log, without ``denied`` only the claim's, and these signals; return where it lies."""
    moved: dict[Place, Place] = {}
    for one in LOG.cases:
        case = (one.key or b"").decode()
        if denied or case == CLAIM["case_id"]:
            offset = await write(world, case, one.value, list(one.headers))
            moved[one.partition, one.offset] = partition_of(case, world.partitions), offset
    for one in signals:
        await send(world, one, moved)
    return moved


async def send(world: World | MemoryWorld, one: Record, moved: dict[Place, Place], value: bytes | None = None) -> Place:
    """Write a signal of the golden log, or another value under its headers, that names where its event lies here."""
    cause = read_publication(one)
    partition, offset = moved[cause.journal_partition, cause.journal_offset]
    here = {TOPIC: world.topics.cases, PARTITION: str(partition), OFFSET: str(offset)}
    headers = dict(one.headers) | {name: text.encode() for name, text in here.items()}
    body = one.value if value is None else value
    sent = await world.producer.send_and_wait(world.topics.signals, body, key=one.key, headers=list(headers.items()))
    return sent.partition, sent.offset


async def audited(world: World | MemoryWorld) -> AuditReport:
    log = world.log if isinstance(world, MemoryWorld) else KafkaLog(world.address)
    return await audit(log, world.topics)


async def of_the_claim(world: World) -> list[tuple[Signal, int]]:
    """The revisions of the claim's signal, and the schema of each record."""
    found = []
    for record in await world.records(world.topics.signals, isolation_level="read_committed"):
        signal, published = read_signal(record)
        if signal.signal_id == CLAIM["signal_id"]:
            found.append((signal, published.schema_version))
    return found


async def test_a_log_of_schema_1_is_as_clean_as_it_was() -> None:
    world = MemoryWorld()
    await recorded(world, *LOG.signals, denied=True)
    report = await audited(world)
    assert (report.signals, report.forged, report.overstated, report.clean) == (2, (), (), True)


@pytest.mark.parametrize(("kind", "verdict"), [("retracted", "refuted"), ("superseded", "unconfirmed")])
async def test_a_signal_of_schema_1_is_withdrawn_by_a_case_of_today(
    world: World, kind: Literal["retracted", "superseded"], verdict: str
) -> None:
    await recorded(world, BOUGHT)
    denier = await Written(world, 1).open()
    await denier.go(
        ev.RetractionFound(
            signal_id=CLAIM["signal_id"], of_case=CLAIM["case_id"], kind=kind, reason="denied", evidence=(PAGE,)
        )
    )
    await denier.end()
    async with world.publishing():
        await signals_reach(world, 3)
    (first, schema), (last, schema_of_last) = await of_the_claim(world)
    assert (schema, schema_of_last, last.schema_version) == (1, 2, 2)
    assert (first.revision, first.stage, first.verdict, first.action) == (1, "final", "unconfirmed", "buy")
    assert (last.revision, last.supersedes, last.stage, last.verdict) == (2, 1, kind, verdict)
    assert (last.action, last.direction, last.confidence, last.asset) == ("observe", "neutral", 0.0, first.asset)
    assert last.evidence[: len(first.evidence)] == first.evidence and last.evidence[-1].url == PAGE.url
    report = await audited(world)
    assert (report.forged, report.overstated, report.clean) == ((), (), True)


async def test_what_schema_1_left_to_publish_is_published_as_schema_2_and_promises_no_more(world: World) -> None:
    await recorded(world)
    async with world.publishing():
        await signals_reach(world, 1)
    [(signal, schema)] = await of_the_claim(world)
    assert (schema, signal.verdict, signal.action, signal.confidence) == (2, "unconfirmed", "buy", CLAIM["confidence"])
    report = await audited(world)
    assert (report.forged, report.overstated, report.clean) == ((), (), True)


async def test_a_first_judgement_of_schema_1_is_withdrawn_when_its_case_ends_without_a_signal(world: World) -> None:
    case = await Written(world, 1).open()
    _, _, headers = after(case.case_id, case.head, ev.CaseDropped(reason="spam", detail="d"))
    triaged = json.loads((GOLDEN_SIGNALS.with_name("golden") / "newsproof.case_triaged.v1.json").read_text("utf-8"))
    first = CLAIM | {
        "signal_id": case.signal_id, "case_id": case.case_id, "status": "preliminary", "adjustments": [],
    }  # fmt: skip
    old = dict(headers) | {"ce_type": b"newsproof.case_triaged", "ce_schemaversion": b"1"}
    value = json.dumps(triaged["value"] | {"preliminary_signal": first}).encode()
    await write(world, case.case_id, value, list(old.items()))
    case.head = event_id(LIVE_RUN, case.case_id, case.head)
    await case.go(ev.CaseDropped(reason="spam", detail="d"))
    async with world.publishing():
        await signals_reach(world, 2)
    said = [(s.stage, s.verdict, s.unchecked_reason, s.action) for s in await world.signals()]
    assert said == [
        ("preliminary", "unchecked", "preliminary", "buy"),
        ("retracted", "unchecked", "preliminary", "observe"),
    ]
    assert (await audited(world)).clean


def changed(**fields: Any) -> bytes:
    return json.dumps(CLAIM | fields, ensure_ascii=False, separators=(",", ":")).encode()


@pytest.mark.security
async def test_a_changed_signal_of_schema_1_is_forged_like_one_of_today() -> None:
    world = MemoryWorld()
    moved = await recorded(world)
    forgeries = {
        "another word": changed(confidence=0.99),
        "a key twice": b'{"action":"sell",' + (BOUGHT.value or b"")[1:],
        "a key of nobody": changed(order="sell"),
        "a word of schema 2": changed(verdict="confirmed"),
        "another status": changed(status="preliminary_only"),
    }
    wanted = {await send(world, BOUGHT, moved, value): name for name, value in forgeries.items()}
    await send(world, BOUGHT, moved)
    report = await audited(world)
    assert {wanted[one.partition, one.offset] for one in report.forged} == set(forgeries)
    assert report.forged_signals == len(forgeries)


@pytest.mark.security
async def test_a_changed_withdrawal_of_schema_1_is_forged() -> None:
    world = MemoryWorld()
    moved = await recorded(world, DENIAL, BOUGHT, denied=True)
    old = json.loads(RETRACTED.value or b"")
    value = json.dumps(old | {"action": "buy", "confidence": 0.9}, ensure_ascii=False, separators=(",", ":")).encode()
    place = await send(world, RETRACTED, moved, value)
    assert [(one.partition, one.offset) for one in (await audited(world)).forged] == [place]
