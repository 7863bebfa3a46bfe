"""The wire shapes of Tavily's ``POST /search`` (https://docs.tavily.com/documentation/api-reference/endpoint/search)."""

from __future__ import annotations

from typing import Any

from tests.infra.fakes.server import Say


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
