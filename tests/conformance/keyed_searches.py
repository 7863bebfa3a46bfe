"""Searches that need a key: Tavily, Bocha and RAGFlow.

Errors and prices: https://docs.tavily.com/documentation/api-reference/endpoint/search, …/api-credits, https://open.bochaai.com,
https://ragflow.io/docs/http_api_reference#error-codes, looked up 2026-11-23.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import orjson

from tests.conformance.documented import BOCHA_SEARCH, RAGFLOW_RETRIEVAL, TAVILY_SEARCH
from tests.conformance.server import ConformanceServer, Refusal, bearer_of, body_fault, path_of
from tests.infra.fakes.searching import (
    bocha_error,
    bocha_page,
    bocha_results,
    ragflow_chunk,
    ragflow_chunks,
    ragflow_error,
)
from tests.infra.fakes.server import Received, Say
from tests.infra.fakes.tavily import error as tavily_error
from tests.infra.fakes.tavily import item
from tests.infra.fakes.tavily import results as tavily_results


class TavilyServer(ConformanceServer):
    """``POST /search``. A date comes with the topic news alone, the usage when it is asked for."""

    key = "tvly-secret"
    credit_usd = Decimal("0.008")

    def refusal(self, request: Received) -> Refusal | None:
        if bearer_of(request) != self.key:
            return Refusal("the key", tavily_error(401, "Unauthorized: missing or invalid API key."))
        if (request.method, path_of(request)) != ("POST", "/search"):
            return Refusal("the path", Say({"detail": "Not Found"}, status=404))
        body, fault = body_fault(request, TAVILY_SEARCH)
        said = None if fault is None else f"Invalid {fault.field or 'request'}: {fault.said}"
        said = said or _tavily_rule(body)
        return None if said is None else Refusal(said, tavily_error(400, said))

    def error(self, status: int, said: str = "said the fake", headers: dict[str, str] | None = None) -> Say:
        return tavily_error(status, said, headers)

    def answer(self, request: Received) -> Say:
        return self.found(request, item(), item(url="https://www.circle.com/blog/reserves", score=0.71))

    def found(self, request: Received, *items: Any, **more: Any) -> Say:
        """Return these results, and charge the credits of the depth. ``more`` replaces fields; None leaves one out."""
        body = orjson.loads(request.body)
        credits = 2 if body.get("search_depth") == "advanced" else 1
        self.charge(credits * self.credit_usd, request, credits=credits)
        dated = body.get("topic") == "news"
        kept = [
            {k: v for k, v in one.items() if dated or k != "published_date"} if isinstance(one, dict) else one
            for one in items
        ]
        usage = {"credits": credits} if body.get("include_usage") else None
        return tavily_results(*kept, query=body["query"], **{"usage": usage, **more})


def _tavily_rule(body: dict[str, Any]) -> str | None:
    if len(body["query"]) > 400:
        return "Query is too long. Max query length is 400 characters."
    if "chunks_per_source" in body and body.get("search_depth") != "advanced":
        return "chunks_per_source is only available with search_depth advanced."
    if body.get("start_date", "0") > body.get("end_date", "9"):
        return "start_date must be before end_date."
    return None


class BochaServer(ConformanceServer):
    """``POST /v1/web-search``."""

    key = "sk-secret"
    search_usd = Decimal("0.005")

    def refusal(self, request: Received) -> Refusal | None:
        if bearer_of(request) is None:
            return Refusal("no key", bocha_error(401, "Missing API KEY"))
        if bearer_of(request) != self.key:
            return Refusal("another key", bocha_error(401, "Invalid API KEY"))
        if (request.method, path_of(request)) != ("POST", "/v1/web-search"):
            return Refusal("the path", Say({"code": "404", "message": "not found"}, status=404))
        body, fault = body_fault(request, BOCHA_SEARCH)
        if fault is not None:
            missing = fault.rule == "missing"
            said = f"Missing parameter {fault.field}" if missing else f"Invalid parameter {fault.field}: {fault.said}"
            return Refusal(said, bocha_error(400, said))
        too_many = body.get("include", "").count("|") >= 20
        return (
            Refusal("too many domains", bocha_error(400, "Invalid parameter: at most 20 sites")) if too_many else None
        )

    def error(self, status: int, said: str = "said the fake", headers: dict[str, str] | None = None) -> Say:
        return bocha_error(status, said, headers=headers)

    def answer(self, request: Received) -> Say:
        return self.found(request, bocha_page())

    def found(self, request: Received, *pages: Any) -> Say:
        """Return these pages, and charge one search."""
        self.charge(self.search_usd, request)
        return bocha_results(*pages, query=orjson.loads(request.body)["query"])


class RagflowServer(ConformanceServer):
    """``POST /api/v1/retrieval`` of one's own server. It answers 200 to everything; the code is in the body."""

    key = "ragflow-secret"
    datasets = ("C7EE74067A2C11EF",)

    def refusal(self, request: Received) -> Refusal | None:
        if bearer_of(request) is None:
            return Refusal("no key", Say({"code": 0, "data": False, "message": "`Authorization` can't be empty"}))
        if bearer_of(request) != self.key:
            said = "Authentication error: API key is invalid!"
            return Refusal(said, Say({"code": 109, "data": False, "message": said}))
        if (request.method, path_of(request)) != ("POST", "/api/v1/retrieval"):
            return Refusal("the path", Say({"code": 404, "data": None, "message": "Not Found"}, status=404))
        body, fault = body_fault(request, RAGFLOW_RETRIEVAL)
        if fault is not None:
            return Refusal(fault.said, ragflow_error(102, f"`{fault.field}` is not valid: {fault.said}"))
        if not body.get("dataset_ids"):
            return Refusal("no dataset", ragflow_error(102, "`dataset_ids` is required."))
        strange = [one for one in body["dataset_ids"] if one not in self.datasets]
        return Refusal("dataset", ragflow_error(102, f"You don't own the dataset {strange[0]}.")) if strange else None

    def error(self, status: int, said: str = "said the fake", headers: dict[str, str] | None = None) -> Say:
        return Say({"code": status, "message": said}, status=status, headers=headers or {})

    def answer(self, request: Received) -> Say:
        return self.found(request, ragflow_chunk())

    def found(self, request: Received, *chunks: Any) -> Say:
        self.charge(Decimal(0), request)
        return ragflow_chunks(*chunks)
