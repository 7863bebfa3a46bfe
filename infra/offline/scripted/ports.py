"""Adapters of simulated mode with a scripted server: its models, and the bundled corpus with a simulated latency.

Every call record says ``simulated``. A call is booked at the price of a real model of its tier, so that budgets,
backtests and reports have figures to work with; ``cost_source`` says that nobody was paid.
"""

from __future__ import annotations

import asyncio
from datetime import datetime
from decimal import Decimal
from typing import Any

from infra.http import checked_address
from infra.models.call_costs import Cost, Prices, TokenUsage
from infra.models.openai_client import OpenAICompatibleClient
from infra.models.openai_compatible import SERVICE, OpenAICompatibleModel
from infra.offline.scripted import HEAVY, LIGHT
from infra.offline.scripted.stance import spread
from infra.offline.search import OfflinePages, OfflineSearch
from infra.ports import Answer, Port
from infra.settings import Settings
from schemas.calls import ProviderMode

PRICED_AS = {LIGHT: "gemini-2.5-flash-lite", HEAVY: "gemini-2.5-pro"}
"""Scripted model → the model whose price it is booked at: the default models of the two tiers."""
SIMULATED: ProviderMode = "simulated"
NO_KEY = "the-scripted-server-asks-for-none"


class ScriptedPrices(Prices):
    """The prices of the models that the scripted ones stand for."""

    def cost(self, model: str, usage: TokenUsage, at: datetime) -> Cost:
        cost = super().cost(PRICED_AS.get(model, model), usage, at)
        return Cost(cost.usd, f"simulated, nobody was paid: {PRICED_AS.get(model, model)}, {cost.source}")


class ScriptedModel(OpenAICompatibleModel):
    """Port for one model of the scripted server, ``simulated`` in every record."""

    provider = "scripted"
    mode = SIMULATED

    def __init__(self, url: str, model: str, *, timeout_s: float = 30.0) -> None:
        """``url`` is ``SCRIPTED_MODEL_URL``.

        Raises:
            ConfigError: the address is invalid.
        """
        at = checked_address(url, "SCRIPTED_MODEL_URL")
        client = OpenAICompatibleClient(
            SERVICE, api_key=NO_KEY, base_url=at, timeout_s=timeout_s, prices=ScriptedPrices()
        )
        super().__init__(client, model=model)


class SimulatedSearch(OfflineSearch):
    """The bundled corpus with a latency drawn from the query. Free, and exempt from the tool quota."""

    provider = "simulated"
    mode = SIMULATED

    def __init__(self, *, median_s: float) -> None:
        super().__init__()
        self._median_s = median_s

    async def perform(self, effect: Any) -> Answer:
        if self._median_s > 0:
            await asyncio.sleep(spread(self._median_s, effect.query, "search"))
        return await super().perform(effect)

    def quota_units(self, effect: Any) -> int:
        return 0

    def worst_case_usd(self, effect: Any) -> Decimal | None:
        return Decimal(0)


class SimulatedPages(OfflinePages):
    """The pages of the bundled corpus."""

    provider = "simulated"
    mode = SIMULATED


def scripted_models(settings: Settings) -> dict[str, Port]:
    """Return the models of both tiers.

    Raises:
        ConfigError: ``SCRIPTED_MODEL_URL`` is not a valid address.
    """
    url, timeout_s = settings.scripted_model_url, settings.model_timeout_seconds
    assert url is not None
    return {
        "light": ScriptedModel(url, LIGHT, timeout_s=timeout_s),
        "heavy": ScriptedModel(url, HEAVY, timeout_s=timeout_s),
    }


def scripted_ports(settings: Settings) -> dict[str, Any]:
    """Return models, search and pages as keyword arguments of :class:`infra.ports.Ports`.

    Raises:
        ConfigError: as :func:`scripted_models`.
    """
    search = SimulatedSearch(median_s=settings.offline_latency_seconds)
    return {
        "models": scripted_models(settings),
        "search": {search.provider: search},
        "scrape": SimulatedPages(search.documents),
    }
