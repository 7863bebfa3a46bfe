"""What each bot should hold and what it holds, for those who look: the page, the API and ``newsproof bots list`` show the same."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from aiokafka import TopicPartition

from infra.bots.definition import BotDefinition
from infra.bots.paper import FillPrices, Mark, PaperTrade, paper_book
from infra.clickhouse.record import epoch_ms
from infra.kafka.topics import KafkaAddress
from schemas.deliveries import DeliveryRecord, Side, known
from schemas.envelope import NewerSignalError, read_signal
from schemas.errors import ContractError
from schemas.signals import Signal
from schemas.topics import Topics
from streams.bots.book import DAY_MS, Book, Delivery
from streams.bots.delivery_runner import DELIVERY_DAYS
from streams.bots.positions import Signals
from streams.bots.runner import SIGNAL_DAYS
from streams.journal.clock import append_ms, utc_now
from streams.journal.log import KafkaLog, starts_since

SHOWN = 20
"""Maximum number of deliveries and of paper trades per bot: the newest."""
MARK_EVERY_S, MARK_WITHIN_S = 30.0, 3.0
"""A price is asked again after this time, and has so long to come."""


class _TopicReader:
    """The committed records of one topic of the last ``days``. Each reading continues from the last."""

    def __init__(self, address: KafkaAddress, topic: str, days: int) -> None:
        self._log, self._topic, self._days = KafkaLog(address), topic, days
        self._next: dict[TopicPartition, int] = {}
        self._reading = asyncio.Lock()

    async def read(self, take: Callable[[Any], None]) -> None:
        """Call ``take`` with each new record up to the present end."""
        async with self._reading:
            bounds = await self._log.bounds(self._topic, isolation="read_committed")
            if not self._next:
                since = epoch_ms(utc_now() - timedelta(days=self._days))
                self._next = await starts_since(self._log, self._topic, since)
            spans = {tp: (min(self._next.get(tp, 0), end), end) for tp, (_, end) in bounds.items()}
            async for tp, records in self._log.replay(spans, isolation="read_committed"):
                for record in records:
                    take(record)
                    self._next[tp] = record.offset + 1


class DeliveryBook:
    """The fold of the deliveries of one bot, or of all.

    ``keep``: as of :meth:`streams.bots.book.Book.forget`; None forgets nothing.
    """

    def __init__(
        self, address: KafkaAddress, topics: Topics, bot: str | None = None, *, keep: int | None = None
    ) -> None:
        self._records, self._book, self._keep = (
            _TopicReader(address, topics.deliveries, DELIVERY_DAYS),
            Book(bot),
            keep,
        )

    async def read(self) -> Book:
        """Return the book up to the present end."""
        await self._records.read(self._take)
        if self._keep is not None:
            self._book.forget(self._keep)
        return self._book

    def _take(self, record: Any) -> None:
        if (change := known(record.value)) is not None:  # the bots log others
            self._book.fold(int(append_ms(record)), change)


async def read_book(address: KafkaAddress, topics: Topics, bot: str | None = None) -> Book:
    """Return the fold of the deliveries of one bot, or of all, up to the present end."""
    return await DeliveryBook(address, topics, bot).read()


class DesiredPositions:
    """The positions that live signals ask of each bot, by the bots' own rule."""

    def __init__(self, address: KafkaAddress, topics: Topics) -> None:
        self._records = _TopicReader(address, topics.signals, SIGNAL_DAYS)
        self._latest: dict[str, tuple[Signal, int]] = {}
        self._folds: dict[str, tuple[BotDefinition, Signals]] = {}

    async def read(self, bots: Mapping[str, BotDefinition]) -> dict[str, Signals]:
        """Return by name the fold of each bot that trades, up to the present end. A changed definition is folded anew."""
        await self._records.read(self._take)
        now = utc_now()
        for id in [id for id, (signal, _) in self._latest.items() if signal.valid_until <= now]:
            del self._latest[id]
        trading = {name: bot for name, bot in bots.items() if bot.kind != "notify"}
        folds = {}
        for name, bot in trading.items():
            before = self._folds.get(name)
            folds[name] = before if before is not None and before[0] == bot else (bot, self._folded(bot))
            folds[name][1].forget(now, ())
        self._folds = folds
        return {name: signals for name, (_, signals) in folds.items()}

    def _folded(self, bot: BotDefinition) -> Signals:
        signals = Signals(bot)
        for signal, at_ms in self._latest.values():
            signals.take(signal, at_ms)
        return signals

    def _take(self, record: Any) -> None:
        try:
            signal = read_signal(record)[0]
        except NewerSignalError:
            raise
        except ContractError:  # the bots log others
            return
        at_ms, before = int(append_ms(record)), self._latest.get(signal.signal_id)
        if before is None or before[0].revision < signal.revision:
            self._latest[signal.signal_id] = signal, at_ms
        for _, signals in self._folds.values():
            signals.take(signal, at_ms)


Marks = Mapping[tuple[str, Side], Mark | str]
"""(instrument, side of the position) → its price now, or why none is known."""


class MarkPrices:
    """The prices at which open paper positions could be closed now. A price that nobody needs is not asked.

    ``sources``: the definitions' word for a source of prices → what makes it.
    """

    def __init__(self, sources: Mapping[str, Callable[[], FillPrices]]) -> None:
        self._sources, self._made = sources, dict[str, FillPrices]()
        self._known: dict[tuple[str, str, Side], tuple[float, Mark | str]] = {}

    async def of(self, bot: BotDefinition, positions: Collection[tuple[str, Side]]) -> Marks:
        """Return the prices for (instrument, side) of positions of this bot; none is older than ``MARK_EVERY_S``."""
        await asyncio.gather(*(self._ask(bot.prices, instrument, side) for instrument, side in positions))
        return {(instrument, side): self._known[bot.prices, instrument, side][1] for instrument, side in positions}

    async def _ask(self, source: str, instrument: str, side: Side) -> None:
        key = source, instrument, side
        if key in self._known and time.monotonic() - self._known[key][0] < MARK_EVERY_S:
            return
        if source not in self._made:
            self._made[source] = self._sources[source]()
        try:
            async with asyncio.timeout(MARK_WITHIN_S):
                mark = await self._made[source].mark(instrument, utc_now(), buys=side == "short")
        except TimeoutError:
            mark = f"no price came within {MARK_WITHIN_S:g} s"
        self._known[key] = time.monotonic(), mark

    async def close(self) -> None:
        for prices in self._made.values():
            await prices.close()


class BotsReader:
    """Everything about bots that is shown: the log's deliveries and signals, and prices. Each reading continues from the last."""

    def __init__(
        self,
        address: KafkaAddress,
        topics: Topics,
        prices: Mapping[str, Callable[[], FillPrices]],
        *,
        keep: int | None = None,
        desired_within_s: float | None = None,
    ) -> None:
        """``desired_within_s``: while the signals take longer to read, desired positions are not known; None: wait for them."""
        self.deliveries = DeliveryBook(address, topics, keep=keep)
        self._desired, self._marks = DesiredPositions(address, topics), MarkPrices(prices)
        self._desired_within_s = desired_within_s

    async def items(self, bots: Mapping[str, BotDefinition], processes: Mapping[str, str]) -> list[dict[str, Any]]:
        """Return every bot: the defined ones, and others with deliveries. ``processes``: name of a bot's process → its state.

        Raises:
            TransientError: Kafka is away. NewerRecordError, NewerSignalError: a topic holds a record of a newer version.
        """
        book, desired = await asyncio.gather(self.deliveries.read(), self._desired_in_time(bots))
        return await items_of(book, bots, processes, desired, self._marks.of)

    async def _desired_in_time(self, bots: Mapping[str, BotDefinition]) -> Mapping[str, Signals]:
        try:
            async with asyncio.timeout(self._desired_within_s):
                return await self._desired.read(bots)
        except TimeoutError:
            return {}  # a month of signals must not take the button away that halts; reading continues from there

    async def close(self) -> None:
        await self._marks.close()


async def items_of(
    book: Book,
    bots: Mapping[str, BotDefinition],
    processes: Mapping[str, str],
    desired: Mapping[str, Signals],
    marks_of: Callable[[BotDefinition, Collection[tuple[str, Side]]], Awaitable[Marks]],
) -> list[dict[str, Any]]:
    """Return the bots of :meth:`BotsReader.items` from what was read."""
    made = []
    for name in names_of(bots, book):
        bot = bots.get(name)
        own = [delivery for delivery in book.deliveries.values() if delivery.planned.bot == name]
        on_paper = [
            (trade.instrument, trade.side) for trade in paper_book(_records(own), name) if trade.exited_at is None
        ]
        marks = {} if bot is None else await marks_of(bot, on_paper)
        made.append(_item(name, bot, processes.get(f"bot-{name}"), book, own, desired.get(name), marks))
    return made


def names_of(bots: Mapping[str, BotDefinition], book: Book) -> list[str]:
    """Return the defined bots, then others with deliveries."""
    return list(dict.fromkeys([*bots, *sorted({delivery.planned.bot for delivery in book.deliveries.values()})]))


def _item(
    name: str,
    bot: BotDefinition | None,
    process: str | None,
    book: Book,
    own: list[Delivery],
    signals: Signals | None,
    marks: Marks,
) -> dict[str, Any]:
    prices = {instrument: mark.price for (instrument, _), mark in marks.items() if isinstance(mark, Mark)}
    trades = paper_book(_records(own), name, prices)
    positions = [delivery for delivery in book.positions() if delivery.planned.bot == name]
    halt, now = book.halt_of(name), utc_now()
    now_ms = epoch_ms(now)
    return {
        "name": name,
        "defined": bot is not None,
        "kind": own[-1].planned.adapter if bot is None else bot.kind,
        "mode": own[-1].planned.mode if bot is None else bot.mode,
        "process": process,
        "open": len(positions),
        "pending_exits": sum(delivery.planned.bot == name for delivery in book.pending_exits()),
        "entries_today": sum(
            delivery.planned.intent == "enter"
            and delivery.may_be_open
            and delivery.attempted_ms >= now_ms - now_ms % DAY_MS
            for delivery in own
        ),
        "halted_by": None if halt is None else halt.by,
        "halt_exits": halt is not None and halt.exit,
        "halts": halts_of(book, name),
        "desired": None
        if signals is None
        else _desired(signals, own, positions, now, closing=bool(halt and halt.exit)),
        "positions": [
            _position(delivery, book, {trade.entry: trade for trade in trades}, marks) for delivery in positions
        ],
        "deliveries": [_delivery(delivery) for delivery in sorted(own, key=_changed_ms)[: -SHOWN - 1 : -1]],
        "paper": _paper(trades) if trades else None,
    }


def _desired(
    signals: Signals, own: list[Delivery], positions: list[Delivery], now: datetime, *, closing: bool
) -> list[dict[str, Any]]:
    """Return the positions that live signals ask for. ``closing``: a halt closes all positions, so nothing is desired."""
    held = {(delivery.planned.instrument, delivery.planned.side) for delivery in positions}
    refused = {
        delivery.planned.signal_id: delivery
        for delivery in own
        if delivery.planned.intent == "enter" and delivery.settled is not None
    }
    rows = []
    for instrument, wanted in sorted(({} if closing else signals.desired(now)).items()):
        signal = wanted.signal
        last = None if signal is None else refused.get(signal.signal_id)
        rows.append({
            "instrument": instrument,
            "side": wanted.side,
            "why": wanted.reason,
            "signal_id": None if signal is None else signal.signal_id,
            "case_id": None if signal is None else signal.case_id,
            "valid_until": None if signal is None else signal.valid_until,
            "held": wanted.side is not None and (instrument, wanted.side) in held,
            "state": None if last is None else last.state,
            "reason": "" if last is None or last.settled is None else last.settled.reason,
        })  # fmt: skip
    return rows


def _paper(trades: list[PaperTrade]) -> dict[str, Any]:
    closed = [trade for trade in trades if trade.exited_at is not None]
    opened = [trade.profit for trade in trades if trade.exited_at is None]
    return {
        "closed": len(closed),
        "profit": sum(trade.profit or 0.0 for trade in closed),
        "open": len(opened),
        "open_profit": None if None in opened else sum(profit or 0.0 for profit in opened),
        "trades": trades[: -SHOWN - 1 : -1],
    }


def _records(deliveries: list[Delivery]) -> Iterator[DeliveryRecord]:
    for delivery in deliveries:
        yield delivery.planned
        if delivery.settled is not None:
            yield delivery.settled


def halts_of(book: Book, bot: str | None) -> list[dict[str, Any]]:
    """Return the halt of this bot alone; of None, that of all bots. A list, since there may be none."""
    halt = book.halts.get(bot)
    return [] if halt is None else [{"by": halt.by, "exit": halt.exit, "at": _at(book.halted_ms[bot])}]


def _position(entry: Delivery, book: Book, trades: Mapping[str, PaperTrade], marks: Marks) -> dict[str, Any]:
    exit, trade = book.exit_of(entry.planned.id), trades.get(entry.planned.id)
    mark = None if entry.planned.side is None else marks.get((entry.planned.instrument, entry.planned.side))
    paper = None
    if trade is not None:
        paper = {
            "entry_price": trade.entry_price,
            "mark": mark if isinstance(mark, Mark) else None,
            "no_mark": mark if isinstance(mark, str) else "" if mark else "the bot is not defined here",
            "profit": trade.profit,
        }
    return _of_planned(entry) | {
        "since": _at(entry.attempted_ms),
        "outcome": entry.outcome,
        "paper": paper,
        "exit": None
        if exit is None
        else {"since": _at(exit.planned_ms), "why": exit.planned.reason, "attempts": exit.n, "state": exit.state}
        | {"reason": "" if exit.settled is None else exit.settled.reason},
    }


def _delivery(delivery: Delivery) -> dict[str, Any]:
    return _of_planned(delivery) | {
        "intent": delivery.planned.intent,
        "why": delivery.planned.reason,
        "state": delivery.state,
        "reason": "" if delivery.settled is None else delivery.settled.reason,
        "price": None if delivery.settled is None else delivery.settled.price,
        "attempts": delivery.n,
        "at": _at(_changed_ms(delivery)),
    }


def _of_planned(delivery: Delivery) -> dict[str, Any]:
    names = ("id", "adapter", "mode", "instrument", "asset", "side", "signal_id", "revision")
    return {name: getattr(delivery.planned, name) for name in names}


def _changed_ms(delivery: Delivery) -> int:
    return max(delivery.planned_ms, delivery.attempted_ms, delivery.settled_ms)


def _at(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)
