"""Ports: the interface between the runtime and external providers. Each provider has one adapter.

An adapter performs one kind of effect and returns an :class:`Answer`, which the runtime records, or raises
``TransientError`` or ``PermanentError`` (:mod:`schemas.errors`). It never retries on its own, because every attempt is
an event of the case. It never sees a case.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Protocol

import msgspec

from schemas.calls import ProviderMode, Refusal
from schemas.effects import (
    CallModel,
    Effect,
    FetchCandles,
    FetchMarket,
    FindBrief,
    FindConcerned,
    FindEarlier,
    FindSignals,
    FindStory,
    PublishNews,
    Recall,
    Reply,
    Scrape,
    Search,
)
from schemas.errors import ConfigError


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """A provider's reply and its usage. ``cost_usd`` None = price unknown; 0 = free."""

    reply: Reply
    cost_usd: Decimal | None
    cost_source: str = ""
    model: str | None = None
    usage_input_tokens: int = 0
    usage_cached_tokens: int = 0
    usage_output_tokens: int = 0
    usage_thinking_tokens: int = 0
    cached: bool = False
    refusals: tuple[Refusal, ...] = ()


class Port(Protocol):
    """One provider of one kind of effect. ``provider`` and ``mode`` go into every call record.

    Its constructor checks its settings and connects nowhere, since commands make adapters only to see that they can be; a
    connection is opened for the first effect.
    """

    provider: str
    mode: ProviderMode

    async def perform(self, effect: Any) -> Answer:
        """Perform the effect once; may be called for several effects at the same time.

        An adapter over HTTP gets most of the following from :mod:`infra.http_json`; one over another protocol, such as a
        WebSocket, does all of it:

        - Time: the whole exchange ends within the adapter's ``timeout_s``, connecting and the last piece of a streamed
          reply included. The runtime sets no limit of its own but the case's deadline.
        - Size: at most ``infra.http.MAX_RESPONSE_BYTES`` are held; what is longer is a ``Failure`` reply (``too_large``).
        - Cancellation: ``CancelledError`` passes at once. The request is given up, or its late reply discarded by its id: a
          shared connection never gives the reply of one effect to another. The call's reservation stays bound in full.
        - Errors: classes, never text. A timeout, a lost connection, a rate limit (with ``retry_after_s``) and an outage
          are ``TransientError``; a refused key, plan or request is ``PermanentError``; both ``from exc`` and with the
          ``kind`` that says which. A reply that was received and cannot be used is an ``Answer`` with a ``Failure``, for it
          may have been paid for. Nothing found is an empty reply.
        - One attempt: a broken connection is opened anew for the next effect, never for this one.
        - Cost: ``cost_usd`` of what this call took, None when that is not known. ``worst_case_usd``, reserved before the
          call, is never below it.
        - Redaction: the credentials that were sent are taken out of what comes back (``infra.redaction``) before it
          becomes a reply or an error text, since both are written to the journal.

        Raises:
            TransientError: a retry may succeed.
            PermanentError: a retry cannot succeed. No vendor exception passes untranslated.
        """
        ...

    def worst_case_usd(self, effect: Any) -> Decimal | None:
        """Return the maximum cost of performing this effect once; 0 = free, None = the price is unknown."""
        ...

    def quota_units(self, effect: Any) -> int:
        """Return the units of the daily tool quota that performing this effect once takes: the requests billed for it."""
        ...

    async def close(self) -> None:
        """Close connections. Idempotent."""
        ...


class Free:
    """Prices of an adapter that is free and not metered."""

    def worst_case_usd(self, effect: Any) -> Decimal | None:
        return Decimal(0)

    def quota_units(self, effect: Any) -> int:
        return 0


class Ports:
    """The table from effect to adapter, of one process. A new kind of effect gets its place here.

    A new provider does not: it is a row of ``infra.search.PROVIDERS`` or of the table in :mod:`infra.models`, and the
    composition (:mod:`newsproof.app.composition`) puts what the settings name in its place here.

    ``models`` is keyed by tier ("light", "heavy") or by task; a task's entry takes precedence. ``fallbacks`` has the
    same keys and lists the models to ask, in order, when that model's provider does not answer. ``search`` is keyed by
    provider name, and alone may change while a worker runs (:meth:`take_in`). The others have one adapter each.
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
        story: Port | None = None,
        candles: Port | None = None,
        signals: Port | None = None,
        briefs: Port | None = None,
        news: Port | None = None,
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
            FindStory: story,
            FetchCandles: candles,
            FindSignals: signals,
            FindBrief: briefs,
            PublishNews: news,
        }

    def take_in(self, search: dict[str, Port]) -> None:
        """Use these search adapters from now on. A replaced adapter finishes its searches and is closed with the rest.

        No provider is dropped: a case opened under an earlier snapshot still asks the providers of that snapshot.
        """
        self._retired += [self.search[name] for name in search if name in self.search]
        self.search = {**self.search, **search}

    def chain(self, effect: Effect) -> tuple[Port, ...]:
        """Return the adapters that perform this effect, in the order in which they are asked; never empty.

        Raises:
            ConfigError: none is configured; the text names the setting to write.
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
        """Return the models that are asked for a task, in order: its own if configured, else those of its tier."""
        name = task if task in self.models else tier
        return (self.models[name], *self.fallbacks.get(name, ())) if name in self.models else ()

    def of(self, effect: Effect) -> Port:
        """Return the adapter that is asked first.

        Raises:
            ConfigError: as :meth:`chain`.
        """
        return self.chain(effect)[0]

    async def close(self) -> None:
        """Close every adapter once, even if it is registered several times."""
        behind = (p for chain in self.fallbacks.values() for p in chain)
        ports = (*self.models.values(), *behind, *self.search.values(), *self._retired, *self._others.values())
        every = {id(p): p for p in ports if p is not None}
        for port in every.values():
            await port.close()
