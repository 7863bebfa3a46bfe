"""A bot as a process: built from its definition, acts until a signal. And what bots hold, for those who ask."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import msgspec
import structlog
from aiokafka import TopicPartition
from prometheus_client.core import HistogramMetricFamily, Metric

from infra.bots.definition import BotDefinition, read_bots
from infra.bots.table import KINDS, message_adapter, order_adapter
from infra.clickhouse.record import epoch_ms
from infra.kafka.topics import KafkaAddress
from infra.settings import Settings
from newsproof.app.composition import address_of, prepare_topics, topics_of
from newsproof.app.processes.health import serve_health
from newsproof.app.processes.lifecycle import run_until, shutdown_on_signal
from newsproof.app.processes.metrics import build_info, counter, gauge, histogram_of
from schemas.deliveries import HaltLifted, HaltRequested, known
from schemas.errors import ConfigError
from schemas.topics import Topics
from streams.bots.book import Book
from streams.bots.message_runner import MessageRunner
from streams.bots.runner import DELIVERY_DAYS, BotRunner, OnSettled
from streams.bots.writer import append_halt
from streams.effects.meter import Latencies
from streams.journal.appender import Appender
from streams.journal.clock import append_ms, utc_now
from streams.journal.log import KafkaLog, starts_since

log = structlog.get_logger(__name__)


def bots_of(settings: Settings) -> dict[str, BotDefinition]:
    """Return the defined bots by name.

    Raises:
        ConfigError: as :func:`infra.bots.definition.read_bots`.
    """
    return read_bots(settings.bots_file, tuple(KINDS))


def bot_of(settings: Settings, name: str) -> BotDefinition:
    """Return one defined bot.

    Raises:
        ConfigError: there is none of this name, or as :func:`bots_of`.
    """
    bots = bots_of(settings)
    if name not in bots:
        raise ConfigError(
            f"{settings.bots_file} defines no bot {name!r:.60}: write one of {', '.join(bots) or 'none yet'}"
        )
    return bots[name]


async def run_bot(settings: Settings, name: str, *, on_settled: OnSettled) -> None:
    """Act for one bot until SIGINT or SIGTERM.

    Raises:
        NewsproofError: an error that a person must fix.
    """
    signalled = shutdown_on_signal()
    bot = bot_of(settings, name)
    address, topics = address_of(settings), topics_of(settings)
    delays = Latencies()
    runner: BotRunner | MessageRunner
    if KINDS[bot.kind].messages is None:
        adapter = order_adapter(bot, settings)
        runner = BotRunner(bot, adapter, address, topics, on_settled=on_settled, on_request=delays.add)
    else:
        page = (settings.bots_page_url or settings.page_at(settings.web_port)).rstrip("/") + "/"
        channel = message_adapter(bot, settings)
        runner = MessageRunner(bot, channel, address, topics, page=page, on_settled=on_settled, on_request=delays.add)
    await prepare_topics(settings)
    serve_health(settings, BotMetrics(runner, delays), lambda: bot_unready(runner), kind="bot", name=f"bot-{name}")
    log.info("bot starts", bot=name, kind=bot.kind, mode=bot.mode)
    await run_until(signalled, (runner.run, runner.stop))
    log.info("bot ended in order", bot=name)


def bot_unready(runner: BotRunner | MessageRunner) -> dict[str, str]:
    """Return what the bot still waits for."""
    return (
        {} if runner.state == "running" else {"log": "its deliveries and the signals are being read, or Kafka is away"}
    )


class BotMetrics:
    """The collector of a bot. ``delays``: from signals' arrival to their requests."""

    def __init__(self, runner: BotRunner | MessageRunner, delays: Latencies) -> None:
        self._runner, self._delays = runner, delays

    def collect(self) -> Iterator[Metric]:
        """Yield the present metrics."""
        runner, book, bot = self._runner, self._runner.book, self._runner.bot.name
        yield build_info()
        settled = {(bot, *of): count for of, count in list(runner.settled.items())}
        yield counter("newsproof_bot_deliveries", "Results of deliveries", ("bot", "intent", "outcome"), settled)
        pending, now_ms = book.pending_exits(), epoch_ms(utc_now())
        oldest_s = max((max(0, now_ms - exit.planned_ms) / 1000 for exit in pending), default=0.0)
        for name, text, value in (
            ("newsproof_bot_open_positions", "Positions that are open, or may be", len(book.positions())),
            ("newsproof_bot_pending_exits", "Exits that the destination has not confirmed", len(pending)),
            (
                "newsproof_bot_oldest_pending_exit_seconds",
                "Age of the oldest exit that the destination has not confirmed; 0: there is none",
                oldest_s,
            ),
            ("newsproof_bot_halted", "1 while a halt forbids entries", book.halt_of(bot) is not None),
        ):
            yield gauge(name, text, ("bot",), {bot: value})
        delays = HistogramMetricFamily(
            "newsproof_bot_request_delay_seconds", "From a signal's arrival to its request", labels=("bot",)
        )
        delays.add_metric((bot,), *histogram_of(self._delays))
        yield delays


# What people ask and say


class BotView(msgspec.Struct, frozen=True, kw_only=True):
    """One bot for people. ``open``: positions that are open or may be; ``pending_exits``: not confirmed exits.

    ``halted_by`` is None unless a halt holds it; ``halt_exits``: that halt closes positions. ``entries_today``: of this
    UTC day.
    """

    name: str
    kind: str
    mode: Literal["paper", "live"]
    open: int
    pending_exits: int
    entries_today: int
    halted_by: str | None
    halt_exits: bool


class DeliveryBook:
    """The fold of the deliveries of one bot, or of all, for those who look. Each reading continues from the last.

    ``keep``: as of :meth:`streams.bots.book.Book.forget`; None forgets nothing.
    """

    def __init__(
        self, address: KafkaAddress, topics: Topics, bot: str | None = None, *, keep: int | None = None
    ) -> None:
        self._log, self._topic, self._book, self._keep = KafkaLog(address), topics.deliveries, Book(bot), keep
        self._next: dict[TopicPartition, int] = {}
        self._reading = asyncio.Lock()

    async def read(self) -> Book:
        """Return the book up to the present end."""
        async with self._reading:
            bounds = await self._log.bounds(self._topic, isolation="read_committed")
            if not self._next:
                since = epoch_ms(utc_now() - timedelta(days=DELIVERY_DAYS))
                self._next = await starts_since(self._log, self._topic, since)
            spans = {tp: (min(self._next.get(tp, 0), end), end) for tp, (_, end) in bounds.items()}
            async for tp, records in self._log.replay(spans, isolation="read_committed"):
                for record in records:
                    if (said := known(record.value)) is not None:  # the bots log others
                        self._book.fold(int(append_ms(record)), said)
                    self._next[tp] = record.offset + 1
                if self._keep is not None:
                    self._book.forget(self._keep)
            return self._book


async def read_book(address: KafkaAddress, topics: Topics, bot: str | None = None) -> Book:
    """Return the fold of the deliveries of one bot, or of all, up to the present end."""
    return await DeliveryBook(address, topics, bot).read()


async def views(settings: Settings, address: KafkaAddress, topics: Topics) -> list[BotView]:
    """Return every defined bot, in the file's order."""
    today = int(datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0).timestamp() * 1000)
    found = []
    for bot in bots_of(settings).values():
        book = await read_book(address, topics, bot.name)
        halt = book.halt_of(bot.name)
        found.append(
            BotView(
                name=bot.name,
                kind=bot.kind,
                mode=bot.mode,
                open=len(book.positions()),
                pending_exits=len(book.pending_exits()),
                entries_today=book.entered(today),
                halted_by=None if halt is None else halt.by,
                halt_exits=halt is not None and halt.exit,
            )
        )
    return found


async def halt(address: KafkaAddress, topics: Topics, bot: str | None, *, exit: bool, by: str) -> HaltRequested:
    """Forbid entries of one bot, or of all; with ``exit``, close their positions, too. Return the durable record."""
    record = HaltRequested(id=str(uuid.uuid4()), bot=bot, exit=exit, by=by)
    await _append(address, topics, record)
    return record


async def resume(address: KafkaAddress, topics: Topics, bot: str | None, *, by: str) -> HaltLifted:
    """End the halt of one bot, or all halts. Return the durable record."""
    record = HaltLifted(id=str(uuid.uuid4()), bot=bot, by=by)
    await _append(address, topics, record)
    return record


async def _append(address: KafkaAddress, topics: Topics, record: HaltRequested | HaltLifted) -> None:
    appender = Appender(address, client_id="newsproof-halt")
    await appender.start()
    try:
        await append_halt(appender, topics, record)
    finally:
        await appender.stop()


async def check_bot(settings: Settings, name: str) -> dict[str, Any]:
    """Ask a bot's destination whether it is ready, and return what it has. Sends no order and no message.

    Raises:
        ConfigError: the definition or the destination is wrong. TransientError: the destination does not answer.
    """
    bot = bot_of(settings, name)
    found: dict[str, Any] = {"bot": name, "kind": bot.kind, "mode": bot.mode, "ready": True, "open_at_far_side": None}
    if KINDS[bot.kind].messages is not None:
        channel = message_adapter(bot, settings)
        try:
            await channel.check()
        finally:
            await channel.close()
        return found
    adapter = order_adapter(bot, settings)
    try:
        await adapter.check()
        positions = await adapter.positions()
    finally:
        await adapter.close()
    open_there = None if positions is None else sum(one.is_open for one in positions.values())
    return found | {"open_at_far_side": open_there}
