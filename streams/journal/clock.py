"""The runtime's wall clock, and the broker's append time of a record."""

from __future__ import annotations

from datetime import UTC, datetime

_LAST_MS = 7_258_118_400_000
"""2200-01-01, later than any correct clock. A topic that keeps its writers' times may hold any value."""


def utc_now() -> datetime:
    """Return the wall clock (UTC). Ids, order and versions never depend on it."""
    return datetime.now(UTC)


def append_ms(record: object) -> float:
    """Return a record's append time in milliseconds since 1970; 0 if it has none."""
    timestamp = float(getattr(record, "timestamp", None) or 0.0)
    # Faust uses seconds, aiokafka milliseconds.
    in_ms = timestamp * 1000 if abs(timestamp) < 1e11 else timestamp
    return min(max(in_ms, 0.0), float(_LAST_MS))


def appended_at(record: object) -> datetime:
    """Return a record's append time (UTC), or the wall clock if it has none.

    "In the future" is judged by it, so every reader judges a record alike, at any time.
    """
    at_ms = append_ms(record)
    return datetime.fromtimestamp(at_ms / 1000, UTC) if at_ms > 0 else utc_now()
