"""What all search adapters over HTTP share: one exchange a search, and results that become one answer with its cost."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import httpx
import structlog

from infra.http import MAX_RESPONSE_BYTES, UselessAnswerError
from infra.http_json import Service, ServiceClient
from infra.ports import Answer
from infra.search.results import cut_query
from schemas.calls import ProviderMode
from schemas.effects import Search, SearchReply
from schemas.errors import PermanentError, TransientError
from schemas.evidence import SearchResult

_log = structlog.get_logger(__name__)
Spent = Mapping[str, Any]
"""The fields of an ``Answer`` about its cost."""


class SearchAdapter(ABC):
    """Port for ``Search`` with one connection pool. Safe for concurrent searches within one event loop.

    A provider adds its request (``_ask``) and how its response is read (``_read``). ``free`` says why its searches cost
    nothing; a paid provider leaves it empty and is a :class:`PaidSearch`. ``titles_only``: it has no texts that are cut.
    """

    provider: str
    mode: ProviderMode = "live"
    service: Service
    free: str = ""
    titles_only: bool = False

    def __init__(
        self,
        base_url: str,
        *,
        api_key: str | None = None,
        timeout_s: float = 10.0,
        headers: Mapping[str, str] | None = None,
        max_response_bytes: int = MAX_RESPONSE_BYTES,
    ) -> None:
        """``timeout_s`` bounds a whole exchange.

        Raises:
            ConfigError: the key or the address is invalid.
        """
        self._client = ServiceClient(
            self.service, base_url, api_key=api_key, timeout_s=timeout_s, headers=headers, max_bytes=max_response_bytes
        )

    async def perform(self, effect: Search) -> Answer:
        """Search once. An empty result is an answer; an unreadable one is a ``Failure`` reply, never "no results".

        Raises:
            TransientError: rate_limit, unavailable, timeout, network.
            PermanentError: auth, plan_limit (what was paid for is used up), invalid_request, not_configured, refused.
        """
        query = self._query(effect)
        try:
            return self._read(await self._ask(effect, query), effect, query)
        except UselessAnswerError as exc:
            return exc.answer

    def worst_case_usd(self, effect: Search) -> Decimal | None:
        return Decimal(0)

    def quota_units(self, effect: Search) -> int:
        return 0

    async def close(self) -> None:
        await self._client.close()

    def _query(self, effect: Search) -> str:
        return cut_query(effect.query)

    @abstractmethod
    async def _ask(self, effect: Search, query: str) -> httpx.Response:
        """Send the request of a search; return the response, whatever its status."""

    @abstractmethod
    def _read(self, response: httpx.Response, effect: Search, query: str) -> Answer:
        """Return the results and their cost.

        Raises:
            TransientError, PermanentError: the search failed.
            UselessAnswerError: the response is not of the documented shape.
        """

    def _answer(
        self,
        items: Iterable[Any],
        read_item: Callable[[Any, str], SearchResult | None],
        query: str,
        *,
        limit: int,
        spent: Spent | None = None,
        order: Callable[[Sequence[SearchResult]], Sequence[SearchResult]] = lambda results: results,
    ) -> Answer:
        """Return at most ``limit`` of the items that ``read_item`` can read, as ``order`` sorts them.

        An item that cannot be read (None) is skipped and counted in the log. ``spent`` None: the search is free.

        Raises:
            UselessAnswerError: there were items, but none can be read; that is not "nothing found".
        """
        spent = self._spent if spent is None else spent
        read = [read_item(item, query) for item in items]
        kept = [result for result in read if result is not None]
        if malformed := len(read) - len(kept):
            _log.warning("search_results_skipped", provider=self.provider, malformed=malformed, of=len(read))
        if malformed and not kept:
            raise UselessAnswerError(f"none of the {malformed} results of {self.service.name} can be read", spent=spent)
        results = tuple(order(kept)[: max(1, limit)])
        cut = not self.titles_only and any(not result.content_complete for result in results)
        return Answer(
            reply=SearchReply(provider=self.provider, query=query, results=results, truncated=cut),
            **spent,
        )

    def _useless(self, why: str) -> UselessAnswerError:
        """Return the error for a response of another shape; ``why`` says what it is or lacks."""
        return UselessAnswerError(f"{self.service.name}'s response {why}", spent=self._spent or None)

    @property
    def _spent(self) -> Spent:
        return {"cost_usd": Decimal(0), "cost_source": self.free} if self.free else {}


class PaidSearch(SearchAdapter):
    """A search that is one POST with a key, each of which is billed: Tavily and Bocha.

    ``path`` is that of the search below ``default_url`` or the address in the settings.
    """

    default_url: str
    path: str

    def __init__(
        self,
        *,
        api_key: str,
        base_url: str | None = None,
        include_domains: Sequence[str] = (),
        unit_cost_usd: Decimal | float | None = None,
        **given: Any,
    ) -> None:
        """As :class:`SearchAdapter`. ``include_domains`` apply where a search names none; empty: the whole web.

        ``unit_cost_usd`` is the price of what the provider counts, a search or a credit; None = unknown, 0 = free.
        """
        super().__init__(self.default_url if base_url is None else base_url, api_key=api_key, **given)
        self._include_domains = tuple(include_domains)
        self._unit_cost = None if unit_cost_usd is None else Decimal(str(unit_cost_usd))

    def worst_case_usd(self, effect: Search) -> Decimal | None:
        return self._unit_cost

    def quota_units(self, effect: Search) -> int:
        """Return 1: each search is one billed request."""
        return 1

    async def _ask(self, effect: Search, query: str) -> httpx.Response:
        response = await self._client.send("POST", self.path, json=self._body(effect, query))
        if response.status_code != 200:
            raise self._refused(response)
        return response

    def _domains(self, effect: Search) -> tuple[str, ...]:
        return effect.include_domains or self._include_domains

    @abstractmethod
    def _body(self, effect: Search, query: str) -> dict[str, Any]:
        """Return the body of the request."""

    @abstractmethod
    def _refused(self, response: httpx.Response) -> TransientError | PermanentError:
        """Return the error for a status other than 200."""
