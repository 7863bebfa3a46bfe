"""Sources that never answer: every one has its end, is asked once, and is told of."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from schemas.effects import Failure, FetchCandles, FetchMarket
from tests.infra.fakes.market import AS_OF, SOURCES, research
from tests.infra.fakes.server import Drip, StaySilent

KEYS = {f"{name}_api_key": f"{name}-secret" for name in ("coingecko", "fred", "coinmetrics")}


@pytest.mark.parametrize("silence", [StaySilent(), Drip()], ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("settings", [{}, KEYS], ids=["keyless", "keys"])
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
