"""Tavily search over httpx. One ``Search`` is one ``POST /search``.

Wire format, errors and limits: https://docs.tavily.com/documentation/api-reference/endpoint/search
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC
from decimal import Decimal
from typing import Any

import httpx

from infra.http import MAX_RESPONSE_BYTES, UselessAnswerError
from infra.http_json import Service, ServiceClient, error_message, json_object, refused
from infra.ports import Answer
from infra.search.results import collected, cut_query, refuse_only_malformed, result_of, score_of
from infra.texts import parse_published
from schemas.calls import ProviderMode
from schemas.effects import Search, SearchReply
from schemas.errors import PermanentError, TransientError
from schemas.evidence import SearchResult

DEFAULT_BASE_URL = "https://api.tavily.com"
MAX_QUERY_CHARS = 400
MAX_RESULTS = 20
_CREDITS = {"advanced": 2}
"""Default credits of one search by depth (https://docs.tavily.com/documentation/api-credits)."""

_TAVILY = Service(
    name="Tavily",
    address_setting="TAVILY_BASE_URL",
    key_setting="TAVILY_API_KEY",
    correct="correct the query, the depth or the domains",
)


class TavilySearch:
    """Port for ``Search`` with one connection pool. Safe for concurrent searches within one event loop."""

    provider = "tavily"
    mode: ProviderMode = "live"

    def __init__(
        self,
        *,
        api_key: str,
        base_url: str = DEFAULT_BASE_URL,
        timeout_s: float = 10.0,
        include_domains: Sequence[str] = (),
        cost_per_credit_usd: Decimal | float | None = None,
        max_response_bytes: int = MAX_RESPONSE_BYTES,
    ) -> None:
        """``include_domains`` apply where a search names none; empty: the whole web.

        ``timeout_s`` bounds a whole search. ``cost_per_credit_usd`` None = unknown price; 0 = a free plan.

        Raises:
            ConfigError: the key or the address is invalid.
        """
        self._include_domains = tuple(include_domains)
        self._cost_per_credit = None if cost_per_credit_usd is None else Decimal(str(cost_per_credit_usd))
        self._client = ServiceClient(
            _TAVILY, base_url, api_key=api_key, timeout_s=timeout_s, max_bytes=max_response_bytes
        )

    async def perform(self, effect: Search) -> Answer:
        """Search once. An empty result is an answer; an unreadable one is a ``Failure`` reply, never "no results".

        Raises:
            TransientError: rate_limit, unavailable, timeout, network.
            PermanentError: auth, plan_limit, invalid_request, not_configured.
        """
        query = cut_query(effect.query, MAX_QUERY_CHARS)
        try:
            response = await self._client.send("POST", "/search", json=self._body(effect, query))
            if response.status_code != 200:
                raise _translate_status(response)
            return self._read(json_object(response, _TAVILY), effect, query)
        except UselessAnswerError as exc:
            return exc.answer

    def _read(self, body: dict[str, Any], effect: Search, query: str) -> Answer:
        items = body.get("results")
        if not isinstance(items, list):
            raise UselessAnswerError("Tavily's answer has no list of results; it is asked again")
        found = collected(items, _read_item, self.provider, effect.max_results)
        cost, source = self._cost(body, effect.depth)
        refuse_only_malformed(found, "Tavily", {"cost_usd": cost, "cost_source": source})
        reply = SearchReply(provider=self.provider, query=query, results=found.results, truncated=found.truncated)
        return Answer(reply=reply, cost_usd=cost, cost_source=source)

    def _body(self, effect: Search, query: str) -> dict[str, Any]:
        body: dict[str, Any] = {
            "query": query,
            "search_depth": effect.depth,
            "max_results": max(1, min(effect.max_results, MAX_RESULTS)),
            "include_answer": False,
            "include_raw_content": False,
            "include_usage": True,
        }
        domains = effect.include_domains or self._include_domains
        if domains:
            body["include_domains"] = list(domains)
        if effect.since is not None:
            body["start_date"] = f"{effect.since.astimezone(UTC):%Y-%m-%d}"
        return body

    def worst_case_usd(self, effect: Search) -> Decimal | None:
        """Return the price of the credits that a search of this depth takes; None when it is unknown."""
        return None if self._cost_per_credit is None else _CREDITS.get(effect.depth, 1) * self._cost_per_credit

    def quota_units(self, effect: Search) -> int:
        return 1

    def _cost(self, body: dict[str, Any], depth: str) -> tuple[Decimal | None, str]:
        if self._cost_per_credit is None:
            return None, "unknown"
        usage = body.get("usage")
        credits = usage.get("credits") if isinstance(usage, dict) else None
        if isinstance(credits, int | float) and not isinstance(credits, bool) and 0 <= credits < 1e6:
            return Decimal(str(credits)) * self._cost_per_credit, "SEARCH_COST_USD per reported credit"
        return _CREDITS.get(depth, 1) * self._cost_per_credit, f"SEARCH_COST_USD per credit assumed for {depth}"

    async def close(self) -> None:
        await self._client.close()


def _read_item(item: Any) -> SearchResult | None:
    if not isinstance(item, dict):
        return None
    return result_of(
        provider="tavily",
        url=item.get("url"),
        title=item.get("title"),
        content=item.get("content"),
        score=score_of(item.get("score")),
        published_at=parse_published(item.get("published_date")),
    )


def _translate_status(response: httpx.Response) -> TransientError | PermanentError:
    # {"detail": {"error": ...}}
    status, said = response.status_code, error_message(response, "detail", "error")
    if status in {432, 433}:
        which = "plan" if status == 432 else "pay-as-you-go"
        text = f"Tavily's {which} limit is used up ({said}); raise it in the Tavily account or wait for the next period"
        return PermanentError(text, kind="plan_limit", status=status)
    return refused(_TAVILY, status, said, response.headers)
