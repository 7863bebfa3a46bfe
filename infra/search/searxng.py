"""SearXNG over httpx: the searches of an instance of one's own, without a key. One ``Search`` is one ``GET /search``.

Wire format: https://docs.searxng.org/dev/search_api.html, and ``get_json_response`` of
https://github.com/searxng/searxng/blob/9fea412/searx/webutils.py. ``json`` must be among ``search.formats`` of the
instance's settings.yml, which by default lists html alone; it answers 403 else.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx

from infra.http import quoted
from infra.http_json import Service, error_message, json_object, refused
from infra.ports import Answer
from infra.search.adapter import SearchAdapter
from infra.search.results import cut_query, lexical_score, result_of
from infra.texts import parse_published
from schemas.effects import Search
from schemas.errors import PermanentError, TransientError
from schemas.evidence import SearchResult

MAX_DOMAINS = 10
_SEARXNG = Service(name="SearXNG", address_setting="SEARXNG_URL")
_SYNTAX = re.compile(r"(?:^|(?<=\s))[!?:<]+")
"""What begins a command to SearXNG itself, such as “!wp”, which is an engine, or “!!g”, which leads away from it."""
_LANGUAGE = re.compile(r"[a-z]{2}")
_RANGES = ((1, "day"), (7, "week"), (31, "month"), (366, "year"))
"""The longest age in days → the range that holds it."""


class SearxngSearch(SearchAdapter):
    """An instance of one's own. A search of which no engine answered is a failure: then nothing is known.

    Its own score counts the engines that found a page and has no upper bound; the score here is that of the shared words.
    """

    provider = "searxng"
    service = _SEARXNG
    free = "own instance"

    def __init__(self, *, base_url: str, now: Callable[[], datetime] = lambda: datetime.now(UTC), **given: Any) -> None:
        """As :class:`SearchAdapter`. ``base_url`` may be a loopback or private address."""
        self._now = now
        super().__init__(base_url, **given)

    def _query(self, effect: Search) -> str:
        return cut_query(_SYNTAX.sub("", effect.query))

    async def _ask(self, effect: Search, query: str) -> httpx.Response:
        return await self._client.send("GET", "/search", params=self._params(effect, query))

    def _params(self, effect: Search, query: str) -> dict[str, str]:
        sites = " OR ".join(f"site:{domain}" for domain in effect.include_domains[:MAX_DOMAINS])
        params = {
            "q": f"{query} ({sites})" if " OR " in sites else f"{query} {sites}".strip(),
            "format": "json",
            "categories": "news" if effect.topic == "news" else "general",
        }
        if _LANGUAGE.fullmatch(effect.language):
            params["language"] = effect.language
        if effect.since is not None:
            age = self._now() - effect.since
            fitting = [name for days, name in _RANGES if age <= timedelta(days=days)]
            if fitting:
                params["time_range"] = fitting[0]
        return params

    def _read(self, response: httpx.Response, effect: Search, query: str) -> Answer:
        if response.status_code != 200:
            raise _refused(response)
        body = json_object(response, _SEARXNG)
        items = body.get("results")
        if not isinstance(items, list):
            raise self._useless("has no list of results")
        silent = body.get("unresponsive_engines")
        if not items and silent:
            raise TransientError(f"none of SearXNG's engines responded ({quoted(silent, 200)})", kind="unavailable")
        return self._answer(items, _read_item, query, limit=effect.max_results)


def _refused(response: httpx.Response) -> TransientError | PermanentError:
    if response.status_code == 403:
        text = (
            "SearXNG returned 403, because it serves no JSON; add json to search.formats in its settings.yml and restart it, "
            "or take searxng off DEEP_ANALYSIS_SEARCH_PROVIDER"
        )
        return PermanentError(text, kind="not_configured", status=403)
    return refused(_SEARXNG, response.status_code, error_message(response, "error"), response.headers)


def _read_item(item: Any, query: str) -> SearchResult | None:
    if not isinstance(item, dict):
        return None
    title, content = item.get("title"), item.get("content")
    if not isinstance(title, str) or not title.strip() or not isinstance(content, str):
        return None
    return result_of(
        provider="searxng",
        url=item.get("url"),
        title=title,
        content=content or title,
        score=lexical_score(query, title, content),
        published_at=parse_published(item.get("publishedDate")),
        whole=bool(content.strip()),
    )
