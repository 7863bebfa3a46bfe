"""The wire shapes of Tavily's ``POST /search`` (https://docs.tavily.com/documentation/api-reference/endpoint/search)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from infra.search.tavily import TavilySearch
from schemas.effects import Search
from tests.infra.fakes.server import Behaviour, FakeServer, Say


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


def results(*items: Any, **more: Any) -> Say:
    body = {"query": "q", "results": list(items), "response_time": 1.2, "request_id": "t-1", "usage": {"credits": 1}}
    return Say({**body, **more})


def error(status: int, message: str = "said the fake", headers: dict[str, str] | None = None) -> Say:
    return Say({"detail": {"error": message}}, status=status, headers=headers or {})


AS_OF = datetime(2024, 11, 12, 9, tzinfo=UTC)
SEARCH = Search(provider="tavily", query="USDC Circle depeg 脱锚 官方声明", max_results=5, as_of=AS_OF)


@asynccontextmanager
async def tavily(*script: Behaviour, **settings: Any) -> AsyncIterator[tuple[TavilySearch, FakeServer]]:
    async with FakeServer(*script) as server:
        given = {"api_key": "tvly-secret", "timeout_s": 5.0, "unit_cost_usd": 0.008, **settings}
        search = TavilySearch(**{"base_url": server.url, **given})
        try:
            yield search, server
        finally:
            await search.close()
