"""What the searches of the web share that are one POST with a key, answered by one JSON object: Tavily and Bocha."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import httpx

from infra.http import MAX_RESPONSE_BYTES, UselessAnswerError
from infra.http_json import Service, ServiceClient, json_object
from infra.ports import Answer
from infra.search.results import cut_query
from schemas.calls import ProviderMode
from schemas.effects import Search
from schemas.errors import PermanentError, TransientError


class JsonSearch(ABC):
    """Port for ``Search`` with one connection pool. Safe for concurrent searches within one event loop.

    A provider adds its wire format. ``path`` is that of the search below ``default_url`` or the address in the settings.
    """

    provider: str
    mode: ProviderMode = "live"
    service: Service
    default_url: str
    path: str

    def __init__(
        self,
        *,
        api_key: str,
        base_url: str | None = None,
        timeout_s: float = 10.0,
        include_domains: Sequence[str] = (),
        unit_cost_usd: Decimal | float | None = None,
        max_response_bytes: int = MAX_RESPONSE_BYTES,
    ) -> None:
        """``include_domains`` apply where a search names none; empty: the whole web.

        ``timeout_s`` bounds a whole search. ``unit_cost_usd`` is the price of what the provider counts, a search or a
        credit; None = unknown, 0 = free.

        Raises:
            ConfigError: the key or the address is invalid.
        """
        self._include_domains = tuple(include_domains)
        self._unit_cost = None if unit_cost_usd is None else Decimal(str(unit_cost_usd))
        address = self.default_url if base_url is None else base_url
        self._client = ServiceClient(
            self.service, address, api_key=api_key, timeout_s=timeout_s, max_bytes=max_response_bytes
        )

    async def perform(self, effect: Search) -> Answer:
        """Search once. An empty result is an answer; an unreadable one is a ``Failure`` reply, never "no results".

        Raises:
            TransientError: rate_limit, unavailable, timeout, network.
            PermanentError: auth, plan_limit (what was paid for is used up), invalid_request, not_configured.
        """
        query = cut_query(effect.query)
        try:
            response = await self._client.send("POST", self.path, json=self._body(effect, query))
            if response.status_code != 200:
                raise self._refused(response)
            return self._read(json_object(response, self.service), effect, query, response)
        except UselessAnswerError as exc:
            return exc.answer

    def worst_case_usd(self, effect: Search) -> Decimal | None:
        return self._unit_cost

    def quota_units(self, effect: Search) -> int:
        """Return 1: each search is one billed request."""
        return 1

    async def close(self) -> None:
        await self._client.close()

    def _domains(self, effect: Search) -> tuple[str, ...]:
        return effect.include_domains or self._include_domains

    @abstractmethod
    def _body(self, effect: Search, query: str) -> dict[str, Any]:
        """Return the body of the request."""

    @abstractmethod
    def _refused(self, response: httpx.Response) -> TransientError | PermanentError:
        """Return the error for a status other than 200."""

    @abstractmethod
    def _read(self, body: dict[str, Any], effect: Search, query: str, response: httpx.Response) -> Answer:
        """Return the results and their cost.

        Raises:
            TransientError, PermanentError: the body says that the search failed.
            UselessAnswerError: the body is not of the documented shape.
        """
