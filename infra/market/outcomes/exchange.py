"""Bars from an exchange's public API, through ccxt, which knows each exchange's wire format. Uses no API key.

Importing ccxt takes seconds, so the first exchange that is created imports it.
"""

from __future__ import annotations

import difflib
import importlib
import math
import re
from array import array
from collections.abc import Sequence
from typing import Any, NoReturn, Self
from urllib.parse import urlsplit

from infra.market.outcomes.markets import market_symbol
from schemas.errors import ConfigError, PermanentError, TransientError
from schemas.prices import PriceSeries

TIMEOUT_S = 20.0
RETRIES = 3
"""Number of times ccxt retries a request after a network failure."""
_RETRY_DELAY_MS = 1000
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
"""Hosts that are requested without a proxy."""
_PAGE = 1000
"""Bars per request. If an exchange returns fewer, the next request starts after the last bar."""

_REFUSED_HERE = re.compile(r" (403|451) ")
"""ccxt reports these statuses as an unavailable exchange and quotes them in its message."""

Bar = tuple[int, float, float, float, float, float]
"""Time in milliseconds, open, high, low, close, volume (NaN: the exchange does not state it), like ccxt's rows."""


class Exchange:
    """Reads the bars of one exchange, within its rate limit. Use as ``async with``."""

    def __init__(self, name: str, *, base_url: str | None = None) -> None:
        """``base_url`` replaces the host with a mirror that has the same protocol, such as ``https://host``.

        Raises:
            ConfigError: ccxt has no such exchange, or the exchange offers no bars.
        """
        self._ccxt: Any = importlib.import_module("ccxt.async_support")
        if name not in self._ccxt.exchanges:
            near = difflib.get_close_matches(name, self._ccxt.exchanges, n=3)
            raise ConfigError(
                f"--exchange {name!r:.40} is not an exchange that ccxt knows: write its id, such as {', '.join(near) or 'binance'}"
            )
        self.name = name
        self._api = getattr(self._ccxt, name)(
            {
                "enableRateLimit": True,
                "timeout": int(TIMEOUT_S * 1000),
                "aiohttp_trust_env": base_url is None or urlsplit(base_url).hostname not in _LOOPBACK,
                "options": {"maxRetriesOnFailure": RETRIES, "maxRetriesOnFailureDelay": _RETRY_DELAY_MS},
            }
        )
        if not self._api.has.get("fetchOHLCV"):
            raise ConfigError(f"{name} gives no bars: choose another exchange, or import a CSV file")
        if isinstance(self._api.options.get("fetchMarkets"), dict):
            self._api.options["fetchMarkets"]["types"] = ["spot"]  # binance would load its futures markets, too
        if base_url is not None:
            self._api.urls["api"] = moved(self._api.urls["api"], base_url.rstrip("/"))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self._api.close()

    async def bars(self, symbol: str, windows: Sequence[tuple[int, int]], *, timeframe: str) -> PriceSeries:
        """Return the bars that open within the windows: pairs of first and last millisecond, in order and disjoint.

        Raises:
            ConfigError: the exchange has no such market or timeframe.
            TransientError: it does not respond.
            PermanentError: it rejects the request, or returns invalid bars.
        """
        wanted = market_symbol(symbol)
        bars: list[Bar] = []
        try:
            if timeframe not in (self._api.timeframes or {}):
                known = ", ".join(self._api.timeframes or {})
                raise ConfigError(f"--timeframe {timeframe!r:.20}: {self.name} has {known}")
            await self._api.load_markets()
            self._refuse_unknown(wanted)
            for first, last in windows:
                await self._window(wanted, timeframe, first, last, bars)
        except self._ccxt.BaseError as exc:
            self._translate(exc)
        opens, highs, lows, closes, volumes = (array("d", (bar[place] for bar in bars)) for place in range(1, 6))
        return PriceSeries(
            symbol=wanted,
            venue=self.name,
            times_ms=array("q", (bar[0] for bar in bars)),
            opens=opens,
            highs=highs,
            lows=lows,
            closes=closes,
            volumes=volumes,
        )

    async def _window(self, symbol: str, timeframe: str, first: int, last: int, bars: list[Bar]) -> None:
        step = self._api.parse_timeframe(timeframe) * 1000
        since = first
        while since <= last:
            page = await self._api.fetch_ohlcv(symbol, timeframe, since, min(_PAGE, (last - since) // step + 2))
            newest = since - 1
            for bar in map(_bar, page or ()):
                newest = max(newest, bar[0])
                if since <= bar[0] <= last and (not bars or bar[0] > bars[-1][0]):
                    bars.append(bar)
            # Nothing newer: some exchanges return no bars for an empty time (a halt, or before the listing).
            since = newest + 1 if newest >= since else since + _PAGE * step

    def _refuse_unknown(self, symbol: str) -> None:
        if symbol in self._api.markets:
            return
        base = symbol.partition("/")[0]
        same = sorted(name for name in self._api.markets if name.startswith(f"{base}/"))[:5]
        has = f"it has {', '.join(same)}" if same else f"it trades no {base}"
        raise ConfigError(f"--symbol {symbol}: {self.name} has no such market; {has}")

    def _translate(self, exc: Exception) -> NoReturn:
        detail = f"{exc}"[:300]
        c = self._ccxt
        if isinstance(exc, c.ExchangeNotAvailable) and _REFUSED_HERE.search(detail):
            raise PermanentError(
                f"{self.name} does not serve this region: give a mirror (--base-url), use another exchange, or import a "
                f"CSV file ({detail})",
                kind="blocked",
            ) from exc
        if isinstance(exc, c.RateLimitExceeded | c.DDoSProtection):
            raise TransientError(
                f"{self.name} asks for fewer requests, try again later: {detail}", kind="rate_limit"
            ) from exc
        if isinstance(exc, c.RequestTimeout):
            raise TransientError(f"{self.name} did not respond in time, try again: {detail}", kind="timeout") from exc
        if isinstance(exc, c.NetworkError):
            raise TransientError(f"{self.name} cannot be reached, try again: {detail}", kind="network") from exc
        raise PermanentError(f"{self.name} refuses: import a CSV file, or use another exchange ({detail})") from exc


def _bar(row: Any) -> Bar:
    try:
        at, volume = int(row[0]), float("nan") if row[5] is None else float(row[5])
        opened, high, low, closed = (float(price) for price in row[1:5])
    except (TypeError, ValueError, IndexError) as exc:
        raise PermanentError(f"the exchange gives what is no bar ({row!r:.80}): import a CSV file instead") from exc
    possible = math.isfinite(high) and 0 < low <= min(opened, closed) <= max(opened, closed) <= high
    if not (possible and at > 0 and not volume < 0 and not math.isinf(volume)):
        raise PermanentError(f"the exchange gives an impossible price ({row!r:.80}): import a CSV file instead")
    return at, opened, high, low, closed, volume


def moved(urls: Any, base_url: str) -> Any:
    """Return an exchange's API addresses with another host and the same paths."""
    if isinstance(urls, dict):
        return {name: moved(url, base_url) for name, url in urls.items()}
    return base_url + urlsplit(urls).path if isinstance(urls, str) else urls
