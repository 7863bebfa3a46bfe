"""The difference between the positions that should be and those that are: what a bot does next. Pure.

    desired × book × the destination's positions × now ─► records to write, then requests to make

Exits come before entries: no entry begins while an exit is under way, or is due.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

import msgspec
from msgspec.structs import replace

from infra.bots.adapter import RemotePosition
from infra.bots.definition import BotDefinition
from infra.clickhouse.record import epoch_ms
from schemas.deliveries import (
    Attempted,
    DeliveryRecord,
    HaltRequested,
    Outcome,
    Planned,
    Settled,
    Side,
    delivery_id,
)
from schemas.signals import Signal
from streams.bots.book import DAY_MS, HOUR_MS, Book, Delivery
from streams.bots.positions import NOBODY_ASKS, DesiredPosition, Signals

EXIT_PAUSES_S = (5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400)
"""Pauses after the attempts of an exit, the example schedule of Standard Webhooks (75 h); the last one repeats."""
VISIBLE_WITHIN_MS = 60_000
"""Time after which the destination shows a position that it has, and no longer one that was closed."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A request to make now. ``n``: the attempt. ``signal``: the revision that asks for it. ``entry``: what an exit ends."""

    planned: Planned
    n: int
    signal: Signal
    remote_id: str | None = None
    entry: Planned | None = None


class Work(msgspec.Struct, kw_only=True):
    """What is to be done. The requests are made after the records are durable."""

    records: list[DeliveryRecord]
    requests: list[Request]


class Situation(msgspec.Struct, kw_only=True):
    """What is known now.

    ``remote``: reference → position at the destination; None: it cannot be read. ``arrived``: revisions that arrived since
    the last time. ``in_flight``: deliveries whose request is under way. ``wait_until_ms``: deliveries that the destination
    has not done, and when it may be asked again. ``exits_due``: no exit waits for the end of its pause, since the far
    side answers again.
    """

    now: datetime
    remote: Mapping[str, RemotePosition] | None = None
    arrived: Sequence[Signal] = ()
    in_flight: Collection[str] = ()
    wait_until_ms: Mapping[str, int] = {}
    answered_ms: int = 0


class Reconciler:
    """What one bot does next, from its definition, the signals and its book."""

    def __init__(self, bot: BotDefinition, signals: Signals, book: Book) -> None:
        self._bot, self._signals, self._book = bot, signals, book

    def work(self, now: Situation) -> Work:
        """Return what is to be done. Once its records are folded, the next call returns what remains."""
        corrections = self._corrections(now)
        if corrections:
            return Work(records=corrections, requests=[])  # positions that changed elsewhere come before all else
        made = Work(records=[], requests=[])
        desired = self._signals.desired(now.now)
        entries = self._entries(now, desired, made)
        exiting = self._exits(now, desired, made, wanted_ms=max((since for _, since in entries), default=0))
        if not exiting:
            for request, _ in entries:
                if request.n == 1:
                    made.records.append(request.planned)
                made.records.append(_attempted(request))
                made.requests.append(request)
        return made

    def next_ms(self, now: Situation) -> int | None:
        """Return when the clock next gives work (milliseconds since 1970), if nothing else does."""
        due = [
            now.wait_until_ms.get(exit.planned.id) or _due_ms(exit, now)
            for exit in self._book.pending_exits()
            if exit.planned.id not in now.in_flight and exit.planned.signal_id in self._signals.latest
        ]
        due += [at for id, at in now.wait_until_ms.items() if id not in now.in_flight]
        if (change := self._signals.next_change()) is not None:
            due.append(epoch_ms(change))
        return min(due, default=None)

    # What the destination says

    def _corrections(self, now: Situation) -> list[DeliveryRecord]:
        records: list[DeliveryRecord] = []
        now_ms, busy = epoch_ms(now.now), {*now.in_flight, *now.wait_until_ms}
        for entry in self._book.positions():
            id, exit = entry.planned.id, self._book.exit_of(entry.planned.id)
            if id in busy or (exit is not None and exit.planned.id in now.in_flight):
                continue
            there = None if now.remote is None else now.remote.get(id)
            settled = max(entry.attempted_ms, entry.settled_ms) + VISIBLE_WITHIN_MS <= now_ms
            if there is not None:
                if entry.outcome != "delivered":
                    records.append(_settled(entry.planned, "delivered", "the destination has it", there.remote_id))
                if not there.is_open:
                    records += self._closed(entry, now.now, "closed at the destination")
            elif now.remote is None or not settled:
                if entry.outcome is None:
                    records.append(_settled(entry.planned, "unknown", "the answer was lost"))
            elif entry.outcome == "delivered":
                records += self._closed(entry, now.now, "the destination no longer has it")
            else:
                records.append(_settled(entry.planned, "refused", "the destination does not have it"))
        return records + self._without_position(now) + self._left_open(now, now_ms)

    def _without_position(self, now: Situation) -> list[DeliveryRecord]:
        """Settle the exits of entries that the destination turned out not to have: no request would ever confirm them."""
        held = {position.planned.id for position in self._book.positions()}
        held |= {reference for reference, there in (now.remote or {}).items() if there.is_open}
        return [
            _settled(exit.planned, "delivered", "there is no position to close")
            for exit in self._book.pending_exits()
            if exit.planned.entry not in held and exit.planned.id not in now.in_flight
        ]

    def _left_open(self, now: Situation, now_ms: int) -> list[DeliveryRecord]:
        """Reopen what the destination has, and the book does not."""
        records: list[DeliveryRecord] = []
        known = {position.planned.id for position in self._book.positions()}
        for there in (now.remote or {}).values():
            entry = self._book.deliveries.get(there.reference)
            if not there.is_open or entry is None or entry.n == 0 or there.reference in {*known, *now.in_flight}:
                continue
            exit = self._book.exit_of(there.reference)
            if exit is None or exit.outcome != "delivered":
                records.append(
                    _settled(entry.planned, "delivered", "the destination has it after all", there.remote_id)
                )
            elif entry.outcome == "refused" or exit.settled_ms + VISIBLE_WITHIN_MS <= now_ms:
                records.append(_settled(exit.planned, "unknown", "the destination still has the position"))
        return records

    def _closed(self, entry: Delivery, at: datetime, why: str) -> list[DeliveryRecord]:
        if (exit := self._book.exit_of(entry.planned.id)) is not None:
            return [_settled(exit.planned, "delivered", why)]
        planned = self._exit(entry, at, why)
        return [planned, _settled(planned, "delivered", why)]

    # Exits

    def _exits(self, now: Situation, desired: Mapping[str, DesiredPosition], made: Work, wanted_ms: int) -> bool:
        """Add the exits that are due; return whether entries have to wait for any. ``wanted_ms``: since when one is due."""
        exiting, now_ms, halt = False, epoch_ms(now.now), self._book.halt_of(self._bot.name)
        for entry in self._book.positions():
            id, exit = entry.planned.id, self._book.exit_of(entry.planned.id)
            if id in now.in_flight or id in now.wait_until_ms:
                continue
            if exit is not None and exit.planned.id in now.in_flight:
                exiting = True
                continue
            wanted = desired.get(entry.planned.instrument, NOBODY_ASKS)
            closing = halt is not None and halt.exit
            if exit is None and wanted.side == entry.planned.side and not closing:
                continue
            if exit is not None and not _is_due(exit, now, now_ms, wanted_ms):
                continue
            if (signal := self._signals.latest.get(entry.planned.signal_id)) is None:
                continue  # the runner has read it, or has said that it cannot
            if exit is None:
                planned = self._exit(entry, now.now, self._why(entry, wanted, now.now, halt if closing else None))
                made.records.append(planned)
            else:
                planned = exit.planned
            remote_id = None if entry.settled is None else entry.settled.remote_id
            request = Request(
                planned=planned,
                n=1 if exit is None else exit.n + 1,
                signal=signal,
                remote_id=remote_id,
                entry=entry.planned,
            )
            made.records.append(_attempted(request))
            made.requests.append(request)
            exiting = True
        return exiting

    def _why(self, entry: Delivery, wanted: DesiredPosition, at: datetime, halt: HaltRequested | None) -> str:
        if halt is not None:
            return f"halt requested by {halt.by}"
        if wanted is not NOBODY_ASKS:
            return wanted.reason
        return self._signals.why_gone(entry.planned.signal_id, at)

    def _exit(self, entry: Delivery, at: datetime, why: str) -> Planned:
        opened = entry.planned
        latest = self._signals.latest.get(opened.signal_id)
        return replace(
            opened,
            id=delivery_id(opened.bot, opened.mode, "exit", opened.id),
            intent="exit",
            revision=opened.revision if latest is None else latest.revision,
            reason=why,
            planned_at=at,
            entry=opened.id,
        )

    # Entries

    def _entries(self, now: Situation, desired: Mapping[str, DesiredPosition], made: Work) -> list[tuple[Request, int]]:
        """Return the entries that are due, each with the time since when (ms). Those that a rule forbids are recorded."""
        due: list[tuple[Request, int]] = []
        for signal in now.arrived:
            why = self._bot.refusal_of(signal)
            if why is not None and self._is_order(signal):
                self._skip(signal, "skipped", why, now, made)
        taken = {position.planned.instrument: position for position in self._book.positions()}
        open_now = len(taken)
        for instrument, wanted in sorted(desired.items()):
            if wanted.side is None or wanted.signal is None:
                continue
            signal = wanted.signal
            held, id = taken.get(instrument), delivery_id(self._bot.name, self._bot.mode, "enter", signal.signal_id)
            if held is not None and held.planned.id != id:
                if held.planned.side == wanted.side and self._book.exit_of(held.planned.id) is None:
                    self._skip(signal, "skipped", f"{instrument} is {wanted.side} already", now, made)
                continue  # an opposite position is closed first
            if id in self._book.deliveries or self._skip_id(signal) in self._book.deliveries:
                continue
            refusal = self._refusal(signal, wanted.side, now.now, open_now, due)
            if refusal is not None:
                self._skip(signal, *refusal, now, made)
            else:
                planned = self._planned(signal, id, instrument, wanted.side, wanted.reason, now.now)
                due.append((Request(planned=planned, n=1, signal=signal), self._signals.arrived_ms[signal.signal_id]))
        return due + self._again(now, desired, made)

    def _again(self, now: Situation, desired: Mapping[str, DesiredPosition], made: Work) -> list[tuple[Request, int]]:
        """Return the entries that the destination put off and that are due again; settle those that nobody wants any more."""
        due: list[tuple[Request, int]] = []
        for id, until in now.wait_until_ms.items():
            entry = self._book.deliveries.get(id)
            if entry is None or entry.planned.intent != "enter" or id in now.in_flight:
                continue
            wanted = desired.get(entry.planned.instrument, NOBODY_ASKS)
            latest = self._signals.latest.get(entry.planned.signal_id)
            refusal: tuple[Outcome, str] | None = ("expired", self._signals.why_gone(entry.planned.signal_id, now.now))
            if latest is not None and wanted.side is not None and wanted.side == entry.planned.side:
                refusal = self._refusal(latest, wanted.side, now.now, None, [])
            if refusal is not None:
                made.records.append(_settled(entry.planned, *refusal))
            elif latest is not None and until <= epoch_ms(now.now):
                due.append((Request(planned=entry.planned, n=entry.n + 1, signal=latest), until))
        return due

    def _refusal(
        self, signal: Signal, side: Side, now: datetime, open_now: int | None, due: Sequence[tuple[Request, int]]
    ) -> tuple[Outcome, str] | None:
        """Return why an entry is not made. ``due``: entries of the same turn. ``open_now`` None: it has its place."""
        limits, book, now_ms = self._bot.limits, self._book, epoch_ms(now)
        age = (now - signal.published_at).total_seconds()
        if age > limits.max_age_s:
            return "expired", f"the news was published {age:.0f} s ago; the limit is {limits.max_age_s:g} s"
        if (halt := book.halt_of(self._bot.name)) is not None:
            return "skipped", f"halted by {halt.by}"
        if side not in self._bot.sides:
            return "skipped", f"the bot does not open {side} positions"
        if open_now is None:
            return None
        of_asset = sum(request.planned.asset == signal.asset for request, _ in due)
        for count, limit, what in (
            (open_now + len(due), limits.open_positions, "positions are open"),
            (book.entered(now_ms - now_ms % DAY_MS) + len(due), limits.entries_a_day, "entries were made today (UTC)"),
            (
                book.entered(now_ms - HOUR_MS, signal.asset) + of_asset,
                limits.entries_an_hour_per_asset,
                f"entries of {signal.asset} were made within an hour",
            ),
        ):
            if count >= limit:
                return "skipped", f"{count} {what}; the limit is {limit}"
        return None

    def _skip(self, signal: Signal, outcome: Outcome, why: str, now: Situation, made: Work) -> None:
        if (id := self._skip_id(signal)) in self._book.deliveries:
            return
        side: Side = "long" if signal.action == "buy" else "short"
        instrument = self._bot.map.get(signal.asset.upper(), signal.asset)
        planned = self._planned(signal, id, instrument, side, signal.action, now.now)
        made.records += [planned, _settled(planned, outcome, why)]

    def _skip_id(self, signal: Signal) -> str:
        """Return the id of a refused revision: a later revision may still enter."""
        return delivery_id(self._bot.name, self._bot.mode, "enter", signal.signal_id, signal.revision)

    def _is_order(self, signal: Signal) -> bool:
        return signal.stage == "final" and signal.action in ("buy", "sell")

    def _planned(self, signal: Signal, id: str, instrument: str, side: Side, why: str, at: datetime) -> Planned:
        return Planned(
            id=id,
            bot=self._bot.name,
            adapter=self._bot.kind,
            instrument=instrument,
            intent="enter",
            signal_id=signal.signal_id,
            revision=signal.revision,
            asset=signal.asset,
            reason=why,
            planned_at=at,
            valid_until=signal.valid_until,
            mode=self._bot.mode,
            side=side,
        )


def _attempted(request: Request) -> Attempted:
    return Attempted(delivery=request.planned.id, bot=request.planned.bot, n=request.n)


def _settled(planned: Planned, outcome: Outcome, reason: str, remote_id: str | None = None) -> Settled:
    return Settled(delivery=planned.id, bot=planned.bot, outcome=outcome, reason=reason, remote_id=remote_id)


def _due_ms(exit: Delivery, now: Situation) -> int:
    """Return when an exit's next attempt is due."""
    if exit.n == 0:
        return 0
    first = exit.attempted_ms < now.answered_ms
    return exit.attempted_ms + EXIT_PAUSES_S[0 if first else min(exit.n, len(EXIT_PAUSES_S)) - 1] * 1000


def _is_due(exit: Delivery, now: Situation, now_ms: int, wanted_ms: int) -> bool:
    if (until := now.wait_until_ms.get(exit.planned.id)) is not None:
        return until <= now_ms
    return exit.attempted_ms < wanted_ms or _due_ms(exit, now) <= now_ms
