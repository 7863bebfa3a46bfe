"""The wall clock of the runtime, and the broker's clock as a record carries it."""

from __future__ import annotations

from datetime import UTC, datetime

_LAST_MS = 7_258_118_400_000
"""2200-01-01: later than any clock that is right. A topic that keeps its writers' times may claim anything."""


def utc_now() -> datetime:
    """The wall clock (UTC). Ids, order and versions never depend on it."""
    return datetime.now(UTC)


def append_ms(record: object) -> float:
    """Return a record's time in milliseconds since 1970; 0 for a record without one."""
    timestamp = float(getattr(record, "timestamp", None) or 0.0)
    # Faust counts in seconds, aiokafka in milliseconds.
    in_ms = timestamp * 1000 if abs(timestamp) < 1e11 else timestamp
    return min(max(in_ms, 0.0), float(_LAST_MS))


def appended_at(record: object) -> datetime:
    """Return when the broker took a record (UTC), the wall clock where it does not say.

    "In the future" is judged by it: whoever reads the record, and whenever, judges it alike.
    """
    at_ms = append_ms(record)
    return datetime.fromtimestamp(at_ms / 1000, UTC) if at_ms > 0 else utc_now()
