"""The runner of one bot: reads signals, writes what it is about to do, does it, and writes what came of it.

    signals, halts ─► fold ─► reconcile ─► Planned, Attempted ─► deliveries ─► requests ─► Settled ─► deliveries

If the process is killed at any point, the next one finds in ``deliveries`` what was attempted, asks the destination, and
continues. An entry whose result nobody knows is never sent again; an exit is sent until the destination confirms it, or
shows that there is no position.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, Unpack

import structlog
from aiokafka import TopicPartition

from infra.bots.adapter import Order, OrderAdapter, RemotePosition, Result, StopsEntries
from infra.bots.definition import BotDefinition
from infra.kafka.topics import KafkaAddress
from infra.redaction import redacted
from schemas.deliveries import DeliveryRecord, Settled
from schemas.errors import ConfigError, NewsproofError, PermanentError
from schemas.signals import Signal
from schemas.topics import Topics
from streams.bots.book import Book
from streams.bots.delivery_runner import COMMITTED, DeliveryRunner, Observers
from streams.bots.positions import Signals
from streams.bots.reconcile import Reconciler, Request, Situation
from streams.bots.writer import DeliveryWriter
from streams.journal.clock import append_ms
from streams.journal.log import Cursor

log = structlog.get_logger(__name__)

SIGNAL_DAYS = 31
"""A signal is valid for 30 days at most."""
RECONCILE_S = 60.0
"""Interval at which the destination's positions are read."""
MIN_IDLE_S, IDLE_S = 0.05, 1.0
"""Bounds of the time between two turns, if nothing arrives."""
END_WITHIN_S = 11.0
"""Time for requests under way to end: longer than adapters take, shorter than a service may take to stop."""
ENTRY_PAUSE_S, MAX_ENTRY_PAUSE_S = 1.0, 30.0
"""Pauses of an entry that the destination put off, if it did not say how long; they double."""


class BotRunner(DeliveryRunner):
    """One bot that trades. ``reconcile_s``: interval at which the destination's positions are read."""

    def __init__(
        self,
        bot: BotDefinition,
        adapter: OrderAdapter,
        address: KafkaAddress,
        topics: Topics,
        *,
        reconcile_s: float = RECONCILE_S,
        **observers: Unpack[Observers],
    ) -> None:
        super().__init__(bot, adapter, address, topics, **observers)
        self.far_side_away = ""
        """Why the destination's positions could not be read last; empty if they were."""
        self._adapter, self._reconcile_s = adapter, reconcile_s
        self._wake = asyncio.Event()
        self._signals: list[tuple[float, Any]] = []
        self._deliveries: list[tuple[float, Any]] = []
        self._in_flight: dict[str, asyncio.Task[None]] = {}
        self._results: list[tuple[Request, Result, float | None]] = []
        self._wait_until_ms: dict[str, int] = {}
        self._answered_ms = 0
        self._answers = True
        self._reading: asyncio.Task[Mapping[str, RemotePosition] | None] | None = None
        self._read_at = 0.0
        self._stopping: asyncio.Task[None] | None = None
        self._at_last: asyncio.TimerHandle | None = None

    def stop(self) -> None:
        """End once the requests under way are settled, within ``END_WITHIN_S``. Nothing new begins."""
        self._ending = True
        self._wake.set()
        if self._running is not None:
            pause_s = END_WITHIN_S if self._in_flight and self.state == "running" else 0.0
            self._at_last = asyncio.get_running_loop().call_later(pause_s, self._running.cancel)

    def wake(self) -> None:
        """Look at the clock now, not within a second."""
        self._wake.set()

    async def _end(self) -> None:
        if self._at_last is not None:
            self._at_last.cancel()  # the task may go on with other work
        for task in (*self._in_flight.values(), *filter(None, [self._reading, self._stopping])):
            task.cancel()
        await super()._end()

    # Start

    async def _act(self, writer: DeliveryWriter) -> None:
        self._signals.clear()
        self._deliveries.clear()
        halts_from = await self._load_book()
        await self._renew_halts(writer)
        signals, starts, arrived = await self._load_signals()
        self._answered_ms = self._now_ms()
        self._start_reading()
        assert self._reading is not None
        await asyncio.wait([self._reading])
        async with (
            self._log.follow(starts, isolation=COMMITTED, wait_ms=25) as ours,
            self._log.follow(halts_from) as halts,
        ):
            readers = [
                asyncio.create_task(self._read(ours, self._signals)),
                asyncio.create_task(self._read(halts, self._deliveries)),
            ]
            try:
                await self._reconcile(writer, signals, arrived, readers)
            finally:
                for reader in readers:
                    reader.cancel()

    async def _load_book(self) -> dict[TopicPartition, int]:
        book, every = Book(self.bot.name, adapter=self.bot.kind, mode=self.bot.mode), Book(self.bot.name)
        ends = await self._fold_deliveries(book, every)
        self._refuse_others(every, book)
        self.book = book
        return ends

    def _refuse_others(self, every: Book, book: Book) -> None:
        ours = {position.planned.id for position in book.positions()}
        others = [p for position in every.positions() if (p := position.planned).id not in ours and p.mode == "live"]
        if others:
            kinds = ", ".join(sorted({f"kind {planned.adapter} in mode live" for planned in others}))
            raise ConfigError(
                f"the bot {self.bot.name} has {len(others)} open positions of {kinds}, which this definition would not close: restore "
                f"the old one and run `newsproof bots halt {self.bot.name} --exit`, or give the new bot another name"
            )

    async def _load_signals(self) -> tuple[Signals, dict[TopicPartition, int], list[Signal]]:
        """Return the signals, where to follow them from, and those that arrived since the bot last wrote."""
        positions = self.book.positions()
        oldest = min((position.planned.planned_at for position in positions), default=self._clock()) - timedelta(days=1)
        spans = await self._signal_spans(min(oldest, self._clock() - timedelta(days=SIGNAL_DAYS)))
        last_ms = max((max(d.planned_ms, d.settled_ms) for d in self.book.deliveries.values()), default=self._now_ms())
        signals, arrived = Signals(self.bot), []
        async for _, records in self._log.replay(spans, isolation=COMMITTED):
            for record in records:
                at_ms = int(append_ms(record))
                signal = self._signal(record)
                if signal is not None and signals.take(signal, at_ms) and at_ms >= last_ms:
                    arrived.append(signal)
        if unknown := [position.planned for position in positions if position.planned.signal_id not in signals.latest]:
            log.error(
                "the signals of these open positions are not on the topic any more, so the bot cannot close them: close them at the destination by hand",
                instruments=sorted({planned.instrument for planned in unknown}),
            )
        return signals, {tp: end for tp, (_, end) in spans.items()}, arrived

    # The loop

    async def _reconcile(
        self, writer: DeliveryWriter, signals: Signals, arrived: list[Signal], readers: list[asyncio.Task[None]]
    ) -> None:
        self.state = "running"
        reconciler = Reconciler(self.bot, signals, self.book)
        loop = asyncio.get_running_loop()
        since: dict[str, float] = {}
        while True:
            for task in readers:
                if task.done():
                    task.result()  # it ends by an error alone
            self._wake.clear()
            arrived += self._take(signals, since)
            if self._ending:
                await self._settle(writer)
                if not self._in_flight:
                    return
                await self._wake.wait()
                continue
            await self._turn(writer, reconciler, self._situation(arrived, self._remote()), since)
            arrived = []
            since.clear()
            due_ms = reconciler.next_ms(self._situation([], None))
            wait_s = IDLE_S if due_ms is None else (due_ms - self._now_ms()) / 1000
            with suppress(TimeoutError):
                async with asyncio.timeout(min(max(wait_s, MIN_IDLE_S), IDLE_S)):
                    await self._wake.wait()
            if self._reading is None and loop.time() - self._read_at > self._reconcile_s:
                self._start_reading()
                held = {position.planned.signal_id for position in self.book.positions()}
                signals.forget(self._clock() - timedelta(days=1), held)

    async def _turn(
        self, writer: DeliveryWriter, reconciler: Reconciler, situation: Situation, since: Mapping[str, float]
    ) -> None:
        """Do everything that is due: results first, then what follows from them. ``since``: signal → its arrival."""
        while True:
            await self._settle(writer)
            if self._ending:
                return
            situation.in_flight, situation.wait_until_ms = set(self._in_flight), dict(self._wait_until_ms)
            situation.answered_ms = self._answered_ms
            work = reconciler.work(situation)
            if not work.records:
                return
            await self._append(writer, work.records)
            for request in work.requests:
                self._start(request, since.get(request.signal.signal_id) if request.n == 1 else None)

    async def _settle(self, writer: DeliveryWriter) -> None:
        """Write the results of requests.

        Raises:
            PermanentError: the destination refuses all further requests.
        """
        results = list(self._results)
        records = [record for answered in results if (record := self._settled_by(*answered)) is not None]
        if records:
            await self._append(writer, records)
        del self._results[: len(results)]  # if the log is away, they are written after it is back
        for request, _, _ in results:
            self._in_flight.pop(request.planned.id, None)
        if disabled := next((result for _, result, _ in results if result.outcome == "disabled"), None):
            raise PermanentError(
                f"the destination of {self.bot.name} refuses all further requests ({disabled.reason}); {len(self.book.positions())} "
                "positions may be open there: correct its address, or close them by hand",
                kind="refused",
            )

    def _settled_by(self, request: Request, result: Result, delay_s: float | None) -> Settled | None:
        """Return the record of a result; None if the destination put the delivery off."""
        id, is_exit = request.planned.id, request.planned.intent == "exit"
        answers = result.outcome != "unknown" and not (result.outcome == "throttled" and result.wait_s == 0)
        if answers and not self._answers:
            self._answered_ms = self._now_ms()
        self._answers = answers
        if is_exit and result.outcome != "delivered":
            exit = self.book.deliveries[id]
            log.error(
                "an exit is not confirmed; it is sent again", bot=self.bot.name, instrument=request.planned.instrument,
                outcome=result.outcome, why=result.reason[:300], attempts=request.n,
                open_for_s=(self._now_ms() - exit.planned_ms) // 1000,
            )  # fmt: skip
        if result.outcome == "throttled":
            wait_s = result.wait_s or (0.0 if is_exit else min(ENTRY_PAUSE_S * 2 ** (request.n - 1), MAX_ENTRY_PAUSE_S))
            if wait_s:
                self._wait_until_ms[id] = self._now_ms() + round(wait_s * 1000)
            return None
        return Settled(
            delivery=id,
            bot=self.bot.name,
            outcome="refused" if result.outcome == "disabled" else result.outcome,
            reason=redacted(result.reason)[:500],
            remote_id=result.remote_id,
            price=result.price,
            fee=result.fee,
            seconds=delay_s,
        )

    async def _append(self, writer: DeliveryWriter, records: Iterable[DeliveryRecord]) -> None:
        records = list(records)
        await super()._append(writer, records)
        for record in records:
            if isinstance(record, Settled):
                self._wait_until_ms.pop(record.delivery, None)

    # Requests

    def _start(self, request: Request, arrived_s: float | None) -> None:
        self._wait_until_ms.pop(request.planned.id, None)
        entry = request.entry or request.planned
        order = Order(
            bot=self.bot.name,
            intent="enter" if request.planned.intent == "enter" else "exit",
            instrument=entry.instrument,
            side=entry.side or "long",
            reference=entry.id,
            signal=request.signal,
            reason=request.planned.reason,
            at=self._clock(),
            remote_id=request.remote_id,
        )
        self._in_flight[request.planned.id] = asyncio.create_task(self._perform(request, order, arrived_s))

    async def _perform(self, request: Request, order: Order, arrived_s: float | None) -> None:
        delay_s = None if arrived_s is None else asyncio.get_running_loop().time() - arrived_s
        if delay_s is not None:
            self._on_request(delay_s)
        result = await self._result_of(self._adapter.perform(order))
        self._results.append((request, result, delay_s))
        self._wake.set()

    def _start_reading(self) -> None:
        self._read_at = asyncio.get_running_loop().time()
        self._reading = asyncio.ensure_future(self._adapter.positions())
        self._reading.add_done_callback(lambda _: self._wake.set())

    def _remote(self) -> Mapping[str, RemotePosition] | None:
        """Return the destination's positions if they were read since the last turn."""
        if self._reading is None or not self._reading.done():
            return None
        reading, self._reading = self._reading, None
        try:
            remote = reading.result()
        except NewsproofError as exc:
            if not self.far_side_away:
                log.warning("the destination's positions cannot be read", bot=self.bot.name, why=str(exc))
            self.far_side_away, self._answers = str(exc), False
            return None
        if remote is not None and not self._answers:
            self._answers, self._answered_ms = True, self._now_ms()
        self.far_side_away = ""
        return remote

    # Records

    async def _read(self, cursor: Cursor, into: list[tuple[float, Any]]) -> None:
        try:
            while True:
                for records in (await cursor.next(60.0)).values():
                    now = asyncio.get_running_loop().time()
                    into += [(now, record) for record in records]
                self._wake.set()
        finally:
            self._wake.set()

    def _take(self, signals: Signals, since: dict[str, float]) -> list[Signal]:
        """Fold what was read: halts, and signals. Return the signals that are new."""
        if self._take_halts(record for _, record in self._deliveries):
            self._stop_entries()
        self._deliveries.clear()
        arrived = []
        for at, record in self._signals:
            signal = self._signal(record)
            if signal is not None and signals.take(signal, self._now_ms()):
                arrived.append(signal)
                since[signal.signal_id] = at
        self._signals.clear()
        return arrived

    def _stop_entries(self) -> None:
        """While a halt closes positions, let the destination itself refuse entries, if it can."""
        halt = self.book.halt_of(self.bot.name)
        if halt is not None and halt.exit and isinstance(self._adapter, StopsEntries):
            self._stopping = asyncio.create_task(self._stopped(self._adapter))

    async def _stopped(self, far_side: StopsEntries) -> None:
        try:
            await far_side.stop_entries()
        except NewsproofError as exc:
            log.error(
                "the destination does not stop entries itself; the bot makes none", bot=self.bot.name, why=str(exc)
            )

    def _situation(self, arrived: Sequence[Signal], remote: Mapping[str, RemotePosition] | None) -> Situation:
        return Situation(
            now=self._clock(),
            remote=remote,
            arrived=arrived,
            in_flight=set(self._in_flight),
            wait_until_ms=dict(self._wait_until_ms),
            answered_ms=self._answered_ms,
        )
