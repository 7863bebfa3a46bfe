"""One result of a provider: its texts bounded and storable, its link and its score checked."""

from __future__ import annotations

import math
import re
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from infra.texts import cut_utf8, storable_text
from schemas.errors import PermanentError
from schemas.evidence import SearchResult
from schemas.topics import MAX_BODY_BYTES

MAX_QUERY_CHARS = 400
_MAX_TITLE_CHARS = 500
_MAX_URL_CHARS = 2048
_CHINESE = re.compile(r"[\u4e00-\u9fff]+")
_WORD = re.compile(r"[a-z0-9][a-z0-9.&-]*[a-z0-9]")


def result_of(
    *,
    provider: str,
    url: Any,
    title: Any,
    content: Any,
    score: float | None,
    published_at: datetime | None,
    whole: bool = True,
) -> SearchResult | None:
    """Return one result with its texts bounded and storable; None when it has no URL, title, text or score.

    ``whole``: the content is all that the provider has of the page's text, and not a title in place of it.
    """
    domain = host_of_link(url)
    if not domain or not isinstance(title, str) or not isinstance(content, str) or score is None:
        return None
    snippet = cut_utf8(storable_text(content), MAX_BODY_BYTES)
    return SearchResult(
        title=" ".join(storable_text(title).split())[:_MAX_TITLE_CHARS],
        url=str(url).strip(),
        domain=domain,
        snippet=snippet,
        score=score,
        published_at=published_at,
        provider=provider,
        content_complete=whole and len(snippet) == len(content),
    )


def lexical_score(query: str, title: str, content: str) -> float:
    """Return a relevance 0-1 for a provider that gives none: 0.4 plus the share of the query's terms in the text.

    Terms are words, and pairs of neighbouring characters in Chinese. A query may name an event in two languages, and a page
    is written in one, so quality control compares scores with the best of their answer (``QUALITY_FLOOR``).
    """
    wanted = _terms(query)
    if not wanted:
        return 0.0
    shared = len(wanted & _terms(f"{title} {content}"))
    return round(min(1.0, 0.4 + shared / len(wanted)), 4) if shared else 0.0


def cut_query(query: str) -> str:
    """Return the query on one line of at most ``MAX_QUERY_CHARS``, cut between words if possible (Chinese has none).

    Raises:
        PermanentError: the query is empty.
    """
    query = " ".join(storable_text(query).split())
    if not query:
        raise PermanentError("the search has no words; give it keywords", kind="invalid_request")
    if len(query) <= MAX_QUERY_CHARS:
        return query
    cut = query[:MAX_QUERY_CHARS]
    space = cut.rfind(" ")
    return cut[:space] if space > MAX_QUERY_CHARS * 3 // 4 and query[MAX_QUERY_CHARS] != " " else cut


def _terms(text: str) -> set[str]:
    low = text.casefold()
    pairs = (run[n : n + 2] for run in _CHINESE.findall(low) for n in range(max(1, len(run) - 1)))
    return {*_WORD.findall(low), *pairs}


def score_of(value: Any) -> float | None:
    """Clamp a provider's own score to 0-1; None when it is not a number."""
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or (isinstance(value, float) and math.isnan(value))
    ):
        return None
    # Compared before conversion: JSON integers may be larger than any float.
    return float(min(1, max(0, value)))


def host_of_link(url: Any) -> str:
    """Return the lower-case host of an http(s) URL, without port, user and final dot; empty for anything else."""
    if not isinstance(url, str) or len(url) > _MAX_URL_CHARS or storable_text(url) != url:
        return ""
    try:
        parts = urlsplit(url.strip())
        host = parts.hostname or ""
    except ValueError:
        return ""
    return host.rstrip(".") if parts.scheme in {"http", "https"} and not re.search(r"\s", url.strip()) else ""
