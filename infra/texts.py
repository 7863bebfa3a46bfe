"""Sanitising of external text for the journal, and parsing of publication dates.

Imports nothing heavy, because the process that reads pages imports it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, tzinfo
from email.utils import parsedate_to_datetime
from typing import Any

_DATE_FORMATS = ("%Y-%m-%d %H:%M:%S", "%Y/%m/%d %H:%M:%S", "%Y/%m/%d", "%Y%m%d", "%b %d, %Y", "%B %d, %Y", "%d %b %Y")
_EPOCH_MS_FROM = 1e11
"""Numbers from here on are milliseconds: as seconds they would lie after the year 5000."""


def storable_text(text: str) -> str:
    """Return the text with lone surrogates replaced: JSON may contain them, UTF-8 and thus the journal may not."""
    return text.encode("utf-8", "replace").decode()


def cut_utf8(text: str, max_bytes: int) -> str:
    """Return the longest prefix of the text that has at most ``max_bytes`` bytes in UTF-8."""
    raw = text.encode()
    return text if len(raw) <= max_bytes else raw[:max_bytes].decode("utf-8", "ignore")


def parse_published(value: Any, zone: tzinfo = UTC) -> datetime | None:
    """Parse an RFC 2822, ISO 8601 or plain date, or an epoch number; return it in UTC, None if it cannot be parsed.

    A missing zone is taken as ``zone``, a missing time of day as midnight.
    """
    try:
        parsed = _parse_any(value)
        if parsed is None:
            return None
        return (parsed if parsed.tzinfo else parsed.replace(tzinfo=zone)).astimezone(UTC)
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
