"""Mapping from a signal to the market that measures it, by its asset (BTC) or by the symbol that it names itself."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from infra.market.source import ticker
from schemas.errors import ConfigError
from schemas.prices import JudgedCase, PriceSeries

DOLLARS = ("USDT", "USD", "USDC", "FDUSD", "BUSD", "TUSD", "DAI")
"""Quote currencies that stand for dollars, best first. A price in any other currency also contains that currency's own
moves, so it is used only where the signal names the market itself.
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
    """The price series of one import. ``renamed`` maps an asset to the market it trades on, where the names differ."""

    def __init__(self, series: Iterable[PriceSeries], renamed: Mapping[str, str]) -> None:
        self._by_symbol: dict[str, list[PriceSeries]] = {}
        for one in series:
            self._by_symbol.setdefault(one.symbol, []).append(one)
        self._renamed = {asset.upper(): market_symbol(symbol) for asset, symbol in renamed.items()}

    def of(self, case: JudgedCase) -> PriceSeries | None:
        """Return the series that measures a case, or None."""
        for symbol in self._wanted(case):
            for one in self._by_symbol.get(symbol, ()):
                if not case.venue or case.venue.lower() == one.venue.lower():
                    return one
        return None

    def _wanted(self, case: JudgedCase) -> tuple[str, ...]:
        return wanted_symbols(case, self._renamed)


def wanted_symbols(case: JudgedCase, renamed: Mapping[str, str]) -> tuple[str, ...]:
    """Return the markets that measure a case, best first; none for an asset that is not a ticker ("crypto")."""
    if case.symbol:
        try:
            return (market_symbol(case.symbol),)
        except ConfigError:
            return ()
    asset = ticker(case.asset)
    if asset is None:
        return ()
    if asset in renamed:
        return (renamed[asset],)
    return tuple(f"{asset}/{quote}" for quote in DOLLARS if quote != asset)
