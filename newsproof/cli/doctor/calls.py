"""The calls of ``newsproof doctor --live``: one cheap one for every provider and model that live mode is configured to ask."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from decimal import Decimal

import msgspec

from agents.prompts import every_task
from infra.market.ports import live_market, live_research
from infra.models import routes
from infra.models.embeddings import embedder_of
from infra.models.embeddings.port import Embedded, Embedder
from infra.models.listing import ListsModels
from infra.ports import Answer, Port
from infra.search import FEEDS
from infra.settings import Settings
from newsproof.app.composition import live_models, live_pages, live_search, opens_pages
from schemas.effects import CallModel, Effect, FetchMarket, Scrape, Search, Trusted

PAGE = "https://example.com/"
"""Kept by IANA for uses like this (RFC 2606)."""
ASSET, QUERY = "BTC", "bitcoin"
_ASK = CallModel(
    task="doctor",
    tier="light",
    prompt_name="doctor",
    prompt_version="1",
    prompt_hash="",
    system="",
    parts=(Trusted('Answer with {"ok": true}.'),),
    max_output_tokens=64,
    response_schema={
        "type": "object",
        "properties": {"ok": {"type": "boolean"}},
        "required": ["ok"],
        "additionalProperties": False,
    },
)


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One call. Those of one ``provider`` are made one after another. ``model``: as configured; empty without one."""

    name: str
    provider: str
    model: str = ""
    worst_usd: Decimal | None
    ask: Callable[[], Awaitable[Answer | Embedded]]


class ModelList(msgspec.Struct, frozen=True, kw_only=True):
    """One provider's list of models, which costs nothing. ``wanted``: the models of it that are configured."""

    provider: str
    wanted: tuple[str, ...]
    port: ListsModels
    keyless: bool
    """A server of one's own that takes no key: it may be asked without --live."""


class Plan(msgspec.Struct, frozen=True):
    """What there is to ask. Nothing was sent yet."""

    calls: tuple[Call, ...] = ()
    lists: tuple[ModelList, ...] = ()
    ports: tuple[Port | Embedder, ...] = ()

    async def close(self) -> None:
        """Close the adapters. Idempotent."""
        for port in self.ports:
            await port.close()

    def question(self) -> str:
        """Return how many calls these are and what they cost at most, as a sentence without its end."""
        known = sum((one.worst_usd for one in self.calls if one.worst_usd is not None), Decimal(0))
        unknown = sum(one.worst_usd is None for one in self.calls)
        beside = f", and {unknown} of unknown price" if unknown else ""
        return f"This makes {len(self.calls)} call(s), at most {known.normalize():f} USD{beside}"


def planned(settings: Settings) -> Plan:
    """Return what live mode asks with these settings; nothing in other modes.

    Raises:
        ConfigError: no worker could start with them; the text says what to correct.
    """
    if settings.mode != "live":
        return Plan()
    models = _models(settings)
    calls = [_call(port, _ASK, f"{provider}:{model}", provider, model) for (provider, model), port in models.items()]
    others, ports = _others(settings)
    return Plan((*calls, *others), _lists(settings, models), (*models.values(), *ports))


Named = dict[tuple[str, str], Port]
"""Adapters by (provider, model), as the settings name them."""


def _models(settings: Settings) -> Named:
    first, behind = live_models(settings)
    found: Named = {}
    for name, route in routes(settings, every_task()).items():
        found |= dict(zip(route, (first[name], *behind.get(name, ())), strict=True))
    return found


def _lists(settings: Settings, models: Named) -> tuple[ModelList, ...]:
    endpoints, found = settings.endpoints(), dict[str, ModelList]()
    for (provider, _), port in models.items():
        if provider not in found and isinstance(port, ListsModels):
            wanted = tuple(model for its, model in models if its == provider)
            keyless = provider in endpoints and endpoints[provider].local and endpoints[provider].key is None
            found[provider] = ModelList(provider=provider, wanted=wanted, port=port, keyless=keyless)
    return tuple(found.values())


def _others(settings: Settings) -> tuple[list[Call], list[Port | Embedder]]:
    now = datetime.now(UTC).replace(microsecond=0)
    calls, ports = list[Call](), list[Port | Embedder]()
    searches = live_search(settings) if settings.tool_search_enabled else {}
    for name, search in searches.items():
        ports.append(search)
        if name == FEEDS:
            continue  # our own log is read, and asked nothing: newsproof.cli.doctor.feeds
        calls.append(_call(search, Search(provider=name, query=QUERY, max_results=1, as_of=now), f"search, {name}"))
    if (embedder := embedder_of(settings)) is not None:
        ports.append(embedder)
        calls.append(_vector(embedder))
    if opens_pages(settings):
        ports.append(pages := live_pages(settings))
        calls.append(_call(pages, Scrape(url=PAGE), "pages"))
    ports.append(market := live_market(settings))
    if settings.tool_price_enabled:
        calls.append(_call(market, FetchMarket(kind="price", asset=ASSET, as_of=now), "price"))
    if settings.tool_macro_enabled:
        calls.append(_call(market, FetchMarket(kind="macro", asset=ASSET, as_of=now), "macro"))
    if settings.tool_onchain_enabled:
        calls.append(_call(market, FetchMarket(kind="onchain", asset=ASSET, as_of=now), "onchain"))
    ports.append(chat := live_research(settings)["market"])
    if settings.fred_api_key:
        calls.append(_call(chat, FetchMarket(kind="economy", asset=ASSET, as_of=now), "chat, economy", "chat"))
    if settings.coinmetrics_api_key:
        calls.append(_call(chat, FetchMarket(kind="network", asset=ASSET, as_of=now), "chat, network", "chat"))
    return calls, ports


def _vector(embedder: Embedder) -> Call:
    return Call(
        name=f"call (vectors, {embedder.provider}:{embedder.model})",
        provider=embedder.provider,
        model=embedder.model,
        worst_usd=embedder.worst_case_usd(QUERY),
        ask=lambda: embedder.embed(QUERY),
    )


def _call(port: Port, effect: Effect, name: str, provider: str = "", model: str = "") -> Call:
    return Call(
        name=f"call ({name})",
        provider=provider or port.provider,
        model=model,
        worst_usd=port.worst_case_usd(effect),
        ask=lambda: port.perform(effect),
    )
