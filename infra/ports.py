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
    OpenPart,
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

    The constructor checks the settings and opens no connection, because some commands create adapters only to check
    them. The first effect opens the connection.
    """

    provider: str
    mode: ProviderMode

    async def perform(self, effect: Any) -> Answer:
        """Perform the effect once. The runtime may call this for several effects at the same time.

        :mod:`infra.http_json` does most of the following for an adapter over HTTP. An adapter over another protocol,
        such as a WebSocket, does all of it itself:

        - Time: the whole exchange ends within the adapter's ``timeout_s``, from connecting to the last piece of a
          streamed reply. The runtime enforces no limit except the case's deadline.
        - Size: the adapter holds at most ``infra.http.MAX_RESPONSE_BYTES``. A longer response becomes a ``Failure``
          (``too_large``).
        - Cancellation: ``CancelledError`` propagates at once. The adapter abandons the request or discards its late
          response by its id, so a shared connection never gives one effect's reply to another. The call's reservation
          is not released.
        - Errors: callers rely on classes, never on texts. ``TransientError``: a timeout, a lost connection, a rate
          limit (with ``retry_after_s``) or an outage. ``PermanentError``: a refused key, plan or request. Both are
          raised ``from exc``, with the ``kind`` of failure. A received response that cannot be used becomes an
          ``Answer`` with a ``Failure``, because the call may have cost money. A search without results is an empty
          reply.
        - One attempt: a broken connection is replaced for the next effect, never for this one.
        - Cost: ``cost_usd`` is the cost of this call, None if unknown. It never exceeds ``worst_case_usd``, which is
          reserved before the call.
        - Redaction: the request's credentials are removed from the response (``infra.redaction``) before it becomes a
          reply or an error text, because both are written to the journal.

        Raises:
            TransientError: a retry may succeed.
            PermanentError: a retry cannot succeed. Vendor exceptions are always translated.
        """
        ...

    def worst_case_usd(self, effect: Any) -> Decimal | None:
        """Return the maximum cost of performing this effect once; 0 = free, None = the price is unknown."""
        ...

    def quota_units(self, effect: Any) -> int:
        """Return the units of the daily tool quota that performing this effect once uses: its billed requests."""
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
    """A process's table from effect to adapter. A new kind of effect gets its place here.

    A new provider gets a row in ``infra.search.PROVIDERS`` or in the table of :mod:`infra.models`. The composition
    (:mod:`newsproof.app.composition`) puts the adapters that the settings name into this table.

    ``models`` is keyed by tier ("light", "heavy") or by task; a task's entry takes precedence. ``fallbacks`` has the
    same keys and lists the models to call, in order, when that model's provider does not respond. ``search`` is keyed
    by provider name; it is the only entry that may change while a worker runs (:meth:`take_in`). Every other kind of
    effect has one adapter.
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
        parts: Port | None = None,
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
            OpenPart: parts,
            FetchCandles: candles,
            FindSignals: signals,
            FindBrief: briefs,
            PublishNews: news,
        }

    def take_in(self, search: dict[str, Port]) -> None:
        """Use these search adapters from now on. A replaced adapter finishes its searches; :meth:`close` closes it.

        No provider is removed, because a case opened under an earlier snapshot still calls that snapshot's providers.
        """
        self._retired += [self.search[name] for name in search if name in self.search]
        self.search = {**self.search, **search}

    def chain(self, effect: Effect) -> tuple[Port, ...]:
        """Return the adapters for this effect, in the order in which they are called; never empty.

        Raises:
            ConfigError: none is configured; the text names the setting that configures one.
        """
        port: Port | None
        behind: list[Port] = []
        match effect:
            case CallModel(task=task, tier=tier):
                port, *behind = self.asked_for(task, tier) or (None,)
                hint = f"a model for the {tier} tier (GEMINI_API_KEY, or NEWSPROOF_MODE=offline)"
            case Search(provider=provider):
                port, hint = (
                    self.search.get(provider),
                    f"the search provider {provider!r} (its key), or drop it from DEEP_ANALYSIS_SEARCH_PROVIDER",
                )
            case _:
                port, hint = (
                    self._others[type(effect)],
                    f"a provider for {type(effect).__name__}, or switch its tool off",
                )
        if port is None:
            raise ConfigError(f"no adapter for this effect: configure {hint}")
        return (port, *behind)

    def asked_for(self, task: str, tier: str) -> tuple[Port, ...]:
        """Return the models for a task, in the order of the calls: its own if configured, else its tier's."""
        name = task if task in self.models else tier
        return (self.models[name], *self.fallbacks.get(name, ())) if name in self.models else ()

    def of(self, effect: Effect) -> Port:
        """Return the adapter that is called first.

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
