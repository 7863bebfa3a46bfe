"""Publish and second looks: the next revision of the first case's signal, unless it was retracted or raised meanwhile."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from schemas import envelope as wire
from schemas import events as ev
from schemas.ids import LIVE_RUN, signal_id, uuid5
from schemas.news import look_id
from schemas.signals import Adjustment, Signal
from streams.audit.audit import audit
from streams.journal.clock import utc_now
from streams.journal.log import KafkaLog
from streams.publish.publisher import _record
from streams.publish.revisions import of_first_case, revised_by
from tests.newsproof.signal_samples import FIRST, signal
from tests.plain_graph import DRAFT
from tests.schemas.write_golden import NOW
from tests.streams.publish.test_corroborations import UNCONFIRMED, telling
from tests.streams.publish.test_publisher import signals_reach
from tests.streams.publish.test_retractions import Written, denial, until_read, verdicts
from tests.streams.records import after, write
from tests.streams.world import World

LOOKED = Adjustment(rule="second_look", amount=0.0, reason="looked again 12 min after the first decision")


class Look:
    """A second look at a case, whose events a test writes by hand."""

    def __init__(self, world: World, first: Written) -> None:
        self._world, self._first = world, first
        self.case_id = look_id(first.case_id, 1, world.partitions)

    async def ends(self, verdict: str = "confirmed", **changes: Any) -> None:
        news = msgspec.json.decode(self._first._value, type=ev.EventReceived).news
        opening = ev.SecondLookOpened(
            of_case=self._first.case_id, number=1, due_at=utc_now(), after_s=720.0, verdict="unconfirmed", draft=DRAFT,
            news=news, config_hash="", text_hash="", language="en",
        )  # fmt: skip
        head = uuid5("opening", LIVE_RUN, self.case_id)
        _, value, headers = wire.encode(
            opening, id=head, case_id=self.case_id, causation_id=None, run_id=LIVE_RUN, time=utc_now()
        )
        await write(self._world, self.case_id, value, headers)
        made = looked(self._first.signal(), verdict=verdict, **changes)
        _, value, headers = after(self.case_id, head, ev.SignalSynthesized(signal=made, path="deep"))
        await write(self._world, self.case_id, value, headers)


def looked(of: Signal, **changes: Any) -> Signal:
    return replace(of, **({"adjustments": (LOOKED,)} | changes))


async def unconfirmed(world: World, number: int) -> Written:
    first = Written(world, number)
    return await (await first.open()).go(ev.SignalSynthesized(signal=first.signal(**UNCONFIRMED), path="deep"))


async def test_the_looks_signal_is_the_next_revision_once_and_the_audit_recomputes_it(world: World) -> None:
    first = await unconfirmed(world, 1)
    async with world.publishing():
        await signals_reach(world, 1)
        await Look(world, first).ends()
        await signals_reach(world, 2)
    async with world.publishing() as successor:
        await until_read(world, successor)
    assert await verdicts(world, first) == [("unconfirmed", None), ("confirmed", None)]
    report = await audit(KafkaLog(world.address), world.topics)
    assert (report.forged, report.overstated, report.duplicate_signals, report.clean) == ((), (), 0, True)
    assert report.second_looks == 1


async def test_what_was_taken_back_or_confirmed_while_the_look_ran_stays_so(world: World) -> None:
    wanted = {"retracted": ("retracted", "refuted"), "superseded": ("superseded", "unconfirmed"),
              "confirmed": ("final", "confirmed")}  # fmt: skip
    firsts = [await unconfirmed(world, number) for number in range(3)]
    async with world.publishing() as publisher:
        for number, (first, meanwhile) in enumerate(zip(firsts, wanted, strict=True), start=10):
            said: ev.Event = denial(first, meanwhile)
            if meanwhile == "confirmed":
                said = telling(first.signal_id, first.case_id, verdict="confirmed")
            await (await (await Written(world, number).open()).go(said)).end()
        await signals_reach(world, 9)
        for first in firsts:
            await Look(world, first).ends()
        await until_read(world, publisher)
    for first, last in zip(firsts, wanted.values(), strict=True):
        found = [s for s in await world.signals() if s.signal_id == first.signal_id]
        assert len(found) == 2 and (found[-1].stage, found[-1].verdict) == last
    assert (await audit(KafkaLog(world.address), world.topics)).clean


@pytest.mark.security
async def test_a_revision_that_names_a_look_whose_signal_was_not_due_is_forged(world: World) -> None:
    """The look lies in the journal; but its signal was retracted before, so no revision of it may name the look."""
    first = await unconfirmed(world, 1)
    async with world.publishing() as publisher:
        await (await (await Written(world, 2).open()).go(denial(first))).end()
        await signals_reach(world, 3)
        await Look(world, first).ends()
        await until_read(world, publisher)
    genuine = await audit(KafkaLog(world.address), world.topics)
    assert genuine.forged == ()
    await forge(world, first)
    report = await audit(KafkaLog(world.address), world.topics)
    assert report.forged_signals == 1


async def forge(world: World, first: Written) -> None:

    look = look_id(first.case_id, 1, world.partitions)
    for record in await world.records(world.topics.cases):
        env = wire.read_envelope(record.headers)
        event = wire.decode(env.type, env.version, record.value)
        if env.case_id == look and isinstance(event, ev.SignalSynthesized):
            made = replace(event.signal, revision=3, supersedes=2)
            written = _record(made, env, world.topics.cases, record.partition, record.offset)
            await world.producer.send_and_wait(world.topics.signals, **written)


def test_it_raises_and_denies_and_never_lowers() -> None:
    last = replace(signal("s"), **UNCONFIRMED)

    def after_look(verdict: str, last: Signal = last) -> Signal | None:
        event = ev.SignalSynthesized(signal=looked(signal("s"), verdict=verdict), path="deep")
        return revised_by(last, event, NOW + timedelta(hours=1))

    for verdict in ("likely", "confirmed", "disputed", "refuted", "stale"):
        made = after_look(verdict)
        assert made is not None and made.verdict == verdict
    assert after_look("unconfirmed") is None and after_look("unchecked") is None
    unchecked = replace(last, verdict="unchecked", unchecked_reason="search_failed:timeout")
    assert after_look("unconfirmed", unchecked) is not None
    likely = replace(last, verdict="likely")
    assert after_look("unconfirmed", likely) is None and after_look("confirmed", likely) is not None
    for settled in ({"verdict": "confirmed"}, {"verdict": "refuted"}, {"stage": "retracted"}, dict(FIRST)):
        assert after_look("confirmed", replace(last, **settled)) is None


def test_a_signal_id_of_another_case_marks_a_look() -> None:

    env = wire.Envelope(id="e", type="t", case_id=uuid5("c"), causation_id=None, run_id=LIVE_RUN, time=NOW)
    own = replace(signal("s"), signal_id=signal_id(LIVE_RUN, env.case_id))
    assert not of_first_case(own, env) and of_first_case(signal("s"), env)
