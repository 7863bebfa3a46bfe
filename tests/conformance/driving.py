"""One row of the table against the product: the real adapter, breaker and call record, over HTTP against the server."""

from __future__ import annotations

import importlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import msgspec

from infra.http import UselessAnswerError
from infra.models.call_costs import Prices
from infra.models.embeddings.gemini import GeminiEmbedder
from infra.models.embeddings.openai_compatible import OpenAICompatibleEmbedder, embedding_service
from infra.models.embeddings.port import Embedder, packed
from infra.models.gemini import GeminiModel
from infra.models.gemini_client import GeminiClient
from infra.models.openai_client import OpenAICompatibleClient
from infra.models.openai_compatible import SERVICE, OpenAICompatibleModel
from infra.ports import Answer, Port, Ports
from infra.search.arxiv import ArxivSearch
from infra.search.bocha import BochaSearch
from infra.search.ragflow import RagflowSearch
from infra.search.tavily import TavilySearch
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
from tests.infra.fakes.gemini import ASK as MODEL
from tests.infra.fakes.gemini import PLAN
from tests.infra.fakes.gemini import SCHEMA as SHORT
from tests.infra.fakes.searching import pace

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
    **({"news": msgspec.structs.replace(SEARCH, **{"topic": "news"})} if "topic" in Search.__struct_fields__ else {}),
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


def _gemini(url: str, given: dict[str, Any]) -> Port:
    model = given.pop("model", "gemini-2.5-flash-lite")
    client = GeminiClient(base_url=url, **{"api_key": GeminiServer.key, **given})
    return GeminiModel(client, model=model, prices=Prices())


def _gemini_vectors(url: str, given: dict[str, Any]) -> Port:
    model, dimensions = given.pop("model", "gemini-embedding-001"), given.pop("dimensions", DIMENSIONS)
    client = GeminiClient(base_url=url, **{"api_key": GeminiServer.key, **given})
    return VectorPort(GeminiEmbedder(client, model=model, dimensions=dimensions))


def _openai(url: str, given: dict[str, Any]) -> Port:
    model = given.pop("model", "gpt-4.1-mini")
    settings = {"api_key": OpenAIServer.key, "prices": Prices(provider="openai"), **given}
    return OpenAICompatibleModel(OpenAICompatibleClient(SERVICE, base_url=f"{url}/v1", **settings), model=model)


def _openai_vectors(url: str, given: dict[str, Any]) -> Port:
    model, dimensions = given.pop("model", "text-embedding-3-small"), given.pop("dimensions", DIMENSIONS)
    service = embedding_service("OPENAI_API_KEY", "OPENAI_BASE_URL")
    settings = {"api_key": OpenAIServer.key, "prices": Prices(provider="openai"), **given}
    client = OpenAICompatibleClient(service, base_url=f"{url}/v1", **settings)
    return VectorPort(OpenAICompatibleEmbedder(client, model=model, dimensions=dimensions))


def _tavily(url: str, given: dict[str, Any]) -> Port:
    return TavilySearch(
        **{"base_url": url, "api_key": TavilyServer.key, "unit_cost_usd": TavilyServer.credit_usd, **given}
    )


def _bocha(url: str, given: dict[str, Any]) -> Port:
    return BochaSearch(
        **{"base_url": url, "api_key": BochaServer.key, "unit_cost_usd": BochaServer.search_usd, **given}
    )


def _ragflow(url: str, given: dict[str, Any]) -> Port:
    return RagflowSearch(
        **{"endpoint": url, "api_key": RagflowServer.key, "dataset_ids": RagflowServer.datasets, **given}
    )


def _arxiv(url: str, given: dict[str, Any]) -> Port:
    return ArxivSearch(**{"base_url": url, "pace": pace(), **given})


def _by_name(module: str, adapter: str, **more: Callable[[], Any]) -> Callable[[str, dict[str, Any]], Port]:
    """Return the maker of an adapter that may not be there yet.

    Raises:
        ModuleNotFoundError: on its first use, when it is not.
    """

    def make(url: str, given: dict[str, Any]) -> Port:
        made: Port = getattr(importlib.import_module(module), adapter)(
            **{"base_url": url, **{name: fresh() for name, fresh in more.items()}, **given}
        )
        return made

    return make


@dataclass(frozen=True)
class Provider:
    """Its server, its real adapter, and what it is asked. ``guarded``: whether it has a breaker."""

    server: type[ConformanceServer]
    make: Callable[[str, dict[str, Any]], Port]
    asked: dict[str, Any]
    guarded: bool = True


PROVIDERS = {
    "gemini": Provider(GeminiServer, _gemini, MODEL_ASKED),
    "gemini vectors": Provider(GeminiServer, _gemini_vectors, {"plain": RECALL}, guarded=False),
    "openai": Provider(OpenAIServer, _openai, MODEL_ASKED),
    "openai vectors": Provider(OpenAIServer, _openai_vectors, {"plain": RECALL}, guarded=False),
    "tavily": Provider(TavilyServer, _tavily, SEARCH_ASKED),
    "bocha": Provider(BochaServer, _bocha, SEARCH_ASKED),
    "ragflow": Provider(RagflowServer, _ragflow, SEARCH_ASKED),
    "arxiv": Provider(ArxivServer, _arxiv, SEARCH_ASKED),
    "gdelt": Provider(
        GdeltServer,
        _by_name("infra.search.gdelt", "GdeltSearch", pace=pace, now=lambda: lambda: NOW),
        SEARCH_ASKED,
    ),
    "searxng": Provider(SearxngServer, _by_name("infra.search.searxng", "SearxngSearch"), SEARCH_ASKED),
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
        port = of.make(server.url, {"timeout_s": 30.0, **row.settings})
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
