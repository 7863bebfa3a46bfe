"""Bocha search over httpx, Chinese pages first. One ``Search`` is one ``POST /v1/web-search``.

Wire format, errors and limits: https://open.bochaai.com (Web Search API). An error may be in the body's ``code``.
"""

from __future__ import annotations

import re
from datetime import UTC
from typing import Any

import httpx

from infra.http import UselessAnswerError, quoted
from infra.http_json import Service, error_message, json_object, refused
from infra.ports import Answer
from infra.search.adapter import PaidSearch
from infra.search.results import lexical_score, result_of
from infra.texts import parse_published
from schemas.effects import Search
from schemas.errors import PermanentError, TransientError
from schemas.evidence import SearchResult

MAX_RESULTS = 50
MAX_DOMAINS = 20
_BOCHA = Service(name="Bocha", address_setting="BOCHA_BASE_URL", key_setting="BOCHA_API_KEY")
_BEIJING_AS_UTC = re.compile(r"Z$")


class BochaSearch(PaidSearch):
    """Bocha. Its unit of cost is a search."""

    provider = "bocha"
    service = _BOCHA
    default_url = "https://api.bochaai.com"
    path = "/v1/web-search"

    def _body(self, effect: Search, query: str) -> dict[str, Any]:
        count = max(1, min(effect.max_results, MAX_RESULTS))
        body: dict[str, Any] = {"query": query, "freshness": "noLimit", "summary": True, "count": count}
        if effect.since is not None:
            body["freshness"] = f"{effect.since.astimezone(UTC):%Y-%m-%d}..{effect.as_of.astimezone(UTC):%Y-%m-%d}"
        if domains := self._domains(effect):
            body["include"] = "|".join(domains[:MAX_DOMAINS])
        return body

    def _refused(self, response: httpx.Response) -> TransientError | PermanentError:
        return _translate(response.status_code, error_message(response, "message"), response)

    def _read(self, response: httpx.Response, effect: Search, query: str) -> Answer:
        body = json_object(response, self.service)
        code = _code_of(body)
        if code != 200:
            raise _translate(code, quoted(body.get("message") or body.get("msg") or "no reason given", 200), response)
        cost = self._unit_cost
        spent = {"cost_usd": cost, "cost_source": "unknown" if cost is None else "BOCHA_COST_USD"}
        return self._answer(_pages(body), _read_item, query, limit=effect.max_results, spent=spent)


def _code_of(body: dict[str, Any]) -> int:
    # A number on success, text on failure ({"code": "403", "message": "You do not have enough money"}).
    code = body.get("code")
    if isinstance(code, bool) or not isinstance(code, int | str) or not re.fullmatch(r"\d{3}", str(code)):
        raise UselessAnswerError("Bocha's response has no code")
    return int(code)


def _pages(body: dict[str, Any]) -> list[Any]:
    data = body.get("data")
    pages = data.get("webPages") if isinstance(data, dict) else None
    if isinstance(data, dict) and pages is None and "webPages" in data:
        return []  # the search ran and found nothing
    items = pages.get("value") if isinstance(pages, dict) else None
    if not isinstance(items, list):
        raise UselessAnswerError("Bocha's response has no list of pages")
    return items


def _read_item(item: Any, query: str) -> SearchResult | None:
    if not isinstance(item, dict):
        return None
    title, content = item.get("name"), item.get("summary") or item.get("snippet")
    if not isinstance(title, str) or not isinstance(content, str):
        return None
    # dateLastCrawled is the date of publication too, in Beijing time with a wrong "Z" (Bocha's own documentation).
    published, crawled = item.get("datePublished"), item.get("dateLastCrawled")
    if not published and isinstance(crawled, str):
        published = _BEIJING_AS_UTC.sub("+08:00", crawled)
    return result_of(
        provider="bocha",
        url=item.get("url"),
        title=title,
        content=content,
        score=lexical_score(query, title, content),
        published_at=parse_published(published),
    )


def _translate(code: int, detail: str, response: httpx.Response) -> TransientError | PermanentError:
    if code == 403:
        text = f"Bocha's balance is used up ({detail}); top it up on https://open.bochaai.com"
        return PermanentError(text, kind="plan_limit", status=code)
    if code == 400 and "api key" in detail.lower():
        return refused(_BOCHA, 401, detail)
    return refused(_BOCHA, code, detail, response.headers)
