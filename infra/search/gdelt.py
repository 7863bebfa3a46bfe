"""GDELT DOC 2.0 over httpx: titles of the world's news, dated, without a key. One ``Search`` is one ``GET /api/v2/doc/doc``.

Wire format and operators: https://blog.gdeltproject.org/gdelt-doc-2-0-api-debuts/. Keywords are English alone, and find
pages of all languages by their translations (https://blog.gdeltproject.org/updates-doc-2-0-api/). Errors and throttling
come as plain text, with 429 or with 200; nothing found is ``{}``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

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

DEFAULT_BASE_URL = "https://api.gdeltproject.org"
INTERVAL_S = 6.0
"""GDELT asks for one request per 5 s; at exactly that it still refuses some, by its own clock."""
WINDOW = timedelta(days=89)
"""The three months that can be searched, taken at their shortest."""
MAX_EXPRESSION_CHARS = 220
"""GDELT refuses longer expressions: those of about 250 are "too long"."""
RECORDS = 75
"""Records asked for, newest first. The best titles of them are kept: GDELT does not sort by our words."""
_GDELT = Service(name="GDELT", address_setting="GDELT_BASE_URL", correct="correct the keywords")
_HEADERS = {"user-agent": "Newsproof (news verification)"}
"""Requests without a name of their own are throttled first."""
_TERM = re.compile(r'"[A-Za-z0-9][^"]*"|[A-Za-z0-9][A-Za-z0-9.&-]*[A-Za-z0-9]')
_OPERATORS = frozenset({"and", "or", "not"})
_HOST = re.compile(r"[a-z0-9-]+(?:\.[a-z0-9-]+)+")
_LANGUAGES = {"en": "sourcelang:english", "zh": "(sourcelang:english OR sourcelang:chinese)"}
"""Whose titles a query in these languages can be compared with. Other news is searched for in every language."""
_ESCAPE = re.compile(r'\\(["\\/bfnrtu]?)')
_CJK = "\u3040-\u30ff\u3400-\u9fff"
_PARTED = re.compile(rf"(?<=[{_CJK}]) (?=[{_CJK}])| (?=[,.;:!?%)])")
"""Spaces that GDELT puts between Chinese words and before marks."""


class GdeltSearch(SearchAdapter):
    """Pages of the last three months that were seen before ``as_of``.

    Keeps GDELT's rate limit over all searches of this object: use one object per process.

    A result's content is its title, and ``published_at`` the time at which GDELT first saw the page: never before it was
    published, mostly within minutes.
    """

    provider = "gdelt"
    service = _GDELT
    free = "free"
    titles_only = True

    def __init__(
        self,
        *,
        base_url: str = DEFAULT_BASE_URL,
        timeout_s: float = 20.0,
        pace: Pace | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        **given: Any,
    ) -> None:
        """As :class:`SearchAdapter`. ``pace`` bounds the wait for a search's turn, before its request (default: 30 s)."""
        self._pace = pace or Pace("GDELT", interval_s=INTERVAL_S, max_wait_s=30.0)
        self._now = now
        super().__init__(base_url, timeout_s=timeout_s, headers=_HEADERS, **given)

    async def _ask(self, effect: Search, query: str) -> httpx.Response:
        params = {
            "query": _expression(query, effect),
            "mode": "artlist",
            "format": "json",
            "maxrecords": str(RECORDS),
            **self._window(effect),
            "sort": "datedesc",
        }
        async with self._pace.turn():
            return await self._client.send("GET", "/api/v2/doc/doc", params=params)

    def _window(self, effect: Search) -> dict[str, str]:
        now = self._now()
        first, end = now - WINDOW, min(effect.as_of, now)
        if end <= first:
            raise PermanentError(
                f"GDELT keeps the last three months, and this case is of {effect.as_of:%Y-%m-%d}: it was not searched; "
                "for older news set a provider that looks further back, such as TAVILY_API_KEY",
                kind="invalid_request",
            )
        start = max(first, effect.since) if effect.since is not None else first
        return {"startdatetime": _stamp(start), "enddatetime": _stamp(end)}

    def _read(self, response: httpx.Response, effect: Search, query: str) -> Answer:
        text = response.text.strip()
        detail = quoted(text, 200)
        if response.status_code != 200 or "limit requests" in detail.lower():
            raise self._refused(response, detail)
        if text[:1].isalpha():
            raise refused(_GDELT, 400, detail)
        return self._answer(self._articles(text), _read_item, query, limit=effect.max_results, order=_best_first)

    def _refused(self, response: httpx.Response, detail: str) -> TransientError | PermanentError:
        status = 429 if "limit requests" in detail.lower() else response.status_code
        return self._pace.heed(refused(_GDELT, status, detail, response.headers))

    def _articles(self, text: str) -> list[Any]:
        # Titles may hold stray backslashes and control characters, which would lose the whole answer.
        try:
            body = json.loads(_ESCAPE.sub(lambda match: match[0] if match[1] else r"\\", text), strict=False)
        except (ValueError, RecursionError) as exc:
            raise self._useless(f"is not JSON ({type(exc).__name__})") from exc
        articles = [] if body == {} else body.get("articles") if isinstance(body, dict) else None
        if not isinstance(articles, list):
            raise self._useless("has no list of articles")
        return articles


def _expression(query: str, effect: Search) -> str:
    """Return the first English term and at least one of the others, within the domains and languages asked for.

    A term is a word, or words in double quotes. GDELT joins terms by AND, takes OR in parentheses alone, and no term of
    fewer than three characters.
    """
    words = (term for term in _TERM.findall(query) if term.lower() not in _OPERATORS and len(term.strip('"')) > 2)
    once: dict[str, str] = {}
    for term in words:
        # Other clients of GDELT quote words with a hyphen, which may be an operator; GDELT itself does not say.
        once.setdefault(term.lower(), f'"{term}"' if re.search(r"^[^\"].*[-&]", term) else term)
    terms = list(once.values())
    if not terms:
        raise PermanentError(
            "the search has no English word of three or more letters, and GDELT finds no others; give it English terms",
            kind="invalid_request",
        )
    beside = [part for part in (terms[0], _LANGUAGES.get(effect.language, "")) if part]
    if effect.include_domains:
        beside.append(_within(effect.include_domains, MAX_EXPRESSION_CHARS - len(" ".join(beside)) - 1))
    others: list[str] = []
    for term in terms[1:]:
        if len(" ".join([*beside, _either([*others, term])])) <= MAX_EXPRESSION_CHARS:
            others.append(term)
    return " ".join([beside[0], *([_either(others)] if others else []), *beside[1:]])


def _within(domains: Iterable[str], room: int) -> str:
    """Return the first of these domains, as many as there is room for."""
    hosts: list[str] = []
    for domain in domains:
        host = domain.lower().rpartition("://")[2].partition("/")[0]
        term = f"domainis:{host}"
        if _HOST.fullmatch(host) and term not in hosts and len(_either([*hosts, term])) <= room:
            hosts.append(term)
    if not hosts:
        raise PermanentError(
            f"GDELT can search none of the requested domains ({quoted(', '.join(domains), 200)}); write them like sec.gov",
            kind="invalid_request",
        )
    return _either(hosts)


def _either(terms: list[str]) -> str:
    return f"({' OR '.join(terms)})" if len(terms) > 1 else "".join(terms)


def _stamp(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y%m%d%H%M%S}"


def _read_item(item: Any, query: str) -> SearchResult | None:
    if not isinstance(item, dict) or not isinstance(item.get("title"), str) or not item["title"].strip():
        return None
    title = _PARTED.sub("", " ".join(item["title"].split()))
    return result_of(
        provider="gdelt",
        url=item.get("url"),
        title=title,
        content=title,
        score=lexical_score(query, title, ""),
        published_at=parse_published(item.get("seendate")),
        whole=False,
    )


def _best_first(results: Sequence[SearchResult]) -> list[SearchResult]:
    """Sort by score, the newest first among equals; of equal titles, which are one text, the oldest is kept."""
    once = {result.title.casefold(): result for result in results}
    return sorted(once.values(), key=lambda r: -r.score)
