"""Searches without a key: Arxiv, GDELT's DOC 2.0 and a SearXNG of one's own.

https://info.arxiv.org/help/api/user-manual.html, https://blog.gdeltproject.org/gdelt-doc-2-0-api-debuts/ and
https://docs.searxng.org/dev/search_api.html, looked up 2026-11-23. GDELT says what is wrong as text/html with status 200.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from tests.conformance.documented import ARXIV_QUERY, GDELT_DOC, SEARXNG_SEARCH, query_fault
from tests.conformance.server import ConformanceServer, Refusal, Situation, path_of, query_of
from tests.infra.fakes.searching import (
    article,
    articles,
    arxiv_error,
    feed,
    gdelt_says,
    paper,
    searxng_page,
    searxng_results,
)
from tests.infra.fakes.server import Received, Say

_AS_HTML = {"content-type": "text/html; charset=utf-8"}
_OPERATORS = re.compile(r'"[^"]*"|\w+:\S+')


class ArxivServer(ConformanceServer):
    """``GET /api/query``. Free; an error is a feed with one entry."""

    def refusal(self, request: Received) -> Refusal | None:
        if (request.method, path_of(request)) != ("GET", "/api/query"):
            return Refusal("the path", Say(b"Not Found", status=404, headers={"content-type": "text/html"}))
        query = query_of(request)
        fault = query_fault(ARXIV_QUERY, query)
        if fault is not None:
            return Refusal(fault.said, arxiv_error(f"incorrect value for {fault.field}: {fault.said}"))
        asked = query["search_query"][0]
        if asked.count("(") != asked.count(")"):
            return Refusal("brackets", arxiv_error("malformed search_query"))
        many = int(query.get("max_results", ["10"])[0]) > 30_000
        return Refusal("too many", arxiv_error("max_results must be at most 30000")) if many else None

    def error(self, status: int, said: str = "said the fake", headers: dict[str, str] | None = None) -> Say:
        return Say(said.encode(), status=status, headers={"content-type": "text/plain", **(headers or {})})

    def answer(self, request: Received) -> Say:
        return self.found(request, paper())

    def found(self, request: Received, *entries: str) -> Say:
        self.charge(Decimal(0), request)
        return feed(*entries)


class GdeltServer(ConformanceServer):
    """``GET /api/v2/doc/doc``. Free; ``now`` is its clock, by which it looks back three months."""

    def __init__(
        self, situation: Situation | None = None, *, now: datetime = datetime(2026, 11, 23, tzinfo=UTC)
    ) -> None:
        super().__init__(situation)
        self._now = now

    def refusal(self, request: Received) -> Refusal | None:
        if (request.method, path_of(request)) != ("GET", "/api/v2/doc/doc"):
            return Refusal("the path", gdelt_says("Not Found", 404))
        query = query_of(request)
        fault = query_fault(GDELT_DOC, query)
        if fault is not None:
            return Refusal(f"{fault.field}: {fault.said}", gdelt_says(f"Invalid/Unsupported {fault.field}."))
        said = _gdelt_query_fault(query["query"][0]) or self._gdelt_time_fault(query)
        return None if said is None else Refusal(said, gdelt_says(said))

    def _gdelt_time_fault(self, query: dict[str, list[str]]) -> str | None:
        times = {}
        for name in ("startdatetime", "enddatetime"):
            if name in query:
                try:
                    times[name] = datetime.strptime(query[name][0], "%Y%m%d%H%M%S").replace(tzinfo=UTC)
                except ValueError:
                    return f"Invalid/Unsupported {name}."
        begun, ended = times.get("startdatetime"), times.get("enddatetime")
        if begun is not None and begun < self._now - timedelta(days=93):
            return "The start date must be within the last 3 months."
        return "The end date is before the start date." if begun and ended and ended < begun else None

    def error(self, status: int, said: str = "said the fake", headers: dict[str, str] | None = None) -> Say:
        return gdelt_says(said, status, headers)

    def answer(self, request: Received) -> Say:
        return self.found(request, gdelt_article())

    def found(self, request: Received, *found: Any) -> Say:
        """Return these articles; none is an empty object, as GDELT answers."""
        self.charge(Decimal(0), request)
        return articles(*found)


def _gdelt_query_fault(asked: str) -> str | None:
    bare = re.sub(r'"[^"]*"', "", asked)
    if not 3 <= len(asked) <= 250:
        return "Your query was too short or too long."
    if any(not re.search(r"\sOR\s", inside) for inside in re.findall(r"\(([^()]*)\)", bare)):
        return "Parentheses may only be used around OR'd statements."
    if re.search(r"\sOR\s", re.sub(r"\([^()]*\)", "", bare)):
        return "Queries containing OR'd terms must be surrounded by ()."
    short = next(
        (word for word in _OPERATORS.sub("", bare).replace("(", " ").replace(")", " ").split() if len(word) < 2), None
    )
    return f"The specified phrase is too short: {short}" if short else None


def gdelt_article(**changes: Any) -> dict[str, Any]:
    """Return one article of the day before the server's."""
    mine = {"title": "Circle denies depeg rumour , says reserves of USDC are whole", "seendate": "20261122T101500Z"}
    return article(**{**mine, **changes})


class SearxngServer(ConformanceServer):
    """``GET /search?format=json``. Free."""

    def refusal(self, request: Received) -> Refusal | None:
        if request.method != "GET" or path_of(request) not in {"/search", "/"}:
            return Refusal("the path", _html("Not Found", 404))
        fault = query_fault(SEARXNG_SEARCH, query_of(request))
        if fault is not None:
            return Refusal(
                f"{fault.field}: {fault.said}", Say({"error": f"Invalid value for parameter {fault.field}"}, status=400)
            )
        return None

    def error(self, status: int, said: str = "said the fake", headers: dict[str, str] | None = None) -> Say:
        return _html(said, status, headers)

    def answer(self, request: Received) -> Say:
        return self.found(request, searxng_page())

    def found(self, request: Received, *results: Any) -> Say:
        self.charge(Decimal(0), request)
        return searxng_results(*results, query=query_of(request)["q"][0])


def _html(title: str, status: int, headers: dict[str, str] | None = None) -> Say:
    body = f"<!doctype html><html><head><title>{title}</title></head><body><h1>{title}</h1></body></html>"
    return Say(body.encode(), status=status, headers={**_AS_HTML, **(headers or {})})
