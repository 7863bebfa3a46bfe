"""One line of news from the command or the page: completed, checked, and ready to send."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any

import msgspec
import orjson

from newsproof.sdk.client import checked_news
from schemas.errors import ContractError
from schemas.news import MAX_RECORD_BYTES


class NewsItem(msgspec.Struct, frozen=True):
    """One record of ``news``. ``dated_now``: the line had no ``published_at``, so the current time was set.

    ``case_id``: its case; empty for an unchecked record.
    """

    key: bytes | None
    value: bytes
    dated_now: bool = False
    case_id: str = ""


def item_of(line: bytes, *, source: str, now: datetime, listed: Collection[str] | None = None) -> NewsItem:
    """Return the record for one line: a JSON object, which may leave out ``source`` and ``published_at``, or plain text.

    ``listed``: as for :func:`checked_news`.

    Raises:
        ContractError: intake would refuse it; the text says what to change.
    """
    value = line.strip()
    dated_now = False
    fields = _fields(value, source) if len(value) <= 2 * MAX_RECORD_BYTES else None
    if fields is not None and (missing := [name for name in ("source", "published_at") if fields.get(name) is None]):
        fields |= {"source": source} if "source" in missing else {}
        if dated_now := "published_at" in missing:
            fields["published_at"] = now
            fields.setdefault("received_at", now)
        value = orjson.dumps(fields)
    news, value = checked_news(value, now=now, listed=listed)
    return NewsItem(news.key, value, dated_now, news.case_id)


def _fields(line: bytes, source: str) -> dict[str, Any] | None:
    """Return the fields of an object or of a plain line; None if the check must refuse it unchanged."""
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        if line.startswith(b"{"):
            return None
        try:
            return {"source": source, "text": line.decode("utf-8")}
        except UnicodeDecodeError as exc:
            raise ContractError(f"not UTF-8 (byte {exc.start}): encode it as UTF-8", reason="not_utf8") from exc
    return value if isinstance(value, dict) else None
