"""Mapping from a signal to the market that measures it, by its asset (BTC) or by the symbol that it names."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import lru_cache

from infra.market.source import ticker
from schemas.errors import ConfigError
from schemas.prices import NO_END_MS, JudgedCase, PriceSeries, Renaming

ENTRY_WITHIN_S = 900
"""Seconds after the earliest entry within which a bar must open; otherwise there is a gap. Bars of 15 minutes or less
always fit."""

DOLLARS = ("USDT", "USD", "USDC", "FDUSD", "BUSD", "TUSD", "DAI")
"""Quote currencies that count as dollars, best first. A price in any other currency also contains that currency's own
moves, so it is used only if the signal names the market itself.
"""
_WRITTEN = re.compile(r"([A-Z0-9]{1,20})[/_-]([A-Z0-9]{1,12})(?::[A-Z0-9-]{1,24})?\Z")


def market_symbol(written: str) -> str:
    """Normalise ``BTC/USDT``, ``btc-usd`` or ``BTCUSDT`` to ``BASE/QUOTE`` (``BASE/QUOTE:SETTLE`` for a derivative).

    Raises:
        ConfigError: the text does not name a market.
    """
    text = written.strip().upper()
    if match := _WRITTEN.match(text):
        return f"{match[1]}/{match[2]}{text[match.end(2) :]}"
    for quote in DOLLARS:
        base = text.removesuffix(quote)
        if base != text and ticker(base):
            return f"{base}/{quote}"
    raise ConfigError(f"{written!r:.60} names no market: write base and quote, such as BTC/USDT")


class Markets:
    """Price series, and the markets that assets were renamed to (the row that begins last applies)."""

    def __init__(self, series: Iterable[PriceSeries], renamed: Iterable[Renaming] = ()) -> None:
        self._by_symbol: dict[str, list[PriceSeries]] = {}
        for prices in series:
            self._by_symbol.setdefault(prices.symbol, []).append(prices)
        for of_symbol in self._by_symbol.values():
            # Of several venues, the one imported last comes first; the name decides only if that is equal.
            of_symbol.sort(key=lambda prices: (-max(prices.imports, default=0), prices.venue))
        self._renamed = tuple(renamed)

    def of(self, case: JudgedCase) -> PriceSeries | None:
        """Return the series that measures a case from its entry on, or None.

        If there are several, it is the first one with a bar near the entry, otherwise the first one.
        """
        at_ms = case.entry_from_ms
        candidates = [
            prices
            for symbol in wanted_symbols(case, self._renamed)
            for prices in self._by_symbol.get(symbol, ())
            if not case.venue or case.venue.lower() == prices.venue.lower()
        ]
        return next(
            (prices for prices in candidates if _trades_at(prices, at_ms)), candidates[0] if candidates else None
        )


def _trades_at(series: PriceSeries, at_ms: int) -> bool:
    place = bisect_left(series.times_ms, at_ms)
    return place < len(series.times_ms) and series.times_ms[place] - at_ms <= ENTRY_WITHIN_S * 1000


def wanted_symbols(case: JudgedCase, renamed: Iterable[Renaming]) -> tuple[str, ...]:
    """Return the markets that measure a case at its entry, best first; empty if its asset is no ticker ("crypto")."""
    if case.symbol:
        try:
            return (market_symbol(case.symbol),)
        except ConfigError:
            return ()
    asset = ticker(case.asset)
    if asset is None:
        return ()
    at_ms = case.entry_from_ms
    rows = [row for row in renamed if row.asset == asset and row.from_ms <= at_ms < row.until_ms]
    if rows:
        # Of two that begin at the same time, the later import's: a mistake is corrected by importing again.
        return (max(enumerate(rows), key=lambda row: (row[1].from_ms, row[0]))[1].symbol,)
    return _in_dollars(asset)


@lru_cache(maxsize=1024)  # an event study calls it three times for each of its signals
def _in_dollars(asset: str) -> tuple[str, ...]:
    return tuple(f"{asset}/{quote}" for quote in DOLLARS if quote != asset)


def renaming(written: str) -> Renaming:
    """Parse ``ASSET=BASE/QUOTE``, ``…@FROM`` or ``…@FROM..UNTIL``. Times are ISO 8601, UTC without a zone.

    Either end is optional.

    Raises:
        ConfigError: the text has another form, or the time ends before it begins.
    """
    asset, equals, to = written.partition("=")
    symbol, at, span = to.partition("@")
    since, _, until = span.partition("..")
    if not (asset.strip() and equals and symbol) or (at and not (since or until)):
        raise ConfigError(
            f"--map {written!r:.60}: write ASSET=BASE/QUOTE, such as UST=USTC/USDT, or with dates "
            "MATIC=POL/USDT@2024-09-04 (from then on) and MATIC=MATIC/USDT@..2024-09-04 (until then)"
        )
    row = Renaming(
        asset=asset.strip().upper(),
        symbol=market_symbol(symbol),
        from_ms=_moment(written, since) if since else 0,
        until_ms=_moment(written, until) if until else NO_END_MS,
    )
    if row.from_ms >= row.until_ms:
        raise ConfigError(f"--map {written!r:.60} ends before it begins: write it as …@FROM..UNTIL")
    return row


def _moment(written: str, time: str) -> int:
    try:
        at = datetime.fromisoformat(time)
    except ValueError:
        raise ConfigError(f"--map {written!r:.60}: {time!r:.30} is no date, write it like 2024-09-04") from None
    return round((at.replace(tzinfo=UTC) if at.tzinfo is None else at).timestamp() * 1000)
