"""One row of the table against the product: the real adapter, breaker and call record, over HTTP against the server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import msgspec

from infra.http import UselessAnswerError
from infra.models.call_costs import Prices
from infra.models.embeddings.port import Embedder, packed
from infra.ports import Answer, Port, Ports
from schemas.calls import Call, ProviderMode
from schemas.effects import CallModel, Recall, RecallReply, Search
from streams.effects.breakers import Breakers, BreakerState
from streams.effects.host import EffectsHost
from tests.conformance.gemini import GeminiServer
from tests.conformance.keyed_searches import BochaServer, RagflowServer, TavilyServer
from tests.conformance.open_searches import ArxivServer, GdeltServer, SearxngServer
from tests.conformance.openai import OpenAIServer
from tests.conformance.rows import Row
from tests.conformance.server import ConformanceServer
from tests.infra.fakes import embeddings, gemini, openai, tavily
from tests.infra.fakes.gemini import ASK as MODEL
from tests.infra.fakes.gemini import PLAN
from tests.infra.fakes.gemini import SCHEMA as SHORT
from tests.infra.fakes.searching import ADAPTERS

NOW = datetime(2026, 11, 23, tzinfo=UTC)
DIMENSIONS = 256
SCHEMA = {**SHORT, "additionalProperties": False}
SEARCH = Search(provider="any", query="USDC Circle depeg 官方声明", max_results=5, as_of=NOW)
MODEL_ASKED: dict[str, CallModel] = {
    "plain": MODEL,
    "json": msgspec.structs.replace(MODEL, response_schema=SCHEMA),
    "function": msgspec.structs.replace(MODEL, functions=(PLAN,), forced_function=PLAN.name),
    "thinking low": msgspec.structs.replace(MODEL, thinking="low"),
    "thinking medium": msgspec.structs.replace(MODEL, thinking="medium"),
    "thinking high": msgspec.structs.replace(MODEL, thinking="high"),
}
SEARCH_ASKED: dict[str, Search] = {
    "plain": SEARCH,
    "advanced": msgspec.structs.replace(SEARCH, depth="advanced"),
    "domains": msgspec.structs.replace(SEARCH, include_domains=("circle.com", "sec.gov")),
    "since": msgspec.structs.replace(SEARCH, since=datetime(2026, 11, 1, tzinfo=UTC)),
    "news": msgspec.structs.replace(SEARCH, topic="news"),
    "long ago": msgspec.structs.replace(SEARCH, as_of=datetime(2026, 1, 5, tzinfo=UTC)),
}
RECALL = Recall(text="USDC loses its peg", asset="USDC", as_of=NOW, limit=5, exclude_case="")


class VectorPort:
    """An embedding model as a port, as memory uses it: a reply with the vector, or the error."""

    mode: ProviderMode = "live"

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self.provider = embedder.provider

    async def perform(self, effect: Recall) -> Answer:
        try:
            made = await self._embedder.embed(effect.text)
        except UselessAnswerError as exc:
            return exc.answer
        vector = packed(made.vector, self._embedder.rows, effect.text)
        return Answer(reply=RecallReply(entries=(), embedding=vector), cost_usd=made.cost_usd)

    def worst_case_usd(self, effect: Recall) -> Decimal | None:
        return self._embedder.worst_case_usd(effect.text)

    def quota_units(self, effect: Recall) -> int:
        return 0

    async def close(self) -> None:
        await self._embedder.close()


def _vectors(make: Callable[..., Embedder]) -> Callable[..., Port]:
    return lambda url, **given: VectorPort(make(url, **{"dimensions": DIMENSIONS, **given}))


def _openai_vectors(url: str, **given: Any) -> Embedder:
    return embeddings.openai_adapter(url, **{"prices": Prices(provider="openai"), **given})


@dataclass(frozen=True)
class Provider:
    """Its server, its real adapter, and what it is asked. ``guarded``: whether it has a breaker."""

    server: type[ConformanceServer]
    make: Callable[..., Port]
    asked: dict[str, Any]
    guarded: bool = True


PROVIDERS = {
    "gemini": Provider(
        GeminiServer,
        lambda url, **given: gemini.adapter(url, **{"model": "gemini-2.5-flash-lite", **given}),
        MODEL_ASKED,
    ),
    "gemini vectors": Provider(GeminiServer, _vectors(embeddings.gemini_adapter), {"plain": RECALL}, guarded=False),
    "openai": Provider(
        OpenAIServer, lambda url, **given: openai.adapter(url, **{"model": "gpt-4.1-mini", **given}), MODEL_ASKED
    ),
    "openai vectors": Provider(OpenAIServer, _vectors(_openai_vectors), {"plain": RECALL}, guarded=False),
    "tavily": Provider(TavilyServer, tavily.adapter, SEARCH_ASKED),
    "bocha": Provider(BochaServer, ADAPTERS["bocha"], SEARCH_ASKED),
    "ragflow": Provider(RagflowServer, ADAPTERS["ragflow"], SEARCH_ASKED),
    "arxiv": Provider(ArxivServer, ADAPTERS["arxiv"], SEARCH_ASKED),
    "gdelt": Provider(
        GdeltServer, lambda url, **given: ADAPTERS["gdelt"](url, **{"now": lambda: NOW, **given}), SEARCH_ASKED
    ),
    "searxng": Provider(
        SearxngServer, lambda url, **given: ADAPTERS["searxng"](url, **{"now": lambda: NOW, **given}), SEARCH_ASKED
    ),
}


@dataclass(frozen=True)
class Outcome:
    """What came of one row. ``breaker`` None: the provider has none. ``worst_usd``: what was reserved."""

    call: Call
    server: ConformanceServer
    breaker: BreakerState | None
    worst_usd: Decimal | None


@asynccontextmanager
async def asked(provider: str, row: Row) -> AsyncIterator[tuple[EffectsHost, Any, ConformanceServer]]:
    """Return the host with the adapter, what to ask, and the server in the row's situation.

    Raises:
        RuntimeError: the server itself failed, so that what came of it says nothing of the product.
    """
    of = PROVIDERS[provider]
    assert row.ask in of.asked, f"{provider} cannot be asked {row.ask!r} yet"
    async with of.server(row.situation) as server:
        port = of.make(server.url, **{"timeout_s": 30.0, **row.settings})
        effect = of.asked[row.ask]
        if isinstance(effect, Search):
            effect = msgspec.structs.replace(effect, provider=provider)
        ports = Ports(models={"heavy": port}, search={provider: port}, recall=port)
        host = EffectsHost(ports, breakers=Breakers(draw=lambda: 0.0))
        try:
            yield host, effect, server
        finally:
            await host.close()
        if server.broken:
            raise RuntimeError("the server of the test broke; mend it") from server.broken[0]


async def outcome(provider: str, row: Row) -> Outcome:
    """Ask once."""
    async with asked(provider, row) as (host, effect, server):
        worst = next(iter(host._ports.chain(effect))).worst_case_usd(effect)
        (call,) = await host.perform(effect, case_id="case", head_id="head", attempt=1)
        breaker = host.states()[0] if PROVIDERS[provider].guarded else None
        return Outcome(call, server, breaker, worst)
