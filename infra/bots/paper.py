"""Trades on paper: fills at the prices of an exchange or of imported bars, and the profit that they make."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from math import exp
from random import Random
from typing import Protocol

import msgspec

from infra.bots.adapter import Order, RemotePosition, Result
from infra.bots.definition import BotDefinition
from infra.clickhouse.client import ClickHouse
from infra.http import UselessAnswerError, quoted
from infra.market.exchanges import Exchange
from infra.market.outcomes.bars import stored_bars
from infra.market.outcomes.markets import ENTRY_WITHIN_S, Markets, market_symbol
from infra.market.outcomes.returns import first_bar_from
from schemas.deliveries import DeliveryRecord, Planned, Settled, Side
from schemas.errors import ConfigError, PermanentError, TransientError
from schemas.prices import JudgedCase, PriceSeries

WAIT_S = 60.0
"""An exit without a price is tried again after this time."""
_BEFORE_MS = 86_400_000
"""Bars before the order say how far apart a market's bars are, so whether the market has stopped."""


class Mark(msgspec.Struct, frozen=True):
    """What an open position could be closed at. ``at``: the time of the price (UTC)."""

    price: float
    at: datetime


class FillPrices(Protocol):
    """A source of prices for fills, and for marks of open positions."""

    async def price(self, instrument: str, at: datetime, *, buys: bool) -> float | str:
        """Return the price that a buyer or a seller gets at ``at``, or why there is none."""
        ...

    async def mark(self, instrument: str, at: datetime, *, buys: bool) -> Mark | str:
        """Return the newest price known at ``at``, or why there is none. Never raises for what the source does."""
        ...

    async def close(self) -> None: ...


class ExchangePrices:
    """The best ask for a buyer and the best bid for a seller, now, at the first exchange with the market. Quoted in dollars."""

    def __init__(self, exchanges: Sequence[Exchange]) -> None:
        self._exchanges = tuple(exchanges)

    async def price(self, instrument: str, at: datetime, *, buys: bool) -> float | str:
        top, why, _ = await self._top(instrument)
        return why if top is None else top[1 if buys else 0]

    async def check(self, instrument: str) -> None:
        """Ask for the instrument's price.

        Raises:
            ConfigError: no exchange has its market. TransientError: an exchange that may have it does not respond.
        """
        top, why, failed = await self._top(instrument)
        if top is None and failed:
            raise TransientError(f"no price of {instrument} now ({why})", kind="unavailable")
        if top is None:
            raise ConfigError(f"{instrument} has no price ({why}); correct it or leave it out")

    async def _top(self, instrument: str) -> tuple[tuple[float, float] | None, str, bool]:
        """Return the best bid and ask; without them, why, and whether an exchange failed."""
        base, why, failed = instrument.partition("/")[0], list[str](), False
        for exchange in self._exchanges:
            try:
                top = await exchange.top(base)
            except (TransientError, PermanentError, UselessAnswerError) as exc:
                failed = True
                why.append(f"{exchange.name} failed: {quoted(exc, 120)}")
            else:
                if top is not None:
                    return (float(top[0]), float(top[1])), "", failed
                why.append(f"{exchange.name} has no market of {base}")
        return None, "; ".join(why), failed

    async def mark(self, instrument: str, at: datetime, *, buys: bool) -> Mark | str:
        price = await self.price(instrument, at, buys=buys)
        return price if isinstance(price, str) else Mark(price, at)

    async def close(self) -> None:
        for exchange in self._exchanges:
            await exchange.close()


class BarPrices:
    """The open of the first bar that opens at or after the order, as outcomes measure it (docs/adr/0020)."""

    def __init__(self, series: Sequence[PriceSeries]) -> None:
        self._markets = Markets(series)

    async def price(self, instrument: str, at: datetime, *, buys: bool) -> float | str:
        at_ms = round(at.timestamp() * 1000)
        if (series := self._series(instrument, at_ms)) is None:
            return _no_prices(instrument, at)
        place = first_bar_from(series, at_ms, ENTRY_WITHIN_S, at_ms)
        if isinstance(place, int):
            return series.opens[place]
        return f"the prices of {instrument} have no bar from {at:%Y-%m-%d %H:%M} UTC on: newsproof outcomes import"

    async def mark(self, instrument: str, at: datetime, *, buys: bool) -> Mark | str:
        """Return the open of the newest bar within a day before ``at``."""
        at_ms = round(at.timestamp() * 1000)
        series = self._series(instrument, at_ms)
        newest = -1 if series is None else bisect_right(series.times_ms, at_ms) - 1
        if series is None or newest < 0 or series.times_ms[newest] < at_ms - _BEFORE_MS:
            return _no_prices(instrument, at)
        return Mark(series.opens[newest], datetime.fromtimestamp(series.times_ms[newest] / 1000, UTC))

    def _series(self, instrument: str, at_ms: int) -> PriceSeries | None:
        case = JudgedCase(case_id="", asset="", symbol=instrument, venue="", knowable_at_ms=at_ms)
        return self._markets.of(case)

    async def close(self) -> None:
        pass


def _no_prices(instrument: str, at: datetime) -> str:
    return f"there are no prices of {instrument} on {at:%Y-%m-%d}: newsproof outcomes import"


class InventedPrices:
    """Prices that are made up, about 100 for every instrument: the same for the same minute. They say nothing of a market."""

    async def price(self, instrument: str, at: datetime, *, buys: bool) -> float:
        minute = int(at.timestamp() // 60)
        return round(100.0 * exp(Random(f"{instrument} {minute}").gauss(0.0, 0.005)), 2)

    async def mark(self, instrument: str, at: datetime, *, buys: bool) -> Mark:
        return Mark(await self.price(instrument, at, buys=buys), at)

    async def close(self) -> None:
        pass


class ImportedPrices:
    """As :class:`BarPrices`, of the bars that were imported into ClickHouse."""

    def __init__(self, tables: ClickHouse | None) -> None:
        self._tables = tables

    async def price(self, instrument: str, at: datetime, *, buys: bool) -> float | str:
        bars = await self._bars(instrument, at)
        return bars if isinstance(bars, str) else await bars.price(instrument, at, buys=buys)

    async def mark(self, instrument: str, at: datetime, *, buys: bool) -> Mark | str:
        try:
            bars = await self._bars(instrument, at)
        except (ConfigError, TransientError, PermanentError) as exc:
            return quoted(exc)
        return bars if isinstance(bars, str) else await bars.mark(instrument, at, buys=buys)

    async def _bars(self, instrument: str, at: datetime) -> BarPrices | str:
        if self._tables is None:
            return "no ClickHouse is known: set CLICKHOUSE_URL"
        at_ms = round(at.timestamp() * 1000)
        until_ms = at_ms + ENTRY_WITHIN_S * 1000 + 1
        return BarPrices(
            await stored_bars(
                self._tables, symbols=[market_symbol(instrument)], since_ms=at_ms - _BEFORE_MS, until_ms=until_ms
            )
        )

    async def close(self) -> None:
        if self._tables is not None:
            await self._tables.close()


class Paper:
    """A destination without a market. Its book is what was delivered, so it cannot be read: :func:`paper_book` folds it."""

    def __init__(self, bot: BotDefinition, prices: FillPrices) -> None:
        """
        Raises:
            ConfigError: an instrument of the map names no market.
        """
        try:
            self._instruments = [market_symbol(instrument) for instrument in bot.map.values()]
        except ConfigError as exc:
            raise ConfigError(f"[{bot.name}] map: {exc}; on paper it needs one") from exc
        self._prices, self._fee, self._name = prices, bot.fee_bps / 10_000, bot.name

    async def check(self) -> None:
        """Ask an exchange for each instrument's price. Imported bars end before now, so they are not asked."""
        if isinstance(self._prices, ExchangePrices):
            for instrument in self._instruments:
                try:
                    await self._prices.check(instrument)
                except ConfigError as exc:
                    raise ConfigError(f"[{self._name}] map: {exc}") from exc

    async def positions(self) -> Mapping[str, RemotePosition] | None:
        return None

    async def perform(self, order: Order) -> Result:
        """Fill the order. Without a price an entry is refused, and an exit waits for one."""
        buys = (order.intent == "enter") == (order.side == "long")
        try:
            price = await self._prices.price(order.instrument, order.at, buys=buys)
        except (ConfigError, TransientError, PermanentError) as exc:
            price = quoted(exc)
        if not isinstance(price, str):
            return Result(outcome="delivered", reason="filled on paper", price=price, fee=self._fee)
        if order.intent == "enter":
            return Result(outcome="refused", reason=f"no fill: {price}")
        return Result(outcome="throttled", reason=f"no fill yet: {price}", wait_s=WAIT_S)

    async def close(self) -> None:
        await self._prices.close()


class PaperTrade(msgspec.Struct, frozen=True, kw_only=True):
    """A position on paper. ``entry``: the delivery's id. ``exited_at``: None while it is open; then ``exit_price`` is the mark.

    Times are those of the orders. ``profit``: a share of the stake after the fees of both fills (of the entry's, while it
    is open); None for an open position without a mark.
    """

    entry: str
    signal_id: str
    asset: str
    instrument: str
    side: Side
    entered_at: datetime
    entry_price: float
    exited_at: datetime | None
    exit_price: float | None
    profit: float | None


def paper_book(
    records: Iterable[DeliveryRecord], bot: str, marks: Mapping[str, float] | None = None
) -> list[PaperTrade]:
    """Return the trades of one bot, in order of entry: the fold of its deliveries.

    Every trade has the same stake, so the profits of several may be added. ``marks``: instrument → its price now.
    """
    planned: dict[str, Planned] = {}
    fills: dict[str, Settled] = {}
    for record in records:
        if isinstance(record, Planned) and record.bot == bot and record.intent != "notify":
            planned.setdefault(record.id, record)
        elif isinstance(record, Settled) and record.delivery in planned:
            fills[record.delivery] = record
    filled = {id: fill for id, fill in fills.items() if fill.outcome == "delivered" and fill.price is not None}
    exits = {
        delivery.entry: delivery for delivery in planned.values() if delivery.intent == "exit" and delivery.id in filled
    }
    return [
        _trade(delivery, filled[delivery.id], exits.get(delivery.id), filled, marks or {})
        for delivery in planned.values()
        if delivery.intent == "enter" and delivery.id in filled
    ]


def _trade(
    entry: Planned, fill: Settled, ends: Planned | None, filled: Mapping[str, Settled], marks: Mapping[str, float]
) -> PaperTrade:
    last = filled[ends.id] if ends is not None else None
    leave = last.price if last is not None else marks.get(entry.instrument)
    assert fill.price is not None and entry.side is not None
    profit = None
    if leave is not None:
        ratio, sign = leave / fill.price, 1 if entry.side == "long" else -1
        profit = sign * (ratio - 1) - fill.fee - (last.fee * ratio if last is not None else 0.0)
    return PaperTrade(
        entry=entry.id,
        signal_id=entry.signal_id,
        asset=entry.asset,
        instrument=entry.instrument,
        side=entry.side,
        entered_at=entry.planned_at,
        entry_price=fill.price,
        exited_at=ends.planned_at if ends is not None else None,
        exit_price=leave,
        profit=profit,
    )
