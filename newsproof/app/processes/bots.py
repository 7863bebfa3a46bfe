"""A bot as a process: built from its definition, acts until a signal. Halts, and the check of a destination."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import structlog
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
from schemas.deliveries import HaltLifted, HaltRequested
from schemas.errors import ConfigError
from schemas.topics import Topics
from streams.bots.delivery_runner import DeliveryRunner, OnSettled
from streams.bots.message_runner import MessageRunner
from streams.bots.runner import BotRunner
from streams.bots.writer import append_halt
from streams.effects.meter import Latencies
from streams.journal.appender import Appender
from streams.journal.clock import utc_now

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
    if settings.metrics_port is None:  # the page finds the process by it, on a free port of this machine
        settings = settings.model_copy(update={"metrics_port": 0})
    address, topics = address_of(settings), topics_of(settings)
    delays = Latencies()
    runner: DeliveryRunner
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


def bot_unready(runner: DeliveryRunner) -> dict[str, str]:
    """Return what the bot still waits for."""
    return (
        {} if runner.state == "running" else {"log": "reading its deliveries and the signals, or Kafka is unavailable"}
    )


class BotMetrics:
    """The collector of a bot. ``delays``: from signals' arrival to their requests."""

    def __init__(self, runner: DeliveryRunner, delays: Latencies) -> None:
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


async def halt(address: KafkaAddress, topics: Topics, bot: str | None, *, exit: bool, by: str) -> HaltRequested:
    """Forbid entries, and orders to people, of one bot or of all; with ``exit``, close their positions, too.

    Return the durable record.
    """
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
        ConfigError: the definition or the destination is wrong. TransientError: the destination does not respond.
    """
    bot = bot_of(settings, name)
    checked: dict[str, Any] = {"bot": name, "kind": bot.kind, "mode": bot.mode, "ready": True, "open_at_far_side": None}
    if KINDS[bot.kind].messages is not None:
        channel = message_adapter(bot, settings)
        try:
            await channel.check()
        finally:
            await channel.close()
        return checked
    adapter = order_adapter(bot, settings)
    try:
        await adapter.check()
        positions = await adapter.positions()
    finally:
        await adapter.close()
    open_there = None if positions is None else sum(position.is_open for position in positions.values())
    return checked | {"open_at_far_side": open_there}
