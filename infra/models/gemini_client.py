"""The only Gemini API client, for chat and embeddings: google-genai with one request per call and translated errors.

By default, the library sends more requests: it retries connection errors over aiohttp, runs functions by itself and
continues long responses. All three are off, so that every attempt is an event of the case and every cost is recorded.

Wire format of an error: ``{"error": {"code", "message", "status", "details": [{"@type", …}]}}`` (google.rpc.Status).
The relevant details are ``ErrorInfo.reason``, ``RetryInfo.retryDelay`` and ``QuotaFailure.violations[].quotaId``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

import httpx
from google import genai
from google.genai import errors as vendor
from google.genai import types
from google.genai.models import AsyncModels

from infra.http import (
    MAX_RESPONSE_BYTES,
    UselessAnswerError,
    checked_address,
    checked_key,
    guarded_client,
    kind_of_server_error,
    names,
    quoted,
    retry_after_s,
    tls_context,
    transport_failure,
)
from schemas.errors import NewsproofError, PermanentError, TransientError

DEFAULT_BASE_URL = "https://generativelanguage.googleapis.com/"
_KEY_REASONS = {"API_KEY_INVALID", "API_KEY_EXPIRED", "API_KEY_SERVICE_BLOCKED", "API_KEY_HTTP_REFERRER_BLOCKED"}
"""Gemini reports a wrong key as 400 INVALID_ARGUMENT with one of these reasons, not as 401."""
_QUOTA_ZONE = ZoneInfo("America/Los_Angeles")
"""Daily quotas are reset at midnight in this zone (https://ai.google.dev/gemini-api/docs/rate-limits, 2026-11-23)."""
_Response = TypeVar("_Response")


class GeminiClient:
    """A client with one key, one address and one connection pool. Safe for concurrent calls within one event loop."""

    def __init__(
        self,
        *,
        api_key: str,
        base_url: str | None = None,
        timeout_s: float = 30.0,
        max_response_bytes: int = MAX_RESPONSE_BYTES,
        key_setting: str = "GEMINI_API_KEY",
        address_setting: str = "GEMINI_BASE_URL",
    ) -> None:
        """``timeout_s`` bounds a whole call, including the body. ``base_url`` None = Google's own address.

        ``key_setting`` and ``address_setting`` are the names of the settings in error messages.

        Raises:
            ConfigError: the key or the address is invalid.
        """
        address = checked_address(base_url or DEFAULT_BASE_URL, address_setting)
        self.key_setting, self.address_setting = key_setting, address_setting
        self._timeout_s = timeout_s
        self._http = guarded_client(address, timeout_s=timeout_s, max_bytes=max_response_bytes)
        self._client = genai.Client(
            api_key=checked_key(api_key, key_setting),
            # Explicit, because GOOGLE_GENAI_USE_VERTEXAI in the environment would otherwise send the key elsewhere.
            vertexai=False,
            http_options=types.HttpOptions(
                base_url=address,
                timeout=max(1, round(timeout_s * 1000)),
                # With an httpx client of our own, the library does not use aiohttp, whose connection errors it retries.
                httpx_async_client=self._http,
                # Otherwise the library loads all certificates twice more, for transports that are never used.
                client_args={"verify": tls_context()},
                async_client_args={"ssl": tls_context()},
            ),
        )

    @property
    def models(self) -> AsyncModels:
        """The library's calls, for :meth:`ask` to await."""
        return self._client.aio.models

    async def ask(
        self,
        call: Awaitable[_Response],
        *,
        doing: str,
        refused: Callable[[vendor.APIError], NewsproofError],
        useless: Callable[[Exception], UselessAnswerError],
    ) -> _Response:
        """Await one call of :attr:`models`. ``doing`` describes the call in error messages.

        Raises:
            TransientError: timeout, network.
            NewsproofError: the result of ``refused`` for a status other than 200.
            UselessAnswerError: the result of ``useless`` for a response that is not JSON or has another shape.
            PermanentError: internal.
        """
        try:
            async with asyncio.timeout(self._timeout_s):
                return await call
        except NewsproofError:
            raise  # from the transport: the body was too large or broken
        except vendor.APIError as exc:
            raise refused(exc) from exc
        except (TimeoutError, httpx.HTTPError, httpx.StreamError) as exc:
            raise transport_failure(exc, "Gemini", self._timeout_s) from exc
        except (ValueError, TypeError, AttributeError, KeyError, IndexError, RecursionError) as exc:
            # Not JSON, or JSON of an unexpected shape. It is not the request, which was built before.
            raise useless(exc) from exc
        except Exception as exc:
            raise PermanentError(
                f"{doing} failed in an unforeseen way ({type(exc).__name__}: {exc}); please report this",
                kind="internal",
            ) from exc

    async def close(self) -> None:
        await self._client.aio.aclose()
        self._client.close()
        await self._http.aclose()


def translate_status(exc: vendor.APIError, model: str) -> TransientError | PermanentError:
    """Translate an error status. The caller raises the result ``from exc``."""
    now = datetime.now(UTC)
    status = exc.code if isinstance(exc.code, int) else 0
    detail = quoted(exc.message or exc.status or "no reason given")
    wrong_key = any(d.get("reason") in _KEY_REASONS for d in _details(exc))
    if not wrong_key and status in {403, 404} and names(detail, model):
        return PermanentError(
            f"the model {model!r} is not open to this key ({status}: {detail}); write another into MODEL_LIGHT, MODEL_HEAVY or "
            "MODEL_TASKS: newsproof doctor --live names those on its list",
            kind="not_open",
            status=status,
        )
    if status in {401, 403} or wrong_key:
        return PermanentError(
            f"Gemini refuses the key ({status}: {detail}); write a valid one into GEMINI_API_KEY",
            kind="auth",
            status=status,
        )
    if status == 429:
        return _rate_limited(exc, detail, model, now)
    if status == 408 or status >= 500:
        return TransientError(
            f"Gemini is unavailable ({status}: {detail})",
            kind=kind_of_server_error(status),
            status=status,
            retry_after_s=_wanted_delay_s(exc, now),
        )
    return _permanent(status, detail, model)


def _rate_limited(exc: vendor.APIError, detail: str, model: str, now: datetime) -> TransientError:
    if not _is_of_the_day(exc):
        text, wait_s = f"Gemini's rate limit is reached ({detail})", _wanted_delay_s(exc, now)
        return TransientError(text, kind="rate_limit", status=429, retry_after_s=wait_s)
    # Its RetryInfo may nevertheless say a few seconds (github.com/voideditor/void/issues/557).
    return TransientError(
        f"the day's quota of {model!r} is used up ({detail}); it is called again after midnight in California, when the quota "
        "is reset: enable billing for the key and restart, or name another model",
        kind="rate_limit",
        status=429,
        retry_after_s=quota_day_left_s(now),
    )


def quota_day_left_s(now: datetime) -> float:
    """Return the seconds until daily quotas are reset. ``now`` is timezone-aware."""
    day = now.astimezone(_QUOTA_ZONE).date() + timedelta(days=1)
    return (datetime(day.year, day.month, day.day, tzinfo=_QUOTA_ZONE).astimezone(UTC) - now).total_seconds()


def _permanent(status: int, detail: str, model: str) -> PermanentError:
    if status == 404:
        return PermanentError(
            f"Gemini has nothing at this address or no model {model!r} ({detail}); correct GEMINI_BASE_URL, or MODEL_LIGHT or "
            "MODEL_HEAVY",
            kind="invalid_request",
            status=status,
        )
    if status == 413:
        return PermanentError(
            f"the request is too large for Gemini ({detail}); send less text", kind="too_large", status=status
        )
    if status < 400:
        return PermanentError(
            f"Gemini's address returned {status}, which Gemini does not send and Newsproof does not follow; "
            "write the final address into GEMINI_BASE_URL",
            kind="not_configured",
            status=status,
        )
    return PermanentError(
        f"Gemini does not take this request ({status}: {detail}); correct the prompt, the schema or the model's settings",
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


def _is_of_the_day(exc: vendor.APIError) -> bool:
    violations = (d.get("violations") for d in _details(exc))
    named = (v for listed in violations if isinstance(listed, list) for v in listed if isinstance(v, dict))
    return any("PerDay" in str(v.get("quotaId")) for v in named)


def _details(exc: vendor.APIError) -> Iterator[dict[str, Any]]:
    body: Any = exc.details
    error = body.get("error", body) if isinstance(body, dict) else None
    details = error.get("details") if isinstance(error, dict) else None
    return (d for d in details if isinstance(d, dict)) if isinstance(details, list) else iter(())
