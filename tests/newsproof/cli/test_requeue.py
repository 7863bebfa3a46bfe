"""Dead letters of failed cases: sent again they open one more attempt, once, also when the command is killed in the middle."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest
from aiokafka import AIOKafkaProducer

from agents.graphs import verification
from newsproof.app.dead_letters import Choice, DeadLetters, chosen_of
from schemas.errors import ConfigError, ContractError
from schemas.events import CaseFailed, EventReceived, SignalSynthesized
from schemas.news import MOST_ATTEMPTS, RETRIES_HEADER, News, case_id_of, retries_of
from streams.intake.text_index import TextIndex
from tests.newsproof.app.test_health import REFUSED
from tests.streams.graphs import degrading
from tests.streams.world import World, news

CASES = 3


@pytest.fixture
async def failed(world: World) -> World:
    """Three cases that failed because every model refused the key, and a record that is no news."""
    await world.publish(*range(CASES), b"{broken")
    async with world.working(verification(), ports=REFUSED) as worker:
        await world.until_closed(CASES)
        await world.until(lambda: worker.appender.dead_letters.total() == CASES + 1)
    return world


async def requeue(world: World, **chosen: Any) -> list[str]:
    """Send dead letters again, as the command does with these options; return their ids."""
    letters = DeadLetters(world.address, world.topics)
    found = chosen_of(await letters.read(), Choice(**chosen), world.topics.news)
    await letters.send(found)
    return [one.id for one in found]


@pytest.mark.slow
async def test_a_failed_case_is_tried_again_once_and_the_audit_stays_clean(failed: World) -> None:
    letters = await DeadLetters(failed.address, failed.topics).read()
    before = [one for one in letters if one.reason == "case_failed"]
    assert len(before) == CASES and all(one.case and not one.requeued for one in before)
    assert len(await requeue(failed, reason="case_failed")) == CASES
    async with failed.working(degrading(asks=True)):
        report = await failed.until_closed(2 * CASES)
    assert report.clean and (report.cases, report.failed, report.news) == (2 * CASES, CASES, 2 * CASES + 1)
    opened = [e for e in await failed.story() if isinstance(e, EventReceived) and e.retries is not None]
    assert {e.retries for e in opened} == {one.case for one in before} and not any(e.edits for e in opened)
    assert (await failed.counted())[SignalSynthesized.__name__] == CASES
    with pytest.raises(ConfigError, match="already retried"):
        await requeue(failed, ids=(before[0].id,), again=True)
    assert len(await requeue(failed, everything=True, again=True)) == 1, "the record that is no news, and no case"


class Killed(Exception):  # noqa: N818 - not an error of ours
    """Stands for the end of the process: what was sent before is on the topic, and nothing else."""


@pytest.mark.slow
async def test_a_requeue_that_is_killed_in_the_middle_and_given_again_doubles_nothing(
    failed: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    send, done = AIOKafkaProducer.send_and_wait, list[Any]()

    async def send_two(self: AIOKafkaProducer, *args: Any, **more: Any) -> None:
        if len(done) == 2:
            raise Killed
        done.append(await send(self, *args, **more))

    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(AIOKafkaProducer, "send_and_wait", send_two)
        await requeue(failed, everything=True)
    sent = {one.id for one in await DeadLetters(failed.address, failed.topics).read() if one.requeued}
    assert len(sent) == 2, "the list sees what was sent before the kill"
    assert sent.isdisjoint(await requeue(failed, everything=True))
    # Sent twice all the same, as by two people at once: the second record opens nothing.
    retried = [r for r in await failed.records(failed.topics.news) if RETRIES_HEADER in dict(r.headers)]
    assert len(retried) == CASES
    for record in retried:
        await failed.producer.send_and_wait(
            failed.topics.news, record.value, key=record.key, headers=list(record.headers)
        )
    async with failed.working(degrading(asks=True)) as worker:
        await failed.until(lambda: worker.intake.repeated == CASES)

        async def accounted_for() -> bool:
            return (await failed.until_closed(2 * CASES)).lost == 0

        await failed.until(accounted_for)  # the record that is no news was sent again too: its dead letter comes last
        report = await failed.until_closed(2 * CASES)
    assert report.clean and report.cases == 2 * CASES and report.signals == 0
    assert (await failed.counted())[SignalSynthesized.__name__] == CASES


@pytest.mark.slow
async def test_an_attempt_that_fails_leaves_a_letter_that_opens_the_next_one(failed: World) -> None:
    for attempt in (1, 2):
        await requeue(failed, reason="case_failed")
        async with failed.working(verification(), ports=REFUSED, slot=str(attempt)):
            report = await failed.until_closed((attempt + 1) * CASES)
        assert report.clean and report.failed == (attempt + 1) * CASES
    assert sum(isinstance(e, CaseFailed) for e in await failed.story()) == 3 * CASES


@pytest.mark.slow
async def test_an_attempt_in_the_wrong_partition_is_forwarded_as_the_attempt_that_it_is(failed: World) -> None:
    (of_failed,) = {e.news.case_id for e in await failed.story() if isinstance(e, EventReceived) and "0" in e.news.text}
    for partition in range(failed.partitions):
        await failed.producer.send_and_wait(
            failed.topics.news, json.dumps(news(0)).encode(), key=b"any", partition=partition,
            headers=[(RETRIES_HEADER, of_failed.encode())],
        )  # fmt: skip
    async with failed.working(degrading(asks=True)) as worker:
        report = await failed.until_closed(CASES + 1)
        await failed.until(lambda: worker.intake.forwarded == 1 and worker.intake.repeated == 1)
    assert report.clean and report.cases == CASES + 1


async def test_an_attempt_is_no_duplicate_of_the_case_that_failed(world: World) -> None:
    await world.publish(1)
    texts = TextIndex(world.address, world.topics)
    await texts.start()
    try:
        from infra.offline.simulated import Simulated
        from infra.ports import Ports

        port = Simulated()
        ports = Ports(models={"light": port, "heavy": port}, search={}, recall=port, earlier=texts)
        async with world.working(verification(), ports=ports):
            await world.until_closed(1)
            (failure,) = [f.envelope for f in await world.journal() if f.accepted and isinstance(f.event, CaseFailed)]
            assert failure is not None
            await world.producer.send_and_wait(
                world.topics.news, json.dumps(news(1)).encode(), key=b"wire:item-1",
                headers=[(RETRIES_HEADER, failure.case_id.encode())],
            )  # fmt: skip
            await world.until_closed(2)
    finally:
        await texts.close()
    assert (await world.counted())["CaseDropped"] == 0 and (await world.counted())["CaseFailed"] == 2


def test_the_id_of_an_attempt_is_made_of_the_failed_case_alone() -> None:
    item = News(source="s", text="t", published_at="2026-01-01T00:00:00Z", external_id="1")  # type: ignore[arg-type]
    first = case_id_of(item, None)
    assert first == item.case_id
    second, third = case_id_of(item, first), case_id_of(item, case_id_of(item, first))
    assert len({first, second, third}) == 3 and case_id_of(item, first) == second


@pytest.mark.parametrize("said", [b"", b"no id", b"\xff", b"0" * 36])
def test_a_header_that_names_no_case_is_refused(said: bytes) -> None:
    with pytest.raises(ContractError, match=RETRIES_HEADER):
        retries_of([(RETRIES_HEADER, said)])
    assert retries_of([("other", b"x")]) is None and retries_of(None) is None


@pytest.mark.security
def test_an_attempt_is_one_at_the_item_itself_and_there_are_only_so_many() -> None:
    item, other = (News(source="s", text=t, published_at=datetime(2026, 1, 1, tzinfo=UTC)) for t in ("t", "u"))
    attempts = [item.case_id]
    for _ in range(MOST_ATTEMPTS - 1):
        attempts.append(case_id_of(item, attempts[-1]))
    assert len(set(attempts)) == MOST_ATTEMPTS
    for foreign in (str(uuid4()), other.case_id, attempts[-1]):
        with pytest.raises(ContractError, match="send the item without the header") as refused:
            case_id_of(item, foreign)
        assert refused.value.reason == "bad_value"
