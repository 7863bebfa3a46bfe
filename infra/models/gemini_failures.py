"""What an HTTP status of the Gemini API means to us.

Wire shape: ``{"error": {"code", "message", "status", "details": [{"@type", …}]}}`` (google.rpc.Status); the
details that matter are ``ErrorInfo.reason`` and ``RetryInfo.retryDelay``.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import httpx
from google.genai import errors as vendor

from infra.http import kind_of_server_error, quoted, retry_after_s
from schemas.errors import PermanentError, TransientError

_KEY_REASONS = {"API_KEY_INVALID", "API_KEY_EXPIRED", "API_KEY_SERVICE_BLOCKED", "API_KEY_HTTP_REFERRER_BLOCKED"}
"""A wrong key comes as 400 INVALID_ARGUMENT with one of these, not as 401."""


def translate_status(exc: vendor.APIError, model: str, now: datetime) -> TransientError | PermanentError:
    """Return ours for an answer with another status than 200. The caller raises it ``from exc``."""
    status = exc.code if isinstance(exc.code, int) else 0
    said = quoted(exc.message or exc.status or "no reason given")
    if status in {401, 403} or any(d.get("reason") in _KEY_REASONS for d in _details(exc)):
        return PermanentError(
            f"Gemini refuses the key ({status}: {said}); write a valid one into GEMINI_API_KEY",
            kind="auth",
            status=status,
        )
    if status == 429:
        return TransientError(
            f"Gemini's rate limit is reached ({said}); it is tried again later",
            kind="rate_limit",
            status=status,
            retry_after_s=_wanted_delay_s(exc, now),
        )
    if status == 408 or status >= 500:
        return TransientError(
            f"Gemini is unavailable ({status}: {said}); it is tried again",
            kind=kind_of_server_error(status),
            status=status,
            retry_after_s=_wanted_delay_s(exc, now),
        )
    return _permanent(status, said, model)


def _permanent(status: int, said: str, model: str) -> PermanentError:
    if status == 404:
        return PermanentError(
            f"Gemini has no model {model!r} ({said}); write another into MODEL_LIGHT or MODEL_HEAVY",
            kind="invalid_request",
            status=status,
        )
    if status == 413:
        return PermanentError(
            f"the request is too large for Gemini ({said}); send less text", kind="too_large", status=status
        )
    if 300 <= status < 400:
        return PermanentError(
            f"Gemini's address answers with a redirect ({status}), which is not followed; "
            "write the final address into GEMINI_BASE_URL",
            kind="not_configured",
            status=status,
        )
    return PermanentError(
        f"Gemini does not take this request ({status}: {said}); correct the prompt, the schema or the model's settings",
        kind="invalid_request",
        status=status,
    )


def _wanted_delay_s(exc: vendor.APIError, now: datetime) -> float | None:
    response: Any = exc.response
    if isinstance(response, httpx.Response) and (wanted := retry_after_s(response.headers, now)) is not None:
        return wanted
    for detail in _details(exc):
        delay = detail.get("retryDelay")
        if isinstance(delay, str) and delay.endswith("s"):
            try:
                return max(0.0, float(delay[:-1]))
            except ValueError:
                continue
    return None


def _details(exc: vendor.APIError) -> Iterator[dict[str, Any]]:
    body: Any = exc.details
    error = body.get("error", body) if isinstance(body, dict) else None
    details = error.get("details") if isinstance(error, dict) else None
    return (d for d in details if isinstance(d, dict)) if isinstance(details, list) else iter(())
