"""The logger of modules that short commands import. Loading structlog takes longer than such a command works, so it is
loaded at the first message.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_pending: list[Callable[[], None]] = []


def configure_at_first_message(configure: Callable[[], None]) -> None:
    """Have logging configured by this when the first message comes."""
    _pending[:] = [configure]


def configure_now() -> None:
    """Configure logging as :func:`configure_at_first_message` was told; later calls do nothing."""
    while _pending:
        _pending.pop()()


def log_of(module: str) -> Any:
    """Return the structlog logger of a module. Ask for it where the message is written, not at import."""
    configure_now()
    import structlog

    return structlog.get_logger(module)
