"""Requests to external services that respond in JSON or text, with every failure translated into the project's errors.

An adapter adds only its wire format. A status has the same meaning, and the same advice to the user, for every service.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import httpx
import msgspec

from infra.http import (
    MAX_RESPONSE_BYTES,
    UselessAnswerError,
    checked_address,
    checked_key,
    guarded_client,
    kind_of_server_error,
    quoted,
    retry_after_s,
    transport_failure,
)
from schemas.errors import NewsproofError, PermanentError, TransientError


class Service(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of error texts that depend on the service. ``key_setting`` is empty for a service without a key.

    ``correct``: the advice after a refused request.
    """

    name: str
    address_setting: str
    key_setting: str = ""
    correct: str = "correct the query"


class ServiceClient:
    """Client of one service at one address, with one connection pool. Safe for concurrent use within one event loop."""

    def __init__(
        self,
        service: Service,
        base_url: str,
        *,
        timeout_s: float,
        api_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        max_bytes: int = MAX_RESPONSE_BYTES,
    ) -> None:
        """``timeout_s`` bounds a whole exchange. ``api_key`` is sent as a bearer token.

        Raises:
            ConfigError: the key or the address is invalid; the text names its setting.
        """
        self.service, self.timeout_s = service, timeout_s
        self._base = checked_address(base_url, service.address_setting).rstrip("/")
        bearer = {} if api_key is None else {"authorization": f"Bearer {checked_key(api_key, service.key_setting)}"}
        self._http = guarded_client(
            base_url, timeout_s=timeout_s, headers={**bearer, **(headers or {})}, max_bytes=max_bytes
        )

    async def send(self, method: str, path: str, *, timeout_s: float | None = None, **content: Any) -> httpx.Response:
        """Send once; return the response, whatever its status. ``content``: httpx's params, json, content, headers.

        Raises:
            TransientError, PermanentError, UselessAnswerError: as :func:`exchange`.
        """
        request = self._http.build_request(method, self._base + path, **content)
        return await exchange(self._http, request, self.service, timeout_s or self.timeout_s)

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        await self._http.aclose()


async def exchange(
    client: httpx.AsyncClient, request: httpx.Request, service: Service, timeout_s: float
) -> httpx.Response:
    """Send once; ``timeout_s`` bounds the whole exchange.

    Raises:
        TransientError: kind network or timeout.
        PermanentError: kind internal.
        UselessAnswerError: kind too_large.
    """
    try:
        async with asyncio.timeout(timeout_s):
            return await client.send(request)
    except NewsproofError:
        raise  # from the transport: the body was too large or broken
    except (TimeoutError, httpx.HTTPError, httpx.StreamError) as exc:
        raise transport_failure(exc, service.name, timeout_s) from exc
    except Exception as exc:
        raise PermanentError(
            f"calling {service.name} failed in an unforeseen way ({type(exc).__name__}: {exc}); please report this",
            kind="internal",
        ) from exc


def json_of(response: httpx.Response, service: Service, *, exact: bool = False) -> Any:
    """Return the parsed body; with ``exact``, numbers with a fraction become ``Decimal``.

    Raises:
        UselessAnswerError: the body is not JSON.
    """
    parse_float: Callable[[str], Any] = Decimal if exact else float
    try:
        # Not orjson: it rejects the whole body for one lone surrogate in a title, and has no Decimal.
        return json.loads(response.content, parse_float=parse_float)
    except (ValueError, RecursionError) as exc:
        raise UselessAnswerError(f"{service.name}'s response is not JSON ({type(exc).__name__})") from exc


def json_object(response: httpx.Response, service: Service) -> dict[str, Any]:
    """Return the parsed body.

    Raises:
        UselessAnswerError: the body is not a JSON object.
    """
    body = json_of(response, service)
    if not isinstance(body, dict):
        raise UselessAnswerError(f"{service.name}'s response is not a JSON object")
    return body


def refused(
    service: Service, status: int, detail: str, headers: Mapping[str, str] | None = None
) -> TransientError | PermanentError:
    """Return the error for a status other than 200; the caller raises it. ``detail`` is the service's message."""
    wait, name = retry_after_s(headers or {}, datetime.now(UTC)), service.name
    if status in {401, 403} and service.key_setting:
        text = f"{name} refuses the key ({status}: {detail}); write a valid one into {service.key_setting}"
        return PermanentError(text, kind="auth", status=status)
    if status in {401, 403, 418, 451}:
        text = f"{name} does not serve this address ({status}: {detail}); use another network, or switch its tool off"
        return PermanentError(text, kind="refused", status=status)
    if status == 429:
        text = f"{name}'s rate limit is reached ({detail})"
        return TransientError(text, kind="rate_limit", status=status, retry_after_s=wait)
    if status == 408 or status >= 500:
        text = f"{name} is unavailable ({status}: {detail})"
        return TransientError(text, kind=kind_of_server_error(status), status=status, retry_after_s=wait)
    if status < 400:
        where = service.address_setting or "its address setting"
        text = f"{name}'s address redirects ({status}), which Newsproof does not follow; write the final address into {where}"
        return PermanentError(text, kind="not_configured", status=status)
    text = f"{name} does not take this request ({status}: {detail}); {service.correct}"
    return PermanentError(text, kind="invalid_request", status=status)


def error_message(response: httpx.Response, *path: str) -> str:
    """Return the service's error message: the value at ``path`` in a JSON body, else the body; at most 200 characters.

    Absent names in ``path`` are skipped.
    """
    try:
        body = json.loads(response.content)
    except (ValueError, RecursionError):
        body = response.text
    for name in path:
        if isinstance(body, dict) and body.get(name) is not None:
            body = body[name]
    return quoted(body, 200) or "no reason given"
