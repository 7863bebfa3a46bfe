"""The exception tree of Newsproof. Adapters translate vendor errors into it with ``from exc``.

    NewsproofError
    ├── ConfigError       refuse to start: says which setting, and what to write there
    ├── ContractError     input breaks a contract: the record goes to ``dead-letters``
    ├── TransientError    worth a retry after ``retry_after_s`` seconds
    ├── PermanentError    a retry would fail too: the case degrades
    └── BudgetExceeded    a grant was denied: visible in the case, never silent

The text of an error tells its reader what to do next. It is never content: no reply, signal or
note quotes it as if it were evidence.
"""

from __future__ import annotations

from typing import Literal

FailureKind = Literal[
    "timeout",
    "network",
    "rate_limit",
    "unavailable",
    "auth",
    "plan_limit",
    "not_open",
    "invalid_output",
    "cut",
    "invalid_request",
    "blocked",
    "refused",
    "too_large",
    "not_configured",
    "budget",
    "breaker_open",
    "crash",
    "deadline",
    "cancelled",
    "internal",
]
"""Kind of a failed effect or step. Whether to retry is a field of the failure, not a guess by its reader.

``cut``: a model's reply ended at its token limit; it is requested once more with a larger one.
"""


class NewsproofError(Exception):
    """Root of every error that Newsproof raises on purpose."""


class ConfigError(NewsproofError):
    """A setting is missing or wrong, or a resource is not as configured. Nothing was started."""


class ContractError(NewsproofError):
    """A record breaks its contract (shape, size, version). ``reason`` is a short stable code."""

    def __init__(self, message: str, *, reason: str = "contract") -> None:
        super().__init__(message)
        self.reason = reason


class _EffectError(NewsproofError):
    """An effect failed at a provider. The error has the fields that the log keeps."""

    def __init__(self, message: str, *, kind: FailureKind, status: int | None = None) -> None:
        super().__init__(message)
        self.kind: FailureKind = kind
        self.status = status


class TransientError(_EffectError):
    """A failure worth a retry. ``retry_after_s`` (seconds, >= 0) is the provider's own statement, None without one."""

    def __init__(
        self,
        message: str,
        *,
        kind: FailureKind = "unavailable",
        status: int | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message, kind=kind, status=status)
        self.retry_after_s = retry_after_s


class PermanentError(_EffectError):
    """A failure that a retry would repeat (wrong key, plan used up, request refused)."""

    def __init__(self, message: str, *, kind: FailureKind = "invalid_request", status: int | None = None) -> None:
        super().__init__(message, kind=kind, status=status)


class BudgetExceeded(NewsproofError):  # noqa: N818 - a limit that held, not a fault
    """The budget denied a grant. The case records it and continues without the effect."""
