"""Arxiv search over httpx. One ``Search`` is one ``GET /api/query``, which returns an Atom feed of papers.

Wire format, rate limit and errors: https://info.arxiv.org/help/api/user-manual.html and /tou.html (one request per
three seconds, one connection). Some errors come as HTTP 200 with one entry titled "Error", or as the text "Rate
exceeded.".
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any
from xml.etree import ElementTree

import httpx

from infra.http import quoted
from infra.http_json import Service, refused
from infra.ports import Answer
from infra.search.adapter import SearchAdapter
from infra.search.pace import Pace
from infra.search.results import lexical_score, result_of
from infra.texts import parse_published
from schemas.effects import Search
from schemas.errors import PermanentError, TransientError
from schemas.evidence import SearchResult

DEFAULT_BASE_URL = "https://export.arxiv.org"
INTERVAL_S = 3.0
MAX_WORDS = 12
_ARXIV = Service(name="Arxiv", address_setting="ARXIV_BASE_URL")
_ATOM = "{http://www.w3.org/2005/Atom}"
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]+")
_OPERATORS = frozenset({"and", "or", "andnot"})
_FIRST_DAY = datetime(1991, 7, 1, tzinfo=UTC)
RECENT = timedelta(days=365)
"""The age up to which a paper is recent."""


class ArxivSearch(SearchAdapter):
    """Papers submitted before ``as_of``, and from ``since`` on.

    Keeps Arxiv's rate limit over all searches of this object: use one object per process.
    """

    provider = "arxiv"
    service = _ARXIV
    free = "free"

    def __init__(
        self, *, base_url: str = DEFAULT_BASE_URL, pace: Pace | None = None, focus_recent: bool = False, **given: Any
    ) -> None:
        """As :class:`SearchAdapter`. ``pace`` bounds the wait for a search's turn, before its request (default: 30 s).

        ``focus_recent``: papers of the year before the case alone, still the best match first.
        """
        self._focus_recent = focus_recent
        self._pace = pace or Pace("Arxiv", interval_s=INTERVAL_S, max_wait_s=30.0)
        super().__init__(base_url, **given)

    async def _ask(self, effect: Search, query: str) -> httpx.Response:
        params = {
            "search_query": _expression(query, self._first(effect), effect.as_of),
            "start": "0",
            "max_results": str(max(1, min(effect.max_results, 50))),
            "sortBy": "relevance",
            "sortOrder": "descending",
        }
        async with self._pace.turn():
            return await self._client.send("GET", "/api/query", params=params)

    def _first(self, effect: Search) -> datetime:
        recent = effect.as_of - RECENT if self._focus_recent else _FIRST_DAY
        return max(recent, effect.since or _FIRST_DAY)

    def _read(self, response: httpx.Response, effect: Search, query: str) -> Answer:
        detail = quoted(response.text, 200)
        if response.status_code not in {200, 400}:
            raise self._refused(response, detail)
        if "rate exceeded" in detail.lower():
            raise self._refused(response, detail, status=429)
        entries = self._entries(response.content)
        if why := next((_text(e, "summary") for e in entries if "/api/errors" in _text(e, "id")), None):
            raise refused(_ARXIV, 400, quoted(why, 200))
        if response.status_code == 400:
            raise refused(_ARXIV, 400, detail)
        return self._answer(entries, _read_entry, query, limit=effect.max_results)

    def _refused(
        self, response: httpx.Response, detail: str, *, status: int | None = None
    ) -> TransientError | PermanentError:
        return self._pace.heed(refused(_ARXIV, status or response.status_code, detail, response.headers))

    def _entries(self, body: bytes) -> list[ElementTree.Element]:
        # No document type, hence no entities that expand or point to files; and no UTF-16, in which these words look
        # different.
        if b"\0" in body or b"<!doctype" in body.lower() or b"<!entity" in body.lower():
            raise self._useless("is no Atom feed")
        try:
            root = ElementTree.fromstring(body)
        except (ElementTree.ParseError, ValueError, LookupError) as exc:
            raise self._useless(f"is no XML ({exc})") from exc
        if root.tag != f"{_ATOM}feed":
            raise self._useless("is no Atom feed")
        return root.findall(f"{_ATOM}entry")


def _expression(query: str, first: datetime, as_of: datetime) -> str:
    """Return the words joined by OR (Arxiv sorts by relevance), and the time bounds, in GMT to the minute."""
    words = dict.fromkeys(w.lower() for w in _WORD.findall(query) if w.lower() not in _OPERATORS)
    if not words:
        raise PermanentError(
            "the search has no word in Latin letters, and Arxiv finds no others; give it English terms",
            kind="invalid_request",
        )
    terms = " OR ".join(f"all:{word}" for word in list(words)[:MAX_WORDS])
    bounds = (f"{moment.astimezone(UTC):%Y%m%d%H%M}" for moment in (first, as_of))
    return f"({terms}) AND submittedDate:[{' TO '.join(bounds)}]"


def _text(entry: ElementTree.Element, name: str) -> str:
    return " ".join((entry.findtext(f"{_ATOM}{name}") or "").split())


def _read_entry(entry: ElementTree.Element, query: str) -> SearchResult | None:
    url, title, content = (_text(entry, name) for name in ("id", "title", "summary"))
    if not title or not content:
        return None
    return result_of(
        provider="arxiv",
        url=url.replace("http://arxiv.org/", "https://arxiv.org/", 1),
        title=title,
        content=content,
        score=lexical_score(query, title, content),
        published_at=parse_published(_text(entry, "published")),
    )
