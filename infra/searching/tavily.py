"""Tavily through httpx: ``POST /search`` once for one ``Search``.

Wire shape, errors and limits: https://docs.tavily.com/documentation/api-reference/endpoint/search
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import httpx

from infra.http import (
    MAX_RESPONSE_BYTES,
    UselessAnswerError,
    checked_address,
    checked_key,
    guarded_client,
    kind_of_server_error,
    quoted,
    retry_after_s,
    storable_text,
    transport_failure,
)
from infra.ports import Answer
from infra.searching.tavily_results import read_results
from schemas.calls import ProviderMode
from schemas.effects import Search, SearchReply
from schemas.errors import NewsproofError, PermanentError, TransientError

DEFAULT_BASE_URL = "https://api.tavily.com"
MAX_QUERY_CHARS = 400
MAX_RESULTS = 20
_CREDITS = {"advanced": 2}
"""Credits of one search by depth, where the reply names none (https://docs.tavily.com/documentation/api-credits)."""


class TavilySearch:
    """A port for ``Search``. One connection pool; safe for concurrent searches within one event loop."""

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
            ConfigError: the key or the address cannot be one.
        """
        self._timeout_s = timeout_s
        self._include_domains = tuple(include_domains)
        self._cost_per_credit = None if cost_per_credit_usd is None else Decimal(str(cost_per_credit_usd))
        self._url = base_url.rstrip("/") + "/search"
        self._http = guarded_client(
            checked_address(base_url, "TAVILY_BASE_URL"),
            timeout_s=timeout_s,
            headers={"authorization": f"Bearer {checked_key(api_key, 'TAVILY_API_KEY')}"},
            max_bytes=max_response_bytes,
        )

    async def perform(self, effect: Search) -> Answer:
        """Search once. No result is an answer; one that cannot be read is a ``Failure`` reply, never "no results".

        Raises:
            TransientError: rate_limit, unavailable, timeout, network.
            PermanentError: auth, plan_limit, invalid_request, not_configured.
        """
        query = _cut_query(effect.query)
        try:
            response = await self._post(self._body(effect, query))
            if response.status_code != 200:
                raise _translate_status(response)
            return self._read(_json_object(response), effect, query)
        except UselessAnswerError as exc:
            return exc.answer

    def _read(self, body: dict[str, Any], effect: Search, query: str) -> Answer:
        found = read_results(body, self.provider, effect.max_results)
        cost, source = self._cost(body, effect.depth)
        reply = SearchReply(provider=self.provider, query=query, results=found.results, truncated=found.truncated)
        if found.malformed and not found.results:
            raise UselessAnswerError(
                f"none of the {found.malformed} results of Tavily can be read; it is asked again",
                spent={"cost_usd": cost, "cost_source": source},
            )
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
        return body

    async def _post(self, body: dict[str, Any]) -> httpx.Response:
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._http.post(self._url, json=body)
        except NewsproofError:
            raise  # from the transport: the body was too large or broken
        except (TimeoutError, httpx.HTTPError, httpx.StreamError) as exc:
            raise transport_failure(exc, "Tavily", self._timeout_s) from exc
        except Exception as exc:
            raise PermanentError(
                f"calling Tavily failed in an unforeseen way ({type(exc).__name__}: {exc}); please report this",
                kind="internal",
            ) from exc

    def _cost(self, body: dict[str, Any], depth: str) -> tuple[Decimal | None, str]:
        if self._cost_per_credit is None:
            return None, "unknown"
        usage = body.get("usage")
        credits = usage.get("credits") if isinstance(usage, dict) else None
        if isinstance(credits, int | float) and not isinstance(credits, bool) and 0 <= credits < 1e6:
            return Decimal(str(credits)) * self._cost_per_credit, "SEARCH_COST_USD per reported credit"
        return _CREDITS.get(depth, 1) * self._cost_per_credit, f"SEARCH_COST_USD per credit assumed for {depth}"

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        await self._http.aclose()


def _cut_query(query: str) -> str:
    query = " ".join(storable_text(query).split())
    if not query:
        raise PermanentError("the search has no words; give it keywords", kind="invalid_request")
    if len(query) <= MAX_QUERY_CHARS:
        return query
    cut = query[:MAX_QUERY_CHARS]
    # Between words where there is a space near the end; Chinese has none.
    space = cut.rfind(" ")
    return cut[:space] if space > MAX_QUERY_CHARS * 3 // 4 and query[MAX_QUERY_CHARS] != " " else cut


def _json_object(response: httpx.Response) -> dict[str, Any]:
    try:
        # Not orjson: it would refuse the whole body for one lone surrogate in one title.
        body = json.loads(response.content)
    except (ValueError, RecursionError) as exc:
        raise UselessAnswerError(f"Tavily's answer is not JSON ({type(exc).__name__}); it is asked again") from exc
    if not isinstance(body, dict):
        raise UselessAnswerError("Tavily's answer is not a JSON object; it is asked again")
    return body


def _translate_status(response: httpx.Response) -> TransientError | PermanentError:
    status, said = response.status_code, _said(response)
    wait = retry_after_s(response.headers, datetime.now(UTC))
    if status in {401, 403}:
        text = f"Tavily refuses the key ({status}: {said}); write a valid one into TAVILY_API_KEY"
        return PermanentError(text, kind="auth", status=status)
    if status == 429:
        text = f"Tavily's rate limit is reached ({said}); it is tried again later"
        return TransientError(text, kind="rate_limit", status=status, retry_after_s=wait)
    if status in {432, 433}:
        which = "plan" if status == 432 else "pay-as-you-go"
        text = f"Tavily's {which} limit is used up ({said}); raise it in the Tavily account or wait for the next period"
        return PermanentError(text, kind="plan_limit", status=status)
    if status == 408 or status >= 500:
        text = f"Tavily is unavailable ({status}: {said}); it is tried again"
        return TransientError(text, kind=kind_of_server_error(status), status=status, retry_after_s=wait)
    if status < 400:
        text = (
            f"Tavily's address answers with {status}, which is not followed; write the final one into TAVILY_BASE_URL"
        )
        return PermanentError(text, kind="not_configured", status=status)
    text = f"Tavily does not take this search ({status}: {said}); correct the query, the depth or the domains"
    return PermanentError(text, kind="invalid_request", status=status)


def _said(response: httpx.Response) -> str:
    """Return the service's own words: ``{"detail": {"error": …}}``, or the start of the body."""
    try:
        body = json.loads(response.content)
    except (ValueError, RecursionError):
        body = response.text
    detail = body.get("detail", body) if isinstance(body, dict) else body
    error = detail.get("error", detail) if isinstance(detail, dict) else detail
    return quoted(error, 200) or "no reason given"
