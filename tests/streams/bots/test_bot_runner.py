"""A bot on the real log: what it reads, how soon it acts, and which of two processes may."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from msgspec.structs import replace

from infra.bots.adapter import Order, RemotePosition, Result
from infra.kafka.topics import KafkaAddress, offsets_of
from newsproof.app.processes.bots import BotMetrics, bot_unready, halt, resume
from newsproof.app.processes.bots_view import read_book
from schemas.errors import ConfigError, NewsproofError, PermanentError, TransientError
from schemas.signals import Signal
from schemas.topics import NewerRecordError, Topics
from streams.bots import writer
from streams.bots.runner import BotRunner
from streams.effects.meter import Latencies
from tests.newsproof.signal_samples import signal, write_signals
from tests.streams.bots.bot_process import ASSETS, BOT

RETRACTED = {"stage": "retracted", "action": "observe", "verdict": "refuted", "confidence": 0.0}


class FarSide:
    """Does what it is asked, or answers with the results that it is given."""

    def __init__(self, *results: Result) -> None:
        self.orders: list[tuple[str, str, float]] = []
        self._results, self.closed, self.stops = list(results), False, 0

    async def check(self) -> None: ...

    async def positions(self) -> Mapping[str, RemotePosition] | None:
        return None

    async def perform(self, order: Order) -> Result:
        self.orders.append((order.intent, order.instrument, time.monotonic()))
        return self._results.pop(0) if self._results else Result(outcome="delivered")

    async def until_sent(self, count: int) -> float:
        """Wait until it has had this many orders; return the seconds."""
        return await until(lambda: len(self.orders) == count)

    async def stop_entries(self) -> None:
        self.stops += 1
        raise TransientError("it does not answer")  # the bot goes on without

    async def close(self) -> None:
        self.closed = True


def order(n: int, **changes: Any) -> Signal:
    now = datetime.now(UTC)
    live = {"provider_mode": "live", "risk_flags": (), "action": "buy", "asset": ASSETS[n]}
    times = {"published_at": now, "decided_at": now, "valid_until": now + timedelta(days=1)}
    return signal(f"order {n}", **{**live, **times, **changes})


@asynccontextmanager
async def running(address: KafkaAddress, topics: Topics, far: FarSide, **more: Any) -> AsyncIterator[BotRunner]:
    runner = BotRunner(more.pop("bot", BOT), far, address, topics, **more)
    task = asyncio.create_task(runner.run())
    try:
        await until(lambda: runner.state == "running" or task.done())
        yield runner
        if task.done():
            await task
    finally:
        runner.stop()
        with suppress(asyncio.CancelledError, NewsproofError):
            await task
        assert far.closed


async def until(has: Callable[[], bool], within_s: float = 60.0) -> float:
    began = time.monotonic()
    while not has():
        assert time.monotonic() < began + within_s
        await asyncio.sleep(0.001)
    return time.monotonic() - began


async def test_a_bot_enters_exits_and_halts_in_time(address: KafkaAddress, made_topics: Topics) -> None:
    far, topics = FarSide(), made_topics
    delays = Latencies()
    async with running(address, topics, far, on_request=delays.add) as runner:
        producer = address.producer()
        await producer.start()
        await producer.send_and_wait(topics.signals, b"{}", partition=0)  # a stranger's record
        await producer.send_and_wait(topics.deliveries, b"{}", partition=0)
        await producer.stop()
        await write_signals(address, topics, order(0), order(1))
        await until(lambda: len(far.orders) == 2)
        assert runner.ignored == 2
        await write_signals(address, topics, order(0, revision=2, **RETRACTED))
        await until(lambda: len(far.orders) == 3)
        await halt(address, topics, None, exit=True, by="ann")
        await until(lambda: len(far.orders) == 4)
        assert far.stops == 1
        await write_signals(address, topics, order(2))
        await until(lambda: runner.settled["enter", "skipped"] == 1)
        await resume(address, topics, None, by="ann")
        await until(lambda: runner.book.halt_of(BOT.name) is None)
        await write_signals(address, topics, order(3, valid_until=datetime.now(UTC) + timedelta(seconds=1)))
        await until(lambda: len(far.orders) == 6)  # the clock ends it
        assert [(intent, instrument) for intent, instrument, _ in far.orders] == [
            ("enter", "A0/USDT"), ("enter", "A1/USDT"), ("exit", "A0/USDT"), ("exit", "A1/USDT"),
            ("enter", "A3/USDT"), ("exit", "A3/USDT"),
        ]  # fmt: skip
        await until(lambda: runner.settled["exit", "delivered"] == 3)
        assert bot_unready(runner) == {}
        metrics = {
            (sample.name, *sample.labels.values()): sample.value
            for one in BotMetrics(runner, delays).collect()
            for sample in one.samples
        }
        assert metrics["newsproof_bot_deliveries_total", "tried", "enter", "delivered"] == 3
        assert metrics["newsproof_bot_open_positions", "tried"] == metrics["newsproof_bot_halted", "tried"] == 0
    told = (await read_book(address, topics)).deliveries.values()
    assert {(one.planned.reason, one.outcome) for one in told if one.planned.intent == "exit"} >= {
        ("retracted", "delivered"), ("halt requested by ann", "delivered"),
    }  # fmt: skip


async def test_an_exit_is_soon_sent(address: KafkaAddress, made_topics: Topics) -> None:
    """Within a second of a retraction, within two of a halt: the quickest of three, since a busy machine lets any one wait."""
    far, retracted, halted = FarSide(), list[float](), list[float]()
    async with running(address, made_topics, far) as runner:
        for n in range(3):
            await write_signals(address, made_topics, order(2 * n), order(2 * n + 1))
            await far.until_sent(4 * n + 2)
            await write_signals(address, made_topics, order(2 * n, revision=2, **RETRACTED))
            retracted.append(await far.until_sent(4 * n + 3))
            await halt(address, made_topics, None, exit=True, by="ann")
            halted.append(await far.until_sent(4 * n + 4))
            await resume(address, made_topics, None, by="ann")
            await until(lambda: runner.book.halt_of(BOT.name) is None)
    assert min(retracted) <= 1.0, retracted
    assert min(halted) <= 2.0, halted


async def test_the_second_process_of_a_bot_stops_the_first_and_knows_what_it_did(
    address: KafkaAddress, made_topics: Topics
) -> None:
    first, second = FarSide(Result(outcome="unknown", reason="no answer")), FarSide()
    with pytest.raises(ConfigError, match="another process of the bot tried has started"):
        async with running(address, made_topics, first):
            await write_signals(address, made_topics, order(0))
            await until(lambda: len(first.orders) == 1)
            async with running(address, made_topics, second) as runner:
                await write_signals(address, made_topics, order(1))
                await until(lambda: len(second.orders) == 1)
                await halt(address, made_topics, "tried", exit=True, by="ann")
                await until(lambda: runner.settled["exit", "delivered"] == 2)
            await write_signals(address, made_topics, order(2))  # the first notices with its next transaction
            await until(lambda: first.closed)
    assert sorted(intent for intent, *_ in second.orders) == ["enter", "exit", "exit"]
    assert len(first.orders) == 1


async def test_a_bot_that_stood_still_in_a_transaction_goes_on_and_sends_the_entry_once(
    address: KafkaAddress, made_topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a laptop slept: the broker has aborted the transaction and fenced its producer, and nobody else runs this bot."""
    monkeypatch.setattr(writer, "TRANSACTION_TIMEOUT_MS", 1000)
    commit, stood_still = AIOKafkaProducer.commit_transaction, list[str]()

    async def commit_late(producer: AIOKafkaProducer) -> None:
        id = producer._txn_manager.transactional_id
        if id == made_topics.transactional_id(f"bots-{BOT.name}") and not stood_still:
            stood_still.append(id)
            open_from, ends = {}, {True: True}
            while open_from != ends:  # the broker has not aborted it
                open_from = await offsets_of(address, made_topics.deliveries, isolation_level="read_committed")
                ends = await offsets_of(address, made_topics.deliveries)
        await commit(producer)

    monkeypatch.setattr(AIOKafkaProducer, "commit_transaction", commit_late)
    far = FarSide()
    async with running(address, made_topics, far) as runner:
        await write_signals(address, made_topics, order(0))
        await until(lambda: runner.settled["enter", "delivered"] == 1)
        await write_signals(address, made_topics, order(1))
        await until(lambda: runner.settled["enter", "delivered"] == 2)
    assert stood_still and len(far.orders) == 2


class SlowFarSide(FarSide):
    """Answers when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.answers = asyncio.Event()

    async def perform(self, order: Order) -> Result:
        result = await super().perform(order)
        await self.answers.wait()
        return result


async def test_a_request_under_way_is_settled_before_the_bot_ends(address: KafkaAddress, made_topics: Topics) -> None:
    far = SlowFarSide()
    async with running(address, made_topics, far) as runner:
        await write_signals(address, made_topics, order(0))
        await until(lambda: len(far.orders) == 1)
        runner.stop()
        far.answers.set()
    (only,) = (await read_book(address, made_topics)).deliveries.values()
    assert only.outcome == "delivered"


async def test_a_far_side_that_wants_no_more_ends_the_bot(address: KafkaAddress, made_topics: Topics) -> None:
    far = FarSide(Result(outcome="disabled", reason="410: gone"))
    with pytest.raises(PermanentError, match="refuses all further requests"):
        async with running(address, made_topics, far):
            await write_signals(address, made_topics, order(0))
            await until(lambda: far.closed)
    (only,) = (await read_book(address, made_topics)).deliveries.values()
    assert only.outcome == "refused"


async def test_a_delivery_of_newer_code_stops_the_bot(address: KafkaAddress, made_topics: Topics) -> None:
    with pytest.raises(NewerRecordError, match="deploy"):
        async with running(address, made_topics, far := FarSide()):
            async with address.producer() as producer:
                newer = b'{"type":"newsproof.delivery_resized","version":2}'
                await producer.send_and_wait(made_topics.deliveries, newer, partition=0)
            await until(lambda: far.closed)


async def test_open_live_positions_of_another_kind_refuse_the_start(address: KafkaAddress, made_topics: Topics) -> None:
    async with running(address, made_topics, FarSide()) as runner:
        await write_signals(address, made_topics, order(0))
        await until(lambda: len(runner.book.positions()) == 1 and runner.settled.total() == 1)
    with pytest.raises(
        ConfigError, match="1 open positions of kind webhook in mode live, which this definition would not close"
    ):
        async with running(address, made_topics, FarSide(), bot=replace(BOT, mode="paper")):
            pass
