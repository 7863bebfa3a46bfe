"""The runner of a bot that sends messages: reads signals, writes what it is about to send, sends it, writes the result.

If the process is killed at any point, the next one finds in ``deliveries`` what was attempted. A retraction is sent until
the channel's answer is known. Any other message whose answer was lost is never sent again.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Unpack

import structlog
from aiokafka import TopicPartition

from infra.bots.adapter import MessageAdapter, Result
from infra.bots.definition import BotDefinition
from infra.kafka.topics import KafkaAddress
from infra.redaction import redacted
from schemas.deliveries import Attempted, DeliveryRecord, Outcome, Settled
from schemas.errors import PermanentError
from schemas.topics import Topics
from streams.bots.book import Book
from streams.bots.delivery_runner import COMMITTED, DELIVERY_DAYS, DeliveryRunner, Observers
from streams.bots.messages import Note, Outbox, Pace, next_notes
from streams.bots.reports import Briefs, BudgetWatch, OutageWatch, Report
from streams.bots.writer import DeliveryWriter

log = structlog.get_logger(__name__)

IDLE_S = 1.0
BUDGET_EVERY_S = 60.0
_OUTCOMES: dict[str, Outcome] = {
    "delivered": "delivered", "refused": "refused", "unknown": "unknown",
    "throttled": "skipped", "disabled": "skipped",
}  # fmt: skip
"""Result → what is recorded. A message that was surely not sent is skipped for now, and sent later."""


class MessageRunner(DeliveryRunner):
    """One bot that sends messages."""

    def __init__(
        self,
        bot: BotDefinition,
        adapter: MessageAdapter,
        address: KafkaAddress,
        topics: Topics,
        *,
        page: str,
        **observers: Unpack[Observers],
    ) -> None:
        """``page``: the address of our page, with a slash at its end. Messages link to it and to nothing else."""
        super().__init__(bot, adapter, address, topics, **observers)
        self._adapter, self._page = adapter, page
        self._outbox = Outbox(bot, self.book, adapter.name)
        self._pace = Pace(adapter.rates)
        self._outages = OutageWatch(bot.language)
        self._resume_at: datetime | None = None

    async def _act(self, writer: DeliveryWriter) -> None:
        halts_from = await self._load_book()
        await self._renew_halts(writer)
        starts = await self._load_signals(writer)
        async with (
            self._log.follow(starts, isolation=COMMITTED, wait_ms=25) as cursor,
            self._log.follow(halts_from) as halts,
            self._reports() as reports,
        ):
            self.state = "running"
            while True:
                for records in (await cursor.next(self._wait_s())).values():
                    await self._take(writer, records)
                for records in (await halts.next(0.0)).values():
                    self._take_halts(records)
                now = self._clock()
                for report in await reports(now):
                    await self._append(writer, self._outbox.report(report, now))
                await self._append(writer, self._outbox.expire(now))
                await self._send_next(writer)

    async def _load_book(self) -> dict[TopicPartition, int]:
        self.book = Book(self.bot.name)
        ends = await self._fold_deliveries(self.book)
        self._outbox = Outbox(self.bot, self.book, self._adapter.name)
        self._outages = OutageWatch(self.bot.language)
        # Deliveries of one message were attempted at one time.
        sent = sorted({delivery.attempted_ms for delivery in self.book.deliveries.values() if delivery.n})
        self._pace = Pace(self._adapter.rates, (ms / 1000 for ms in sent))
        return ends

    async def _load_signals(self, writer: DeliveryWriter) -> dict[TopicPartition, int]:
        """Apply all signals up to now, so that nothing is sent that a later revision takes back; return their end."""
        spans = await self._signal_spans(self._clock() - timedelta(days=DELIVERY_DAYS))
        async for _, records in self._log.replay(spans, isolation=COMMITTED):
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
                reports = [] if briefs is None else await briefs.new()
                if budget is not None and now - read_at > timedelta(seconds=BUDGET_EVERY_S):
                    read_at = now
                    reports += await budget.new(now)
                return reports + (self._outages.new() if "outages" in wanted else [])

            yield new

    async def _take(self, writer: DeliveryWriter, records: Sequence[Any]) -> None:
        now = self._clock()
        signals = list(filter(None, map(self._signal, records)))
        for signal in signals:
            self._outages.take(signal)
        await self._append(writer, [note for signal in signals for note in self._outbox.take(signal, now)])

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
        result = await self._result_of(self._adapter.send(message))
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
