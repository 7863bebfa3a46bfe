"""The runner of a bot that sends messages: reads signals, writes what it is about to send, sends it, writes the result.

If the process is killed at any point, the next one finds in ``deliveries`` what was attempted. A retraction is sent until
the channel's answer is known. Any other message whose answer was lost is never sent again.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import structlog
from aiokafka import TopicPartition

from infra.bots.adapter import MessageAdapter, Result
from infra.bots.definition import BotDefinition
from infra.clickhouse.record import epoch_ms
from infra.kafka.topics import KafkaAddress
from infra.redaction import redacted
from schemas.deliveries import Attempted, DeliveryRecord, Outcome, Planned, Settled, known
from schemas.envelope import NewerSignalError, read_signal
from schemas.errors import ConfigError, ContractError, PermanentError
from schemas.signals import Signal
from schemas.topics import Topics
from streams.bots.book import Book
from streams.bots.messages import Note, Outbox, Pace, next_notes
from streams.bots.reports import Briefs, BudgetWatch, Report
from streams.bots.writer import DeliveryWriter
from streams.journal.clock import append_ms, utc_now
from streams.journal.log import Isolation, KafkaLog, starts_since
from streams.journal.retry import is_away, retry_while_unavailable

log = structlog.get_logger(__name__)

DAYS = 62
"""Age of the oldest order whose retraction is sent."""
IDLE_S = 1.0
BUDGET_EVERY_S = 60.0
SEND_WITHIN_S = 60.0
"""No adapter takes this long. Its result is unknown from then on."""
_COMMITTED: Isolation = "read_committed"
_OUTCOMES: dict[str, Outcome] = {
    "delivered": "delivered", "refused": "refused", "unknown": "unknown",
    "throttled": "skipped", "disabled": "skipped",
}  # fmt: skip
"""Result → what is recorded. A message that was surely not sent is skipped for now, and sent later."""
OnSettled = Callable[[Planned, Settled], None]


class MessageRunner:
    """One bot. ``book`` is the fold so far. ``settled``: (intent, outcome) → count since the start.

    ``on_settled`` is called after each result is durable, ``on_request`` before each first request with the seconds since
    its signal arrived.
    """

    def __init__(
        self,
        bot: BotDefinition,
        adapter: MessageAdapter,
        address: KafkaAddress,
        topics: Topics,
        *,
        page: str,
        clock: Callable[[], datetime] = utc_now,
        on_settled: OnSettled = lambda _planned, _settled: None,
        on_request: Callable[[float], None] = lambda _seconds: None,
    ) -> None:
        """``page``: the address of our page, with a slash at its end. Messages link to it and to nothing else."""
        self.bot = bot
        self.book = Book(bot.name)
        self.settled: Counter[tuple[str, str]] = Counter()
        self.state: Literal["starting", "running"] = "starting"
        self._adapter, self._address, self._topics, self._page, self._clock = adapter, address, topics, page, clock
        self._log, self._on_settled, self._on_request = KafkaLog(address), on_settled, on_request
        self._outbox = Outbox(bot, self.book, adapter.name)
        self._pace = Pace(adapter.rates)
        self._resume_at: datetime | None = None
        self._running: asyncio.Task[Any] | None = None

    async def run(self) -> None:
        """Send until :meth:`stop`, also while Kafka or the channel is unavailable.

        Raises:
            ConfigError: the channel does not know us, or another process of this bot has started.
            PermanentError: the channel accepts nothing until somebody corrects the settings.
            NewerRecordError, NewerSignalError: a topic holds a record of a newer version.
        """
        self._running = asyncio.current_task()
        try:
            await retry_while_unavailable(self._adapter.check, f"the channel of {self.bot.name}", unavailable=is_away)
            await retry_while_unavailable(self._follow, f"the bot {self.bot.name}", unavailable=is_away)
        finally:
            await self._adapter.close()

    def stop(self) -> None:
        """End at once."""
        if self._running is not None:
            self._running.cancel()

    async def _follow(self) -> None:
        self.state = "starting"
        writer = DeliveryWriter(self._address, self._topics, self.bot.name)
        try:
            await writer.start()
            await self._load_book()
            self._outbox = Outbox(self.bot, self.book, self._adapter.name)
            starts = await self._load_signals(writer)
            async with self._log.follow(starts, isolation=_COMMITTED, wait_ms=25) as cursor, self._reports() as reports:
                self.state = "running"
                while True:
                    for records in (await cursor.next(self._wait_s())).values():
                        await self._take(writer, records)
                    now = self._clock()
                    for report in await reports(now):
                        await self._append(writer, self._outbox.report(report, now))
                    await self._append(writer, self._outbox.expire(now))
                    await self._send_next(writer)
        finally:
            await writer.stop()

    async def _load_book(self) -> None:
        book, spans = Book(self.bot.name), await self._spans(self._topics.deliveries)
        async for _, records in self._log.replay(spans, isolation=_COMMITTED):
            for record in records:
                if (said := known(record.value)) is not None:  # the sink reports others
                    book.fold(int(append_ms(record)), said)
        self.book = book
        # Deliveries of one message were attempted at one time.
        sent = sorted({one.attempted_ms for one in book.deliveries.values() if one.n})
        self._pace = Pace(self._adapter.rates, (ms / 1000 for ms in sent))

    async def _load_signals(self, writer: DeliveryWriter) -> dict[TopicPartition, int]:
        """Apply all signals up to now, so that nothing is sent that a later revision takes back; return their end."""
        spans = await self._spans(self._topics.signals)
        if not spans:
            raise ConfigError(
                f"there is no topic {self._topics.signals}: start `newsproof up`, or create it with `newsproof topics create`, "
                "or correct NEWSPROOF_TOPIC_PREFIX"
            )
        async for _, records in self._log.replay(spans, isolation=_COMMITTED):
            await self._take(writer, records)
        return {tp: end for tp, (_, end) in spans.items()}

    @asynccontextmanager
    async def _reports(self) -> AsyncIterator[Callable[[datetime], Awaitable[list[Report]]]]:
        """Return what gets the new reports that the bot is to send."""
        language, wanted = self.bot.language, self.bot.send
        budget = BudgetWatch(self._address, self._topics, language) if "budget" in wanted else None
        read_at = datetime.min.replace(tzinfo=UTC)
        async with AsyncExitStack() as stack:
            briefs = None
            if "investigations" in wanted:
                following = Briefs.following(self._log, self._topics, language, self._clock())
                briefs = await stack.enter_async_context(following)

            async def new(now: datetime) -> list[Report]:
                nonlocal read_at
                found = [] if briefs is None else await briefs.new()
                if budget is not None and now - read_at > timedelta(seconds=BUDGET_EVERY_S):
                    read_at = now
                    found += await budget.new(now)
                return found

            yield new

    async def _spans(self, topic: str) -> dict[TopicPartition, tuple[int, int]]:
        firsts = await starts_since(self._log, topic, epoch_ms(self._clock() - timedelta(days=DAYS)))
        bounds = await self._log.bounds(topic, isolation=_COMMITTED)
        return {tp: (min(firsts[tp], end), end) for tp, (_, end) in bounds.items()}

    async def _take(self, writer: DeliveryWriter, records: Sequence[Any]) -> None:
        now = self._clock()
        signals = filter(None, map(_signal, records))
        await self._append(writer, [one for signal in signals for one in self._outbox.take(signal, now)])

    # Sending

    def _wait_s(self) -> float:
        """Return how long to wait for signals before the next message is due."""
        now, due = self._clock(), self._outbox.due(self._clock())
        if not due:
            return IDLE_S
        until = self._pace.wait_s(now.timestamp())
        if self._resume_at is not None:
            until = max(until, (self._resume_at - now).total_seconds())
        return min(max(until, 0.0), IDLE_S)

    async def _send_next(self, writer: DeliveryWriter) -> None:
        now = self._clock()
        due = self._outbox.due(now)
        is_paused = self._resume_at is not None and now < self._resume_at
        if not due or is_paused or self._pace.wait_s(now.timestamp()) > 0:
            return
        notes = next_notes(due, self._pace.room(now.timestamp()))
        message = self._outbox.message(notes, self._page)
        begun: list[DeliveryRecord] = [note.planned for note in notes if note.n == 0]
        for note in notes:
            note.n += 1
            begun.append(Attempted(delivery=note.planned.id, bot=self.bot.name, n=note.n))
        await self._append(writer, begun)
        self._pace.count(now.timestamp())
        for note in notes:
            if note.n == 1:
                self._on_request((now - note.planned.planned_at).total_seconds())
        try:
            async with asyncio.timeout(SEND_WITHIN_S):
                result = await self._adapter.send(message)
        except Exception as exc:  # an adapter never raises; if one does, nobody knows what it did
            log.exception("a message failed in an unforeseen way: report it", bot=self.bot.name)
            result = Result(outcome="unknown", reason=f"{type(exc).__name__}: {exc}")
        await self._settle(writer, notes, result, now)

    async def _settle(self, writer: DeliveryWriter, notes: Sequence[Note], result: Result, at: datetime) -> None:
        outcome = _OUTCOMES[result.outcome]
        reason = redacted(result.reason)[:500]
        if outcome != "delivered":
            log.error("a message was not sent" if outcome != "unknown" else "the answer to a message was lost",
                      bot=self.bot.name, channel=self._adapter.name, why=reason, messages=len(notes),
                      retractions=sum(note.urgent for note in notes))  # fmt: skip
        await self._append(
            writer,
            [
                Settled(
                    delivery=note.planned.id, bot=self.bot.name, outcome=outcome, remote_id=result.remote_id,
                    reason=f"sent later: {reason}" if outcome == "skipped" else reason,
                    seconds=(at - note.planned.planned_at).total_seconds(),
                )
                for note in notes
            ],
        )  # fmt: skip
        now = self._clock()
        for note in notes:
            self._outbox.settle(note, outcome, now)
        if result.outcome == "throttled":
            self._resume_at = now + timedelta(seconds=max(result.wait_s, IDLE_S))
        elif result.outcome == "disabled":
            raise PermanentError(reason, kind="refused")

    async def _append(self, writer: DeliveryWriter, records: Iterable[DeliveryRecord]) -> None:
        keyed = [(f"notify:{self._adapter.name}", record) for record in records]
        if not keyed:
            return
        await writer.append(keyed)
        now_ms = epoch_ms(self._clock())
        for _, record in keyed:
            self.book.fold(now_ms, record)
            if isinstance(record, Settled):
                self.settled["notify", record.outcome] += 1
                self._on_settled(self.book.deliveries[record.delivery].planned, record)


def _signal(record: Any) -> Signal | None:
    try:
        return read_signal(record)[0]
    except NewerSignalError:
        raise
    except ContractError as exc:
        log.warning("ignored: not a record of the topic of signals", why=str(exc))
        return None
