"""Tavily search over httpx. One ``Search`` is one ``POST /search``.

Wire format, errors and limits: https://docs.tavily.com/documentation/api-reference/endpoint/search
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import httpx

from infra.http_json import Service, error_message, json_object, refused
from infra.ports import Answer
from infra.search.adapter import PaidSearch
from infra.search.results import result_of, score_of
from infra.texts import parse_published
from schemas.effects import Search
from schemas.errors import PermanentError, TransientError
from schemas.evidence import SearchResult

MAX_RESULTS = 20
_CREDITS = {"advanced": 2}
"""Default credits of one search by depth (https://docs.tavily.com/documentation/api-credits)."""

_TAVILY = Service(
    name="Tavily",
    address_setting="TAVILY_BASE_URL",
    key_setting="TAVILY_API_KEY",
    correct="correct the query, the depth or the domains",
)


class TavilySearch(PaidSearch):
    """Tavily. Its unit of cost is a credit."""

    provider = "tavily"
    service = _TAVILY
    default_url = "https://api.tavily.com"
    path = "/search"

    def __init__(self, *, now: Callable[[], datetime] = lambda: datetime.now(UTC), **given: Any) -> None:
        """As :class:`PaidSearch`. ``now`` (UTC) says which cases are of another day than today."""
        super().__init__(**given)
        self._now = now

    def _refused(self, response: httpx.Response) -> TransientError | PermanentError:
        # {"detail": {"error": ...}}
        status, detail = response.status_code, error_message(response, "detail", "error")
        if status in {432, 433}:
            which = "plan" if status == 432 else "pay-as-you-go"
            text = f"Tavily's {which} limit is used up ({detail}); raise it in the Tavily account or wait for the next period"
            return PermanentError(text, kind="plan_limit", status=status)
        return refused(_TAVILY, status, detail, response.headers)

    def _read(self, response: httpx.Response, effect: Search, query: str) -> Answer:
        body = json_object(response, self.service)
        items = body.get("results")
        if not isinstance(items, list):
            raise self._useless("has no list of results")
        cost, source = self._cost(body, effect.depth)
        spent = {"cost_usd": cost, "cost_source": source}
        return self._answer(items, _read_item, query, limit=effect.max_results, spent=spent)

    def _body(self, effect: Search, query: str) -> dict[str, Any]:
        body: dict[str, Any] = {
            "query": query,
            "search_depth": effect.depth,
            "max_results": max(1, min(effect.max_results, MAX_RESULTS)),
            "include_answer": False,
            "include_raw_content": False,
            "include_usage": True,
        }
        if domains := self._domains(effect):
            body["include_domains"] = list(domains)
        if effect.topic != "general":
            body["topic"] = effect.topic
        # Results come from "before" this date, so it is the day after the case's. Today nothing can be later, and what has
        # no date need not be lost.
        after = effect.as_of.astimezone(UTC).date() + timedelta(days=1)
        if after <= self._now().date():
            body["end_date"] = f"{after:%Y-%m-%d}"
        if effect.since is not None:
            body["start_date"] = f"{effect.since.astimezone(UTC):%Y-%m-%d}"
        return body

    def worst_case_usd(self, effect: Search) -> Decimal | None:
        """Return the price of the credits that a search of this depth takes; None when it is unknown."""
        return None if self._unit_cost is None else self.quota_units(effect) * self._unit_cost

    def quota_units(self, effect: Search) -> int:
        """Return the credits that a search of this depth takes."""
        return _CREDITS.get(effect.depth, 1)

    def _cost(self, body: dict[str, Any], depth: str) -> tuple[Decimal | None, str]:
        if self._unit_cost is None:
            return None, "unknown"
        usage = body.get("usage")
        credits = usage.get("credits") if isinstance(usage, dict) else None
        if isinstance(credits, int | float) and not isinstance(credits, bool) and 0 <= credits < 1e6:
            return Decimal(str(credits)) * self._unit_cost, "SEARCH_COST_USD per reported credit"
        return _CREDITS.get(depth, 1) * self._unit_cost, f"SEARCH_COST_USD per credit assumed for {depth}"


def _read_item(item: Any, _query: str) -> SearchResult | None:
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
