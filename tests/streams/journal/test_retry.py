"""A worker whose partitions move while the broker restarts waits for it, and asks nothing of what it does not hold."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock, MagicMock

import pytest
from aiokafka.errors import KafkaConnectionError, TopicAuthorizationFailedError
from structlog.testing import capture_logs

from agents.graphs import NEWS
from infra.kafka.topics import KafkaAddress
from schemas.errors import TransientError
from schemas.topics import Topics
from streams.effects.spending import UnlimitedBudget
from streams.ending import Ending
from streams.journal import retry
from streams.journal.clock import utc_now
from streams.journal.log import KafkaLog
from streams.journal.retry import retry_while_unavailable
from streams.journal.tombstones import Tombstones
from streams.publish.publisher import Publisher
from streams.runtime.partition import Partition, Partitions
from streams.runtime.projector import Projector
from streams.runtime.watchdog import Watchdog
from tests.plain_graph import plain_registry
from tests.streams.records import opening, write
from tests.streams.world import World
from tests.virtual_time import run_virtually, virtual_s


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "PAUSES_S", (0.0,))


def projecting() -> tuple[Projector, Ending]:
    """A projector of no broker, and what it would end its worker by."""
    address, ending = KafkaAddress(bootstrap=""), Ending()
    projector = Projector(
        address, "cases", "group", NEWS, MagicMock(), MagicMock(),
        Partitions(), Tombstones(KafkaLog(address)), UnlimitedBudget(), ending,
    )  # fmt: skip
    return projector, ending


async def test_what_could_not_be_read_while_the_broker_was_away_is_read_again() -> None:
    failures = iter([KafkaConnectionError("away"), TransientError("no coordinator"), ConnectionRefusedError()])

    async def read() -> str:
        if (failure := next(failures, None)) is not None:
            raise failure
        return "there"

    assert await retry_while_unavailable(read, "anything") == "there"


async def test_what_another_try_would_not_mend_is_raised_as_it_comes() -> None:
    async def read() -> str:
        raise TopicAuthorizationFailedError("cases")

    with pytest.raises(TopicAuthorizationFailedError):
        await retry_while_unavailable(read, "anything")


def test_pauses_grow_during_an_outage_that_is_logged_once_and_are_short_again_after_a_steady_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(retry, "PAUSES_S", (1.0, 2.0, 4.0))
    began: list[float] = []

    async def read() -> None:
        began.append(virtual_s())
        if len(began) == 6:
            return
        await asyncio.sleep(retry.STEADY_S + 1.0 if len(began) == 5 else 0.0)
        raise KafkaConnectionError("away")

    with capture_logs() as logs:
        run_virtually(retry_while_unavailable(read, "anything"))
    assert began == pytest.approx([0, 1, 3, 7, 11, 11 + retry.STEADY_S + 1 + 1], abs=1e-3)
    assert [entry["what"] for entry in logs] == ["anything", "anything"], "two outages"


def test_an_end_that_is_asked_for_cuts_the_pause_short_and_the_failure_is_raised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(retry, "PAUSES_S", (1000.0,))

    async def ended_after(seconds: float) -> float:
        end = asyncio.Event()
        asyncio.get_running_loop().call_later(seconds, end.set)
        with pytest.raises(TransientError):
            await retry_while_unavailable(AsyncMock(side_effect=TransientError("away")), "anything", until=end)
        return virtual_s()

    assert run_virtually(ended_after(3.0)) == pytest.approx(3.0, abs=1e-3)


async def test_a_cancellation_that_was_lost_before_the_work_began_does_not_end_its_retries() -> None:
    async def work() -> str:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.get_running_loop().create_future()
        answers = AsyncMock(side_effect=[KafkaConnectionError("away"), "appended"])
        return await retry_while_unavailable(answers, "what a call that was unwanted has cost")

    task = asyncio.ensure_future(work())
    await asyncio.sleep(0)
    task.cancel()
    assert await task == "appended"


async def test_a_worker_outlives_a_broker_that_is_away_while_its_partitions_are_loaded(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = itertools.count()

    class AwayAtFirst(KafkaLog):
        async def bounds(self, *args: Any, **more: Any) -> Any:
            if next(calls) < 2:
                raise KafkaConnectionError("Unable to bootstrap")
            return await super().bounds(*args, **more)

    monkeypatch.setattr("streams.runtime.projector.KafkaLog", AwayAtFirst)
    await world.publish(1, 2, 3)
    async with world.working(plain_registry(asks=False)):
        await world.until_closed(3)
    assert next(calls) > 2


async def test_a_gap_is_not_read_on_for_a_partition_that_was_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, never = asyncio.Event(), asyncio.Event()

    async def slow(*_: Any, **__: Any) -> Any:
        reading.set()
        await never.wait()
        yield

    monkeypatch.setattr("streams.journal.log.read_range", slow)
    monkeypatch.setattr(Projector, "_load", AsyncMock())
    projector, ending = projecting()
    projector.partitions[0] = part = Partition()
    part.waiting = None
    projector.on_record(SimpleNamespace(partition=0, offset=7))
    await reading.wait()
    (fill,) = projector._fills
    projector.assign(set(), MagicMock())
    await asyncio.wait([fill])
    await projector.stop()
    assert fill.cancelled()
    assert not ending.over


async def test_a_partition_that_is_taken_away_does_not_come_to_life_again_and_is_asked_for_nothing(
    world: World,
) -> None:
    await world.publish(1)
    async with world.working(plain_registry(asks=False)) as worker:
        await world.until_closed(1)
        ends = [worker.highwater(world.topics.cases, number) for number in range(2)]
        assert sum(end or 0 for end in ends) >= 6
        assert worker.highwater(world.topics.cases, 2) is None, "one that the consumer does not hold"
        await worker._on_revoked(worker.app, set())
        folded, started = worker.projector.folded, worker.dispatcher.steps_started
        case, _, value, headers = opening(2)
        await write(world, case, value, headers)
        await world.until(lambda: worker.projector.folded > folded)
        # Its new owner works on it from now on: what this worker started would be paid twice.
        assert worker.dispatcher.steps_started == started
        assert not any(p.live for p in worker.projector.partitions.values())
        del worker.projector.partitions[1]
        worker.dispatcher.let_go([1])
        assert worker.dispatcher.oldest_overdue_s(utc_now()) == 0.0


async def test_a_broker_that_was_away_is_no_stall_of_the_partitions_that_are_assigned_after_it() -> None:
    never_at_the_end = AsyncMock(return_value=False)
    projector: Any = SimpleNamespace(partitions={0: Partition()}, topic="cases", is_at_the_end=never_at_the_end)
    watchdog = Watchdog(projector, lambda _number: 10)
    assert [await watchdog.look(at, 0.0) for at in (0.0, 50.0)] == [None, None]
    watchdog.assigned()
    assert [await watchdog.look(at, 0.0) for at in (70.0, 130.0)] == [None, None]
    assert "cases-0 for a minute" in (await watchdog.look(131.0, 0.0) or "")


async def test_a_load_whose_cancellation_was_lost_in_a_closing_client_touches_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reading = asyncio.Event()

    async def closing(*_: Any, **__: Any) -> dict[Any, Any]:
        reading.set()
        with contextlib.suppress(asyncio.CancelledError):  # as aiokafka does, waiting for tasks of its own to end
            await asyncio.get_running_loop().create_future()
        return {}

    monkeypatch.setattr("streams.journal.log.offsets_of", closing)
    monkeypatch.setattr("streams.runtime.projector.committed_by", AsyncMock(return_value={}))
    projector, ending = projecting()
    projector.assign({0}, AsyncMock())
    await reading.wait()
    loading = projector._loading
    assert loading is not None
    projector.assign(set(), AsyncMock())
    await asyncio.wait([loading])
    await projector.stop()
    assert not loading.cancelled(), "the cancellation was lost"
    assert not ending.over


async def test_a_publisher_whose_broker_is_away_as_it_begins_to_lead_stands_by_and_tries_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    publisher = Publisher(KafkaAddress(bootstrap=""), Topics(""))
    final = TopicAuthorizationFailedError("signals")
    away = AsyncMock(side_effect=[TransientError("no Kafka broker answers", kind="unavailable"), final, None])
    monkeypatch.setattr(publisher, "_publish", away)
    await publisher._lead()
    assert away.await_count == 3 and not publisher.active


async def test_a_publisher_whose_client_fails_as_the_lease_is_lost_does_not_publish_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    publisher, began = Publisher(KafkaAddress(bootstrap=""), Topics("")), []

    async def closing_fails() -> None:
        began.append(True)
        if len(began) > 1:
            return
        publisher._lease.lost.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            raise KafkaConnectionError("away while it closes")

    async def take() -> None:
        publisher._lease.held = not began
        if began:
            publisher.stop()

    monkeypatch.setattr(publisher, "_publish", closing_fails)
    monkeypatch.setattr(publisher._lease, "take", take)
    await publisher._lease.lead(publisher._lead, publisher._stopped)
    assert began == [True]
