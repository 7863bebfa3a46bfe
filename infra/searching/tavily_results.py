"""From Tavily's results to ours, one by one: a malformed item is skipped and counted, the others stay."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

import msgspec
import structlog

from infra.http import UselessAnswerError, storable_text
from schemas.evidence import SearchResult
from schemas.topics import MAX_BODY_BYTES

_log = structlog.get_logger(__name__)
_MAX_TITLE_CHARS = 500
_MAX_URL_CHARS = 2048
_DATE_FORMATS = ("%Y-%m-%d %H:%M:%S", "%Y/%m/%d %H:%M:%S", "%Y/%m/%d", "%Y%m%d", "%b %d, %Y", "%B %d, %Y", "%d %b %Y")
_EPOCH_MS_FROM = 1e11
"""A larger number is milliseconds: as seconds it would lie after the year 5000."""


class FoundResults(msgspec.Struct, frozen=True, kw_only=True):
    """``malformed`` counts what was skipped; ``truncated`` when a text was cut at 64 KiB."""

    results: tuple[SearchResult, ...]
    malformed: int
    truncated: bool


def read_results(body: dict[str, Any], provider: str, limit: int) -> FoundResults:
    """Return at most ``limit`` results, best first as given.

    Raises:
        UselessAnswerError: the body has no list of results.
    """
    items = body.get("results")
    if not isinstance(items, list):
        raise UselessAnswerError("Tavily's answer has no list of results; it is asked again")
    read = [_read_item(item, provider) for item in items]
    kept = [result for result in read if result is not None]
    malformed = len(read) - len(kept)
    if malformed:
        _log.warning("search_results_skipped", provider=provider, malformed=malformed, of=len(read))
    results = tuple(kept[: max(1, limit)])
    return FoundResults(results=results, malformed=malformed, truncated=any(not r.content_complete for r in results))


def _read_item(item: Any, provider: str) -> SearchResult | None:
    if not isinstance(item, dict):
        return None
    url, title, content = item.get("url"), item.get("title"), item.get("content")
    score, domain = _score(item.get("score")), _host(url)
    if not domain or not isinstance(title, str) or not isinstance(content, str) or score is None:
        return None
    snippet = cut_utf8(storable_text(content), MAX_BODY_BYTES)
    return SearchResult(
        title=" ".join(storable_text(title).split())[:_MAX_TITLE_CHARS],
        url=str(url).strip(),
        domain=domain,
        snippet=snippet,
        score=score,
        published_at=parse_published(item.get("published_date")),
        provider=provider,
        content_complete=len(snippet) == len(content),
    )


def _score(value: Any) -> float | None:
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or (isinstance(value, float) and math.isnan(value))
    ):
        return None
    # Compared before it is converted: JSON integers may be larger than any float.
    return float(min(1, max(0, value)))


def _host(url: Any) -> str:
    """Return the lower-case host of an http(s) address, without port, user and final dot; empty for anything else."""
    if not isinstance(url, str) or len(url) > _MAX_URL_CHARS or storable_text(url) != url:
        return ""
    try:
        parts = urlsplit(url.strip())
        host = parts.hostname or ""
    except ValueError:
        return ""
    return host.rstrip(".") if parts.scheme in {"http", "https"} and not re.search(r"\s", url.strip()) else ""


def cut_utf8(text: str, max_bytes: int) -> str:
    """Return the longest start of the text that has at most ``max_bytes`` bytes as UTF-8."""
    raw = text.encode()
    return text if len(raw) <= max_bytes else raw[:max_bytes].decode("utf-8", "ignore")


def parse_published(value: Any) -> datetime | None:
    """Return the time in UTC of RFC 2822, ISO 8601, plain dates or epoch numbers; None for what cannot be read.

    Without a zone it is taken as UTC, without a time of day as midnight.
    """
    try:
        parsed = _parse_any(value)
        if parsed is None:
            return None
        return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _parse_any(value: Any) -> datetime | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return datetime.fromtimestamp(value / 1000 if abs(value) >= _EPOCH_MS_FROM else value, UTC)
    if not isinstance(value, str) or not (text := value.strip()):
        return None
    for parse in (_iso, parsedate_to_datetime, *(_by_format(f) for f in _DATE_FORMATS)):
        try:
            return parse(text)
        except (ValueError, TypeError, IndexError):
            continue
    return None


def _iso(text: str) -> datetime:
    if text.isdigit() and len(text) != 8:
        return datetime.fromtimestamp(int(text) / 1000 if int(text) >= _EPOCH_MS_FROM else int(text), UTC)
    return datetime.fromisoformat(text)


def _by_format(form: str) -> Callable[[str], datetime]:
    return lambda text: datetime.strptime(text, form)  # noqa: DTZ007 - the caller adds UTC where no zone is given
