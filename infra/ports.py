"""Ports: how the runtime reaches the world. One adapter a provider; the runtime records what they answer.

An adapter performs one kind of effect and returns an :class:`Answer`, or raises ``TransientError`` or ``PermanentError``
(:mod:`schemas.errors`). It never retries on its own: every attempt is an event of the case. It never sees a case.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Protocol

import msgspec

from schemas.calls import ProviderMode
from schemas.effects import (
    CallModel,
    Effect,
    FetchCandles,
    FetchMarket,
    FindConcerned,
    FindEarlier,
    FindSignals,
    Recall,
    Reply,
    Scrape,
    Search,
)
from schemas.errors import ConfigError


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What a provider answered and what it used. ``cost_usd`` None = price unknown; 0 = free."""

    reply: Reply
    cost_usd: Decimal | None
    cost_source: str = ""
    model: str | None = None
    usage_input_tokens: int = 0
    usage_cached_tokens: int = 0
    usage_output_tokens: int = 0
    usage_thinking_tokens: int = 0
    cached: bool = False


class Port(Protocol):
    """One provider of one kind of effect. ``provider`` and ``mode`` go into every call record."""

    provider: str
    mode: ProviderMode

    async def perform(self, effect: Any) -> Answer:
        """Perform the effect once.

        Raises:
            TransientError: worth another try; PermanentError: not. Nothing of a vendor passes untranslated.
        """
        ...

    def worst_case_usd(self, effect: Any) -> Decimal | None:
        """Return the most that performing this effect once may cost; 0 = free, None = the price is unknown."""
        ...

    def quota_units(self, effect: Any) -> int:
        """Return the units of the daily tool quota that performing this effect once takes: 1 for a metered tool call."""
        ...

    async def close(self) -> None:
        """Let go of connections. Idempotent."""
        ...


class Free:
    """The prices of an adapter that costs nothing and is not metered."""

    def worst_case_usd(self, effect: Any) -> Decimal | None:
        """Return 0."""
        return Decimal(0)

    def quota_units(self, effect: Any) -> int:
        """Return 0."""
        return 0


class Ports:
    """The table from effect to adapter; the one place that a new provider is added to.

    ``models`` by tier ("light", "heavy") or by task, which goes first; ``fallbacks`` by the same names: who is asked when
    that model's provider does not answer, in this order. ``search`` by provider name, which alone may change
    while a worker runs (:meth:`take_in`); the others one each.
    """

    def __init__(
        self,
        *,
        models: dict[str, Port],
        search: dict[str, Port] | None = None,
        recall: Port | None = None,
        earlier: Port | None = None,
        scrape: Port | None = None,
        market: Port | None = None,
        concerned: Port | None = None,
        candles: Port | None = None,
        signals: Port | None = None,
        fallbacks: dict[str, tuple[Port, ...]] | None = None,
    ) -> None:
        self.models = models
        self.fallbacks = fallbacks or {}
        self.search = search or {}
        self._retired: list[Port] = []
        self._others: dict[type[Any], Port | None] = {
            Recall: recall,
            FindEarlier: earlier,
            Scrape: scrape,
            FetchMarket: market,
            FindConcerned: concerned,
            FetchCandles: candles,
            FindSignals: signals,
        }

    def take_in(self, search: dict[str, Port]) -> None:
        """Use these search adapters from now on. One that is replaced ends its searches, and is closed with the rest.

        None is dropped: a case that was opened under an earlier snapshot still asks the providers of that one.
        """
        self._retired += [self.search[name] for name in search if name in self.search]
        self.search = {**self.search, **search}

    def chain(self, effect: Effect) -> tuple[Port, ...]:
        """Return the adapters that perform this effect, in the order in which they are asked; never none.

        Raises:
            ConfigError: when none is configured; the text names the setting to write.
        """
        found: Port | None
        behind: list[Port] = []
        match effect:
            case CallModel(task=task, tier=tier):
                found, *behind = self.asked_for(task, tier) or (None,)
                hint = f"a model for the {tier} tier (GEMINI_API_KEY, or NEWSPROOF_MODE=offline)"
            case Search(provider=provider):
                found, hint = (
                    self.search.get(provider),
                    f"the search provider {provider!r} (its key), or drop it from DEEP_ANALYSIS_SEARCH_PROVIDER",
                )
            case _:
                found, hint = (
                    self._others[type(effect)],
                    f"a provider for {type(effect).__name__}, or switch its tool off",
                )
        if found is None:
            raise ConfigError(f"no adapter for this effect: configure {hint}")
        return (found, *behind)

    def asked_for(self, task: str, tier: str) -> tuple[Port, ...]:
        """Return the models that are asked for a task, in order: its own where it has one, else those of its tier."""
        name = task if task in self.models else tier
        return (self.models[name], *self.fallbacks.get(name, ())) if name in self.models else ()

    def of(self, effect: Effect) -> Port:
        """Return the adapter that is asked first.

        Raises:
            ConfigError: as :meth:`chain`.
        """
        return self.chain(effect)[0]

    async def close(self) -> None:
        """Close every adapter once."""
        behind = (p for chain in self.fallbacks.values() for p in chain)
        ports = (*self.models.values(), *behind, *self.search.values(), *self._retired, *self._others.values())
        every = {id(p): p for p in ports if p is not None}
        for port in every.values():
            await port.close()
