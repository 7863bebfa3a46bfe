"""Every way in which a source of market data can fail, whoever asks: a failure of its kind, asked once, and never an unknown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from schemas.effects import Failure, FetchCandles, FetchMarket, Reply
from tests.infra.fakes.market import AS_OF, BINANCE_NONE, COINBASE_NONE, SOURCES, market, research
from tests.infra.fakes.server import Behaviour, Drip, Flood, HangUp, Reset, Say, StaySilent

KEYS = {f"{name}_api_key": f"{name}-secret" for name in ("coingecko", "fred", "coinmetrics")}
CANDLES = FetchCandles(asset="BTC", interval="1h", limit=4, as_of=AS_OF)


async def price(behaviour: Behaviour) -> Reply:
    async with market(coinbase=COINBASE_NONE, binance=behaviour) as (port, _):
        return (await port.perform(FetchMarket(kind="price", asset="BTC", as_of=AS_OF))).reply


async def candles(behaviour: Behaviour) -> Reply:
    async with research(coinbase=COINBASE_NONE, binance=behaviour) as (ports, _):
        return (await ports["candles"].perform(CANDLES)).reply


async def coingecko(behaviour: Behaviour) -> Reply:
    # It keeps a year, so its figures are of today.
    effect = FetchMarket(kind="price", asset="BTC", as_of=datetime.now(UTC))
    async with research(coinbase=COINBASE_NONE, binance=BINANCE_NONE, coingecko=behaviour) as (ports, _):
        return (await ports["market"].perform(effect)).reply


async def economy(behaviour: Behaviour) -> Reply:
    async with research(fred=behaviour) as (ports, _):
        return (await ports["market"].perform(FetchMarket(kind="economy", asset="BTC", as_of=AS_OF))).reply


Asks = Callable[[Behaviour], Awaitable[Reply]]
EVERYBODY: tuple[Asks, ...] = (price, candles, coingecko, economy)
USELESS, NETWORK = ("invalid_output", True), ("network", True)
FAILURES: list[tuple[tuple[Asks, ...], Behaviour, tuple[str, bool]]] = [
    (EVERYBODY, Say({"msg": "slow"}, status=429, headers={"retry-after": "7"}), ("rate_limit", True)),
    (EVERYBODY, Say(b"<html>busy</html>"), USELESS),
    (EVERYBODY, Reset(), NETWORK),
    (EVERYBODY, HangUp(), NETWORK),
    ((price,), Say({"code": 0, "msg": "banned"}, status=418), ("refused", False)),
    ((price, candles), Say({"code": 0, "msg": "region"}, status=451), ("refused", False)),
    ((price, candles), Say({"code": -1100, "msg": "Illegal characters"}, status=400), ("invalid_request", False)),
    ((price,), Say(b"", status=302, headers={"location": "/x"}), ("not_configured", False)),
    ((price,), Say({"error": []}), USELESS),
    ((price,), Say([["a"]]), USELESS),
    ((price,), Say([[1, "x", "y", "z", "0", "1"]]), USELESS),
    ((price,), Flood(), ("too_large", False)),
    ((candles,), Say([[1, 2, 3]]), USELESS),
    ((candles,), Say([[1717581600000, "x", "1", "1", "1", "1", 0]]), USELESS),
    ((candles,), Say([[1717581600000, "5", "1", "9", "5", "1", 0]]), USELESS),  # the low above the high
    ((candles,), Say([[1717581600000, "0", "0", "0", "0", "1", 0]]), USELESS),
    ((coingecko,), Say({"error": "coin"}), USELESS),
    ((coingecko,), Say({"prices": [["a", "b"]], "total_volumes": [], "market_caps": []}), USELESS),
    ((coingecko,), Say({"prices": []}), USELESS),
    ((coingecko,), Say(b"", status=500), ("unavailable", True)),
    ((economy,), Say(b"observation_date,OTHER\n2024-06-03,1\n"), USELESS),
    ((economy,), Say(b""), USELESS),
    ((economy,), Say(b"", status=502), ("unavailable", True)),
    ((economy,), Say(b"", status=504), ("timeout", True)),
    ((economy,), Say({"error": "?"}, status=404), ("invalid_request", False)),
]


@pytest.mark.parametrize(
    ("asks", "behaviour", "is_told"),
    [pytest.param(asks, how, told, id=f"{asks.__name__}-{told[0]}") for who, how, told in FAILURES for asks in who],  # type: ignore[attr-defined]
)
async def test_every_way_to_fail_is_a_failure_of_its_kind(
    asks: Asks, behaviour: Behaviour, is_told: tuple[str, bool]
) -> None:
    reply = await asks(behaviour)
    assert isinstance(reply, Failure), reply
    assert (reply.kind, reply.retryable) == is_told
    assert reply.retry_after_s == (7.0 if reply.kind == "rate_limit" else None)


@pytest.mark.parametrize(("settings", "silence"), [({}, StaySilent()), (KEYS, Drip())], ids=["keyless", "keys"])
@pytest.mark.parametrize("kind", ["price", "economy", "sentiment", "network", "candles"])
async def test_a_source_that_never_answers_is_a_timeout_and_is_asked_once(
    kind: Any, settings: dict[str, str], silence: Any
) -> None:
    effect: FetchMarket | FetchCandles = FetchMarket(kind=kind, asset="BTC", as_of=AS_OF)
    if kind == "candles":
        effect = FetchCandles(asset="BTC", interval="1h", limit=5, as_of=AS_OF)
    scripts: dict[str, Any] = dict.fromkeys(SOURCES, silence)
    async with research(settings={**settings, "deep_analysis_tool_timeout": 0.1}, **scripts) as (ports, servers):
        port = ports["candles" if kind == "candles" else "market"]
        reply = (await port.perform(effect)).reply
        asked = Counter(request.path for server in servers.values() for request in server.requests)
    assert isinstance(reply, Failure), reply
    assert (reply.kind, reply.retryable) == ("timeout", True)
    assert "0.1 s" in reply.message and "secret" not in reply.message
    assert set(asked.values()) <= {1}
