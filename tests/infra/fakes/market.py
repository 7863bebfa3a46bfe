"""The wire shapes of the market sources, and their port against fakes of all of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from infra.market.macro import MacroFigures
from infra.market.onchain import OnchainFigures
from infra.market.port import LiveMarket
from infra.market.price import Prices
from tests.infra.fakes.server import Behaviour, FakeServer, Say

AS_OF = datetime(2024, 6, 3, 12, 2, 30, tzinfo=UTC)
SOURCES = ("coinbase", "binance", "fear_greed", "fred", "defillama", "stablecoins", "blockchain_info")
DOWN = Say({"message": "maintenance"}, status=503)
COINBASE_NONE = Say({"message": "NotFound"}, status=404)
BINANCE_NONE = Say({"code": -1121, "msg": "Invalid symbol."}, status=400)


def began(minutes_before: int) -> int:
    """Return the epoch second at which a five-minute candle began, counted from 12:00."""
    return int((datetime(2024, 6, 3, 12, tzinfo=UTC) - timedelta(minutes=minutes_before)).timestamp())


def coinbase(*candles: tuple[int, str, str, str, str]) -> Say:
    """(began, low, high, close, volume), newest first, numbers bare as Coinbase writes them."""
    rows = ", ".join(f"[{at}, {low}, {high}, {low}, {close}, {volume}]" for at, low, high, close, volume in candles)
    return Say(f"[{rows}]".encode())


def binance(*candles: tuple[int, str, str, str, str]) -> Say:
    """The same candles, oldest first, numbers as texts."""
    return Say(
        [
            [at * 1000, low, high, low, close, volume, at * 1000 + 299_999, "0", 7, "0", "0", "0"]
            for at, low, high, close, volume in reversed(candles)
        ]
    )


def mood(*days: tuple[str, str]) -> Say:
    data = [
        {
            "value": value,
            "value_classification": "Fear",
            "timestamp": str(int(datetime.fromisoformat(f"{day}T00:00:00+00:00").timestamp())),
        }
        for day, value in days
    ]
    return Say({"name": "Fear and Greed Index", "data": data, "metadata": {"error": None}})


def fred(*rows: str) -> Say:
    text = "\n".join(["observation_date,DGS10,VIXCLS", *rows]) + "\n"
    return Say(text.encode(), headers={"content-type": "application/csv"})


def series(name: str, *days: tuple[str, Any]) -> Say:
    return Say(
        [{"date": int(datetime.fromisoformat(f"{day}T00:00:00+00:00").timestamp()), name: value} for day, value in days]
    )


def chart(*days: tuple[str, float]) -> Say:
    values = [{"x": int(datetime.fromisoformat(f"{day}T00:00:00+00:00").timestamp()), "y": y} for day, y in days]
    return Say({"status": "ok", "name": "n", "unit": "u", "period": "day", "values": values})


@asynccontextmanager
async def market(**scripts: Behaviour | Sequence[Behaviour]) -> AsyncIterator[tuple[LiveMarket, dict[str, FakeServer]]]:
    """Return the port; a source without a script is down."""
    async with AsyncExitStack() as stack:
        servers = {}
        for name in SOURCES:
            script = scripts.get(name, DOWN)
            behaviours = script if isinstance(script, Sequence) else [script]
            servers[name] = await stack.enter_async_context(FakeServer(*behaviours))
        at = {name: server.url for name, server in servers.items()}
        port = LiveMarket(
            price=Prices(coinbase=at["coinbase"], binance=at["binance"], timeout_s=60.0, pegs=True),
            macro=MacroFigures(fear_greed=at["fear_greed"], fred=at["fred"], timeout_s=60.0),
            onchain=OnchainFigures(
                defillama=at["defillama"],
                stablecoins=at["stablecoins"],
                blockchain_info=at["blockchain_info"],
                timeout_s=60.0,
            ),
        )
        try:
            yield port, servers
        finally:
            await port.close()
