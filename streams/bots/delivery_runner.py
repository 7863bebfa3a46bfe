"""The part of a runner that bots of every kind share: what they read, how they record, and when they end."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime, timedelta
from typing import Any, Literal, TypedDict, Unpack

import structlog
from aiokafka import TopicPartition

from infra.bots.adapter import MessageAdapter, OrderAdapter, Result
from infra.bots.definition import BotDefinition
from infra.clickhouse.record import epoch_ms
from infra.kafka.topics import KafkaAddress
from schemas.deliveries import Attempted, DeliveryRecord, HaltLifted, HaltRequested, Planned, Settled, decode
from schemas.envelope import NewerSignalError, read_signal
from schemas.errors import ConfigError, ContractError
from schemas.signals import Signal
from schemas.topics import NewerRecordError, Topics
from streams.bots.book import Book
from streams.bots.writer import DeliveryWriter
from streams.journal.clock import append_ms, utc_now
from streams.journal.log import Isolation, KafkaLog, starts_since
from streams.journal.retry import is_away, retry_while_unavailable

log = structlog.get_logger(__name__)

DELIVERY_DAYS = 62
"""Age of the oldest delivery that is read."""
REQUEST_WITHIN_S = 60.0
"""No adapter takes this long. Its result is unknown from then on."""
COMMITTED: Isolation = "read_committed"
OnSettled = Callable[[Planned, Settled], None]


class Observers(TypedDict, total=False):
    """``on_settled`` is called after each result is durable, ``on_request`` with the seconds from a signal's arrival to its
    first request. ``clock``: the time (UTC)."""

    clock: Callable[[], datetime]
    on_settled: OnSettled
    on_request: Callable[[float], None]


class DeliveryRunner:
    """One bot. ``book`` is the fold so far. ``settled``: (intent, outcome) → count since the start. ``ignored``: records
    that are none of their topic."""

    def __init__(
        self,
        bot: BotDefinition,
        far_side: OrderAdapter | MessageAdapter,
        address: KafkaAddress,
        topics: Topics,
        **observers: Unpack[Observers],
    ) -> None:
        self.bot = bot
        self.book = Book(bot.name)
        self.settled: Counter[tuple[str, str]] = Counter()
        self.ignored = 0
        self.state: Literal["starting", "running"] = "starting"
        self._far_side, self._topics, self._log = far_side, topics, KafkaLog(address)
        self._address = address
        self._clock = observers.get("clock", utc_now)
        self._on_settled: OnSettled = observers.get("on_settled") or (lambda _planned, _settled: None)
        self._on_request: Callable[[float], None] = observers.get("on_request") or (lambda _seconds: None)
        self._running: asyncio.Task[Any] | None = None
        self._ending = False

    async def run(self) -> None:
        """Act until :meth:`stop`, also while Kafka or the destination is unavailable.

        Raises:
            ConfigError: the destination is not what the definition says, another process of this bot has started, or
                live positions of another kind are open.
            PermanentError: the destination wants no more requests, or none until somebody corrects the settings.
            NewerRecordError, NewerSignalError: a topic holds a record of a newer version.
        """
        self._running = asyncio.current_task()
        if self._ending:
            return
        try:
            await retry_while_unavailable(
                self._far_side.check, f"the destination of {self.bot.name}", unavailable=is_away
            )
            await retry_while_unavailable(self._follow, f"the bot {self.bot.name}", unavailable=is_away)
        finally:
            await self._end()

    def stop(self) -> None:
        """End at once."""
        self._ending = True
        if self._running is not None:
            self._running.cancel()

    async def _end(self) -> None:
        await self._far_side.close()

    async def _follow(self) -> None:
        self.state = "starting"
        writer = DeliveryWriter(self._address, self._topics, self.bot.name)
        try:
            await writer.start()
            await self._act(writer)
        finally:
            await writer.stop()

    async def _act(self, writer: DeliveryWriter) -> None:
        """Read the log, then follow it; ``writer`` has stopped earlier processes of this bot."""
        raise NotImplementedError

    # What is read

    async def _fold_deliveries(self, *books: Book) -> dict[TopicPartition, int]:
        """Fold the bot's deliveries, and halts, into these books; return where to follow halts from."""
        topic, since = self._topics.deliveries, self._clock() - timedelta(days=DELIVERY_DAYS)
        firsts = await starts_since(self._log, topic, epoch_ms(since))
        ends = {tp: end for tp, (_, end) in (await self._log.bounds(topic)).items()}
        spans = {tp: (firsts[tp], end) for tp, end in ends.items()}
        async for _, records in self._log.replay(spans, isolation=COMMITTED):
            for record in records:
                if (change := self._decoded(record)) is not None:
                    for book in books:
                        book.fold(int(append_ms(record)), change)
        return ends

    async def _renew_halts(self, writer: DeliveryWriter) -> None:
        """Write old halts again, so that none is ever too old to be read."""
        old_ms = epoch_ms(self._clock() - timedelta(days=DELIVERY_DAYS / 2))
        if old := [halt for bot, halt in self.book.halts.items() if self.book.halted_ms[bot] < old_ms]:
            await writer.append([("", halt) for halt in old])

    def _take_halts(self, records: Iterable[Any]) -> bool:
        """Fold the halts among these records; return whether any changes something. Deliveries are folded as they are written."""
        is_changed = False
        for record in records:
            halt = self._decoded(record)
            if isinstance(halt, HaltRequested | HaltLifted):
                is_changed = self.book.fold(int(append_ms(record)), halt) or is_changed
                if halt.bot in (None, self.bot.name):
                    event = "halted" if isinstance(halt, HaltRequested) else "halt lifted"
                    log.warning(event, bot=halt.bot or "all bots", by=halt.by)
        return is_changed

    async def _signal_spans(self, since: datetime) -> dict[TopicPartition, tuple[int, int]]:
        """Return the places of the signals that were published since then (UTC), up to now.

        Raises:
            ConfigError: there is no topic of signals.
        """
        firsts = await starts_since(self._log, self._topics.signals, epoch_ms(since))
        bounds = await self._log.bounds(self._topics.signals, isolation=COMMITTED)
        if not bounds:
            raise ConfigError(
                f"there is no topic {self._topics.signals}: start `newsproof up`, or create it with `newsproof topics create`, "
                "or correct NEWSPROOF_TOPIC_PREFIX"
            )
        return {tp: (min(firsts[tp], end), end) for tp, (_, end) in bounds.items()}

    def _signal(self, record: Any) -> Signal | None:
        try:
            return read_signal(record)[0]
        except NewerSignalError:
            raise
        except ContractError as exc:
            self._ignore("signals", exc)
            return None

    def _decoded(self, record: Any) -> DeliveryRecord | None:
        try:
            return decode(record.value)
        except NewerRecordError:
            raise
        except ContractError as exc:
            self._ignore("deliveries", exc)
            return None

    def _ignore(self, topic: str, exc: ContractError) -> None:
        self.ignored += 1
        if self.ignored & (self.ignored - 1) == 0:  # the 1st, 2nd, 4th …: a flood must not fill the log
            log.warning("ignored: not a record of this topic", topic=topic, why=str(exc), so_far=self.ignored)

    # What is done

    async def _result_of(self, request: Awaitable[Result]) -> Result:
        """Return the destination's result of one request; unknown if it takes too long or fails in an unforeseen way."""
        try:
            async with asyncio.timeout(REQUEST_WITHIN_S):
                return await request
        except Exception as exc:  # an adapter never raises; if one does, nobody knows what it did
            log.exception("a request failed unexpectedly: report this error", bot=self.bot.name)
            return Result(outcome="unknown", reason=f"{type(exc).__name__}: {exc}")

    async def _append(self, writer: DeliveryWriter, records: Iterable[DeliveryRecord]) -> None:
        """Write the records of this bot's deliveries in one transaction; fold them once they are durable."""
        new: dict[str, Planned] = {}
        keyed = []
        for record in records:
            if isinstance(record, Planned):
                new[record.id] = record
            if isinstance(record, Planned | Attempted | Settled):
                id = record.id if isinstance(record, Planned) else record.delivery
                planned = new.get(id) or self.book.deliveries[id].planned
                keyed.append((f"{planned.adapter}:{planned.instrument}", record))
        if not keyed:
            return
        await writer.append(keyed)
        at_ms = self._now_ms()
        for _, record in keyed:
            self.book.fold(at_ms, record)
            if isinstance(record, Settled):
                of = self.book.deliveries[record.delivery].planned
                self.settled[of.intent, record.outcome] += 1
                self._on_settled(of, record)

    def _now_ms(self) -> int:
        return epoch_ms(self._clock())
