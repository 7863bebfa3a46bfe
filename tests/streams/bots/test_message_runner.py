"""A bot that sends messages, on a real broker and against a fake Telegram."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from infra.bots.definition import BotDefinition
from infra.bots.notify import message_adapter
from infra.kafka.topics import KafkaAddress
from newsproof.app.processes.bots import halt, resume
from schemas.deliveries import decode
from schemas.errors import PermanentError
from schemas.signals import Signal
from schemas.topics import Topics
from streams.bots import messages
from streams.bots.book import Book
from streams.bots.message_runner import MessageRunner
from streams.bots.reports import IN_A_ROW
from streams.journal.log import KafkaLog
from tests.conformance.channels.servers import TelegramServer
from tests.infra.fakes.server import HangUp, StaySilent
from tests.newsproof.signal_samples import signal, write_signals

BOT = BotDefinition(name="desk", kind="notify", channel="telegram", to="-1001", allow=("offline",))
PAGE = "http://127.0.0.1:8700/"


def now(name: str, **changes: Any) -> Signal:
    at = datetime.now(UTC)
    return signal(name, **{"decided_at": at, "valid_until": at + timedelta(days=1), "action": "buy", **changes})


@asynccontextmanager
async def running(
    address: KafkaAddress, topics: Topics, server: TelegramServer, bot: BotDefinition = BOT
) -> AsyncIterator[tuple[MessageRunner, asyncio.Task[None]]]:
    """Run the bot, and kill it at the end."""
    adapter = message_adapter(bot, (server.secret,))
    adapter.rates = ((100, 1.0),)  # type: ignore[misc]
    runner = MessageRunner(bot, adapter, address, topics, page=PAGE)
    task = asyncio.create_task(runner.run())
    try:
        yield runner, task
    finally:
        runner.stop()
        with suppress(asyncio.CancelledError, PermanentError):
            await task


async def until(ready: Callable[[], Any]) -> None:
    async with asyncio.timeout(30):
        while not ready():  # noqa: ASYNC110 - nothing tells when a server was asked
            await asyncio.sleep(0.01)


async def outcomes(address: KafkaAddress, topics: Topics) -> list[str]:
    book, log = Book("desk"), KafkaLog(address)
    bounds = await log.bounds(topics.deliveries, isolation="read_committed")
    async for _, records in log.replay(bounds, isolation="read_committed"):
        for record in records:
            book.fold(record.timestamp, decode(record.value))
    return [one.state for one in book.deliveries.values()]


def heads(server: TelegramServer) -> list[str]:
    return [text.partition(" · ")[0] for text in server.texts]


async def test_signals_reach_telegram_once_however_often_the_bot_is_killed(
    address: KafkaAddress, made_topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "REPEAT_AFTER_S", (0.1,))
    said: list[Any] = []

    def situation(server: Any, request: Any) -> Any:
        return said.pop(0) if said and request.method == "POST" else server.answer(request)

    async with TelegramServer(situation) as server:
        await write_signals(address, made_topics, now("a"), now("b", action="observe", verdict="disputed"))
        async with running(address, made_topics, server) as (runner, _):
            await until(lambda: runner.settled["notify", "delivered"] == 1)
        text = server.texts[0]
        assert text.startswith("BUY BTC · hack · confirmed") and text.endswith(f"{PAGE}case/{now('a').case_id}")
        # The bot is killed while the request of a retraction is under way.
        said.append(StaySilent())
        asked = len(server.requests)
        await write_signals(address, made_topics, now("a", revision=2, verdict="disputed", action="observe"))
        async with running(address, made_topics, server):
            await until(lambda: sum(r.method == "POST" for r in server.requests[asked:]) == 1)
        # The answer is lost again. An order does not wait for the pause after that.
        said.append(HangUp())
        await write_signals(address, made_topics, now("c"))
        async with running(address, made_topics, server) as (runner, _):
            await until(lambda: runner.settled["notify", "unknown"] == 1 and runner.settled["notify", "delivered"] == 2)
            await write_signals(address, made_topics, now("d"))
            await until(lambda: runner.settled["notify", "delivered"] == 3)
    again = "(sent again: the first answer was lost) RETRACTED: BUY BTC"
    assert sorted(heads(server)) == [again, "BUY BTC", "BUY BTC", "BUY BTC"]
    assert await outcomes(address, made_topics) == ["delivered"] * 4


async def test_a_wrong_token_stops_the_bot_and_nothing_is_lost(address: KafkaAddress, made_topics: Topics) -> None:
    async with TelegramServer(
        lambda s, r: s.answer(r) if r.method == "GET" else s.error(401, "Unauthorized")
    ) as server:
        await write_signals(address, made_topics, now("a"))
        async with running(address, made_topics, server) as (_, task):
            with pytest.raises(PermanentError, match="correct BOT_SECRET_DESK"):
                await task
        server._situation = lambda s, r: s.answer(r)
        async with running(address, made_topics, server) as (runner, _):
            await until(lambda: runner.settled["notify", "delivered"] == 1)
    assert (heads(server), await outcomes(address, made_topics)) == (["BUY BTC"], ["delivered"])


async def test_a_halt_stops_orders_also_of_the_next_process_while_retractions_and_outages_are_sent(
    address: KafkaAddress, made_topics: Topics
) -> None:
    bot = replace(BOT, send=("orders", "outages"))
    async with TelegramServer(lambda s, r: s.answer(r)) as server:
        await write_signals(address, made_topics, now("a"))
        async with running(address, made_topics, server, bot) as (runner, _):
            await until(lambda: runner.settled["notify", "delivered"] == 1)
            await halt(address, made_topics, None, exit=False, by="ann")
            await until(lambda: runner.book.halt_of("desk") is not None)
            await write_signals(address, made_topics, now("b"))
            await until(lambda: runner.settled["notify", "skipped"] == 1)
        async with running(address, made_topics, server, bot) as (runner, _):
            failed = {"verdict": "unchecked", "action": "observe", "unchecked_reason": "search_failed:timeout"}
            gone = now("a", revision=2, verdict="disputed", action="observe", unchecked_reason=None)
            await write_signals(address, made_topics, now("c"), gone)
            await until(lambda: runner.settled == {("notify", "skipped"): 1, ("notify", "delivered"): 1})
            await write_signals(address, made_topics, *(now(f"failed {n}", **failed) for n in range(IN_A_ROW)))
            await until(lambda: runner.settled["notify", "delivered"] == 2)
            await resume(address, made_topics, None, by="ann")
            await until(lambda: runner.book.halt_of("desk") is None)
            await write_signals(address, made_topics, now("d"))
            await until(lambda: runner.settled["notify", "delivered"] == 3)
    assert heads(server)[:2] == ["BUY BTC", "RETRACTED: BUY BTC"] and heads(server)[3:] == ["BUY BTC"]
    assert heads(server)[2].startswith("VERIFICATION FAILS")
