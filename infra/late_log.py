"""A logger for modules that short commands import: structlog is loaded at the first message.

Loading it takes longer than such a command's own work.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_pending: list[Callable[[], None]] = []


def configure_at_first_message(configure: Callable[[], None]) -> None:
    """Register the function that configures logging; the first message calls it."""
    _pending[:] = [configure]


def configure_now() -> None:
    """Call the function registered by :func:`configure_at_first_message`; later calls do nothing."""
    while _pending:
        _pending.pop()()


def log_of(module: str) -> Any:
    """Return a module's structlog logger. Call this where the message is written, not at import."""
    configure_now()
    import structlog

    return structlog.get_logger(module)
