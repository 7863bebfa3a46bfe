"""The wire shapes of the sources of market data, and both flows' ports against fakes of all of them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from infra.market import VALUES
from infra.market.ports import LiveMarket, live_market, live_research
from infra.ports import Port
from infra.settings import Settings, load_settings
from tests.infra.fakes.server import Behaviour, FakeServer, Received, Say, _receive

AS_OF = datetime(2024, 6, 5, 12, 2, 30, tzinfo=UTC)
"""A Wednesday."""
DOWN = Say({"message": "maintenance"}, status=503)
COINBASE_NONE = Say({"message": "NotFound"}, status=404)
BINANCE_NONE = Say({"code": -1121, "msg": "Invalid symbol."}, status=400)
SOURCES = (
    *("coinbase", "binance", "coingecko", "fear_greed", "fred", "fred_api", "blockchain_info", "defillama"),
    *("defillama_stablecoins", "coinmetrics"),
)
CHANGES = ("_change_1d", "_change_7d")


def known_name(kind: str, name: str) -> bool:
    """Return whether ``VALUES`` has the name, itself or as the change of one marked with ``*``."""
    names = VALUES[kind]
    return name in names or any(
        name.endswith(change) and names.get(name.removesuffix(change), "").endswith("*") for change in CHANGES
    )


class Routed(FakeServer):
    """Responds by a part of the address, so that requests may come in any order. The first match is used."""

    def __init__(self, routes: Mapping[str, Behaviour]) -> None:
        super().__init__(DOWN)
        self._routes = dict(routes)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            try:
                while not writer.is_closing():
                    request = await _receive(reader)
                    self.requests.append(request)
                    fits = (told for part, told in self._routes.items() if part in unquote(request.path))
                    await next(fits, DOWN).respond(reader, writer)
            finally:
                writer.close()


@asynccontextmanager
async def _serving(
    settings: Mapping[str, Any], routes: Mapping[str, Mapping[str, Behaviour] | Behaviour]
) -> AsyncIterator[tuple[Settings, dict[str, Routed]]]:
    async with AsyncExitStack() as stack:
        servers = {}
        for name in SOURCES:
            told = routes.get(name, DOWN)
            servers[name] = await stack.enter_async_context(Routed(told if isinstance(told, Mapping) else {"": told}))
        urls = {f"{name}_base_url": server.url for name, server in servers.items()}
        made = {**urls, "deep_analysis_tool_timeout": 60.0, "newsproof_mode": "live", **settings}
        yield load_settings(**made), servers


@asynccontextmanager
async def research(
    *, settings: Mapping[str, Any] | None = None, **routes: Mapping[str, Behaviour] | Behaviour
) -> AsyncIterator[tuple[dict[str, Port], dict[str, Routed]]]:
    """Return the chat's live-mode ports and the servers that they call. A source without a script is down."""
    async with _serving(settings or {}, routes) as (made, servers):
        ports: dict[str, Port] = dict(live_research(made))
        try:
            yield ports, servers
        finally:
            for port in ports.values():
                await port.close()


@asynccontextmanager
async def market(**routes: Mapping[str, Behaviour] | Behaviour) -> AsyncIterator[tuple[LiveMarket, dict[str, Routed]]]:
    """Return the news pipeline's live-mode port and the servers that it calls. A source without a script is down."""
    async with _serving({}, routes) as (made, servers):
        port = live_market(made)
        try:
            yield port, servers
        finally:
            await port.close()


def asked(request: Received) -> dict[str, str]:
    """Return the parameters of a request."""
    return {name: values[0] for name, values in parse_qs(urlsplit(request.path).query).items()}


def epoch(day: str) -> int:
    return int(datetime.fromisoformat(f"{day}+00:00" if "T" in day else f"{day}T00:00:00+00:00").timestamp())


def coingecko(points: Mapping[datetime, tuple[float, float, float]]) -> Say:
    """When → (price, volume of a day, market value), as ``market_chart/range`` writes them."""
    names = ("prices", "total_volumes", "market_caps")
    return Say(
        {
            name: [[int(at.timestamp() * 1000), row[n]] for at, row in sorted(points.items())]
            for n, name in enumerate(names)
        }
    )


Bar = tuple[Any, ...]
"""(begin in epoch seconds, open, high, low, close, volume)."""


def _coinbase(*bars: Bar) -> Say:
    """Newest first as (time, low, high, open, close, volume), numbers bare."""
    rows = (
        (at, low, high, opened, close, volume) for at, opened, high, low, close, volume in sorted(bars, reverse=True)
    )
    return Say(f"[{', '.join('[' + ', '.join(map(str, row)) + ']' for row in rows)}]".encode())


def _binance(*bars: Bar, lasting_s: int) -> Say:
    """Oldest first, numbers as texts."""
    return Say(
        [
            [at * 1000, *map(str, figures), (at + lasting_s) * 1000 - 1, "0", 7, "0", "0", "0"]
            for at, *figures in sorted(bars)
        ]
    )


def coinbase_bars(*bars: tuple[str, float, float, float, float, float]) -> Say:
    """(begin, open, high, low, close, volume)."""
    return _coinbase(*((epoch(at), *figures) for at, *figures in bars))


def binance_bars(*bars: tuple[str, float, float, float, float, float]) -> Say:
    """The same, an hour each."""
    return _binance(*((epoch(at), *figures) for at, *figures in bars), lasting_s=3600)


def coinbase(*candles: tuple[int, str, str, str, str]) -> Say:
    """(began, low, high, close, volume); each opened at its low."""
    return _coinbase(*((at, low, high, low, close, volume) for at, low, high, close, volume in candles))


def binance(*candles: tuple[int, str, str, str, str]) -> Say:
    """The same, five minutes each."""
    return _binance(*((at, low, high, low, close, volume) for at, low, high, close, volume in candles), lasting_s=300)


def fred(series: str, *rows: tuple[str, str]) -> Say:
    text = "\n".join([f"observation_date,{series}", *(f"{day},{value}" for day, value in rows)]) + "\n"
    return Say(text.encode(), headers={"content-type": "application/csv"})


def observations(*rows: tuple[str, str]) -> Say:
    return Say({"count": len(rows), "observations": [{"date": day, "value": value} for day, value in rows]})


def mood(*days: tuple[str, str]) -> Say:
    rows = [{"value": v, "value_classification": "Greed", "timestamp": str(epoch(day))} for day, v in days]
    return Say({"name": "Fear and Greed Index", "data": rows, "metadata": {"error": None}})


def chart(*days: tuple[str, float]) -> Say:
    values = [{"x": epoch(day), "y": y} for day, y in days]
    return Say({"status": "ok", "name": "n", "unit": "u", "period": "day", "values": values})


def coinmetrics(asset: str, *days: Mapping[str, Any]) -> Say:
    rows = [{"asset": asset, **day, "time": f"{day['time']}T00:00:00.000000000Z"} for day in days]
    return Say({"data": rows})


def days(*values: Any, last: str = "2024-06-04") -> list[tuple[str, Any]]:
    """The values as those of the days up to ``last``."""
    end = datetime.fromisoformat(last)
    return [(f"{end - timedelta(days=len(values) - 1 - n):%Y-%m-%d}", value) for n, value in enumerate(values)]
