"""The wire shapes of Tavily's ``POST /search`` (https://docs.tavily.com/documentation/api-reference/endpoint/search)."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from infra.search.tavily import TavilySearch
from schemas.effects import Search
from tests.infra.fakes.server import Behaviour, FakeServer, Say, against


def item(**changes: Any) -> dict[str, Any]:
    """Return one result."""
    full: dict[str, Any] = {
        "title": "Circle denies depeg rumour",
        "url": "https://www.coindesk.com/markets/usdc",
        "content": "Circle said in an official statement that reserves are whole.",
        "score": 0.91,
        "published_date": "Tue, 12 Nov 2024 08:00:00 GMT",
        "raw_content": None,
    }
    return {**full, **changes}


def results(*items: Any, query: str = "q", **more: Any) -> Say:
    """Return a success; ``more`` replaces fields of the response, None leaves one out."""
    body = {
        "query": query,
        "follow_up_questions": None,
        "answer": None,
        "images": [],
        "results": list(items),
        "response_time": 1.2,
        "request_id": "t-1",
        "usage": {"credits": 1},
        **more,
    }
    return Say({name: value for name, value in body.items() if value is not None})


def error(status: int, message: str = "said the fake", headers: dict[str, str] | None = None) -> Say:
    return Say({"detail": {"error": message}}, status=status, headers=headers or {})


AS_OF = datetime(2024, 11, 12, 9, tzinfo=UTC)
SEARCH = Search(provider="tavily", query="USDC Circle depeg 脱锚 官方声明", max_results=5, as_of=AS_OF)


def adapter(url: str, **settings: Any) -> TavilySearch:
    """Return the adapter of a server at this address."""
    return TavilySearch(**{"base_url": url, "api_key": "tvly-secret", "unit_cost_usd": Decimal("0.008"), **settings})


def tavily(*script: Behaviour, **settings: Any) -> AbstractAsyncContextManager[tuple[TavilySearch, FakeServer]]:
    return against(adapter, *script, **{"timeout_s": 5.0, **settings})
