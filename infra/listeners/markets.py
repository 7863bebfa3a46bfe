"""An exchange's markets from ccxt, and news about their changes: a market is listed, halted, resumed or delisted."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Mapping
from typing import Any

from infra.http import quoted
from infra.listeners.failures import NotReadError
from infra.listeners.items import Entry, Item, item_of
from infra.listeners.source import Source
from infra.market.outcomes.exchange import moved

TIMEOUT_MS = 20_000
MAX_GONE = 0.2
"""Share of the markets that may disappear at once: more means an incomplete response, not news."""
States = dict[str, tuple[str, int]]
"""Market → its state (trades, halted, gone), and the number of changes so far."""


class Markets:
    """Reads the markets of one exchange. The first poll imports ccxt, which takes seconds."""

    def __init__(self, source: Source, *, base_url: str | None = None) -> None:
        """``base_url`` replaces the exchange's host with another that has the same protocol."""
        self._source, self._base_url = source, base_url
        self._api: Any = None

    async def look(self) -> dict[str, bool]:
        """Return market → whether it trades.

        Raises:
            NotReadError: the exchange does not respond, or ccxt does not know it.
        """
        return await asyncio.to_thread(self._look)  # parsing the list of a large exchange takes a second

    def _look(self) -> dict[str, bool]:
        ccxt: Any = importlib.import_module("ccxt")
        if self._source.url not in ccxt.exchanges:
            raise NotReadError(f"ccxt knows no exchange {self._source.url!r:.40}: correct url", "no_exchange")
        if self._api is None:
            options = {"enableRateLimit": True, "timeout": TIMEOUT_MS, "requests_trust_env": self._base_url is None}
            self._api = getattr(ccxt, self._source.url)(options)
            if isinstance(self._api.options.get("fetchMarkets"), dict):
                self._api.options["fetchMarkets"]["types"] = ["spot"]
            if self._base_url is not None:
                self._api.urls["api"] = moved(self._api.urls["api"], self._base_url)
        try:
            markets = self._api.fetch_markets()
        except ccxt.BaseError as exc:
            raise NotReadError(quoted(exc), "unavailable") from exc
        return {str(market["symbol"]): market.get("active") is not False for market in markets if market.get("spot")}


def changes(
    source: Source, before: Mapping[str, tuple[str, int]], listed: Mapping[str, bool]
) -> tuple[States, tuple[Item, ...]]:
    """Return the states after a poll, and an item for each change. The first poll, without ``before``, has no items.

    Raises:
        NotReadError: so many markets are missing that the response must be incomplete.
    """
    now = {symbol: "trades" if active else "halted" for symbol, active in listed.items()}
    there = {symbol for symbol, (state, _) in before.items() if state != "gone"}
    if len(there - now.keys()) > MAX_GONE * len(there) + 1:
        raise NotReadError("it lists far fewer markets than before: the response seems incomplete", "unavailable")
    after: States = {}
    items: list[Item] = []
    for symbol in sorted(before.keys() | now.keys()):
        was, times = before.get(symbol, ("gone", 0))
        state = now.get(symbol, "gone")
        after[symbol] = (state, times + (state != was))
        if state != was and before and (item := _item(source, symbol, was, state, times + 1)):
            items.append(item)
    return after, tuple(items)


def _item(source: Source, symbol: str, was: str, state: str, times: int) -> Item | None:
    did = {
        "trades": "lists" if was == "gone" else "resumes trading of",
        "halted": "halts trading of",
        "gone": "delists",
    }
    title = f"{source.group.capitalize() or source.url} {did[state]} {symbol}"
    # Undated, because an exchange does not say when a market changed. The id contains no time, so a repeated poll makes
    # the same item.
    return item_of(Entry(guid=f"{source.url}:{symbol}:{state}:{times}", title=title), source)
