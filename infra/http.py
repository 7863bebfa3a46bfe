"""The HTTP client that all adapters share, and the translation of its errors into the project's.

The client reads at most ``max_bytes`` of a body, both compressed and decompressed. It follows no redirect and never
retries. A body that trickles in ends at the caller's own deadline (``asyncio.timeout``): httpx times single reads only.
"""

from __future__ import annotations

import contextlib
import functools
import ipaddress
import re
import ssl
import urllib.request
import zlib
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

import httpx
import msgspec

from infra.ports import Answer
from infra.redaction import credentials_in, without_credentials
from schemas.effects import Failure
from schemas.errors import ConfigError, FailureKind, NewsproofError, TransientError

MAX_RESPONSE_BYTES = 8 * 1024 * 1024
"""Largest body that an adapter reads: twice ``max.message.bytes``; anything larger could not be journalled anyway."""
_MAX_CONNECTIONS = 256
"""The default of ``EFFECTS_IN_FLIGHT``, so that the pool is never the bottleneck."""
_ERROR_BYTES = 64 * 1024
"""Maximum bytes read of an error response: enough for every error message that a service writes itself."""
_PACKED = {"gzip", "x-gzip", "deflate"}
_MAX_PIECES = 65_536
"""Maximum number of chunks in a body. Each takes 10 µs, so eight million one-byte chunks would block the event loop."""


class UselessAnswerError(NewsproofError):
    """The provider responded, but the response cannot be used. Internal to adapters: ``perform`` returns ``answer``.

    Callers get an ``Answer`` rather than an exception, because the call may have cost money. ``spent`` (the fields of
    ``Answer`` other than the reply) goes into the call record; without it the cost is unknown.
    """

    def __init__(
        self,
        message: str,
        *,
        kind: FailureKind = "invalid_output",
        retryable: bool = True,
        spent: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        reply = Failure(kind=kind, message=message, retryable=retryable, status=200)
        self.answer = Answer(reply=reply, **(spent or {"cost_usd": None, "cost_source": "unknown"}))


class Overheard(msgspec.Struct, frozen=True):
    """The head of one response; ``at`` (UTC) is when its body was read."""

    host: str
    headers: httpx.Headers
    at: datetime


_listening: ContextVar[list[Overheard] | None] = ContextVar("listening", default=None)


@contextlib.contextmanager
def overhearing() -> Iterator[list[Overheard]]:
    """Collect the headers of all responses that guarded clients receive within this block; an ``Answer`` has none."""
    heard: list[Overheard] = []
    token = _listening.set(heard)
    try:
        yield heard
    finally:
        _listening.reset(token)


async def _overhear(response: httpx.Response) -> None:
    if (heard := _listening.get()) is not None:
        heard.append(Overheard(response.request.url.host, response.headers, datetime.now(UTC)))


class BoundedTransport(httpx.AsyncBaseTransport):
    """Reads each response to its end, but at most ``max_bytes``, both compressed and decompressed.

    Raises (through httpx, which does not wrap foreign exceptions):
        UselessAnswerError: ``too_large``.
        TransientError: ``network`` when the compressed body is broken.
    """

    def __init__(self, inner: httpx.AsyncBaseTransport, max_bytes: int) -> None:
        self._inner = inner
        self._max_bytes = max_bytes

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await self._inner.handle_async_request(request)
        try:
            body = await self._read(response, request.url.host)
        finally:
            await response.aclose()
        kept = [
            (name, value)
            for name, value in response.headers.multi_items()
            if name not in {"content-encoding", "content-length", "transfer-encoding"}
        ]
        if credentials := credentials_in([*request.headers.items(), *request.url.params.items()]):
            # A response may echo the request's credentials, and responses go into the journal.
            body = without_credentials(body, credentials)
            kept = [(n, without_credentials(v.encode(), credentials).decode()) for n, v in kept]
        if response.status_code != 200:
            # Error pages of proxies come in any encoding; a decoding error in a client library would hide the status.
            body = body.decode("utf-8", "replace").encode()
        read = httpx.Response(response.status_code, headers=kept, content=body)
        # Services send UTF-8. httpx would use any Python codec that the response names, and punycode takes minutes.
        read.encoding = "utf-8"
        return read

    async def _read(self, response: httpx.Response, host: str) -> bytes:
        failed = response.status_code != 200
        announced = response.headers.get("content-length", "")
        if announced.isdecimal() and int(announced) > self._max_bytes and not failed:
            raise self._too_large(host)
        body, pieces = bytearray(), 0
        assert isinstance(response.stream, httpx.AsyncByteStream)
        async for chunk in response.stream:
            body += chunk
            pieces += 1
            if failed and len(body) > _ERROR_BYTES:
                break  # the status is enough, however long the page is
            if len(body) > self._max_bytes or pieces > _MAX_PIECES:
                raise self._too_large(host)
        encoding = response.headers.get("content-encoding", "identity").strip().lower()
        return self._unpack(bytes(body), encoding, host)

    def _unpack(self, body: bytes, encoding: str, host: str) -> bytes:
        if encoding in {"", "identity"} or not body:
            return body
        if encoding not in _PACKED:
            raise TransientError(
                f"{host} compressed its response as {encoding!r}, which was not requested", kind="network"
            )
        try:
            # 32 + 15: zlib detects gzip or deflate itself
            plain = zlib.decompressobj(wbits=32 + zlib.MAX_WBITS).decompress(body, self._max_bytes + 1)
        except zlib.error as exc:
            raise TransientError(f"{host} sent a broken {encoding} body", kind="network") from exc
        if len(plain) > self._max_bytes:
            raise self._too_large(host)
        return plain

    def _too_large(self, host: str) -> UselessAnswerError:
        limit = f"{self._max_bytes / 1024 / 1024:.3g} MiB, or {_MAX_PIECES} pieces"
        return UselessAnswerError(
            f"{host} sent more than {limit}; the rest was not read. Ask for fewer or shorter results",
            kind="too_large",
            retryable=False,
        )

    async def aclose(self) -> None:
        await self._inner.aclose()


def checked_address(address: str, setting: str) -> str:
    """Return the address unchanged.

    Raises:
        ConfigError: it is not an http(s) URL; the text names the setting.
    """
    try:
        url, _ = httpx.URL(address), urlsplit(address)
    except (httpx.InvalidURL, ValueError) as exc:
        raise ConfigError(f"{setting} is not an address ({exc}): write https://host, or remove it") from exc
    if url.scheme not in {"http", "https"} or not url.host:
        raise ConfigError(f"{setting} is {address!r}, not an http(s) address: write https://host, or remove it")
    return address


def checked_key(key: str, setting: str) -> str:
    """Return the key without surrounding whitespace.

    Raises:
        ConfigError: it is empty or not valid in an HTTP header (such as typographic quotes). The text omits the key.
    """
    key = key.strip()
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigError(
            f"{setting} is empty or has characters that no key has: copy it again from the provider's page"
        )
    return key


@functools.cache
def tls_context() -> ssl.SSLContext:
    """Return the process-wide TLS context: loading the certificates takes 30 ms. ``SSL_CERT_FILE`` is honoured."""
    return httpx.create_ssl_context()


def guarded_client(
    address: str, *, timeout_s: float, headers: Mapping[str, str] | None = None, max_bytes: int = MAX_RESPONSE_BYTES
) -> httpx.AsyncClient:
    """Return a client for one service. ``address`` selects the proxy (``HTTPS_PROXY``, ``NO_PROXY``)."""
    inner = httpx.AsyncHTTPTransport(
        verify=tls_context(),
        proxy=_proxy_of(address),
        limits=httpx.Limits(max_connections=_MAX_CONNECTIONS, max_keepalive_connections=32),
        retries=0,
    )
    return httpx.AsyncClient(
        transport=BoundedTransport(inner, max_bytes),
        timeout=timeout_s,
        headers={"accept-encoding": "gzip", **(headers or {})},
        follow_redirects=False,
        event_hooks={"response": [_overhear]},
    )


def _proxy_of(address: str) -> str | None:
    parts = urlsplit(address)
    host = parts.hostname or ""
    if _is_loopback(host) or urllib.request.proxy_bypass(host):
        return None
    proxies = urllib.request.getproxies()
    return proxies.get(parts.scheme) or proxies.get("all")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def transport_failure(exc: Exception, who: str, timeout_s: float) -> TransientError:
    """Return the error for a timeout or a failed connection. The caller raises it ``from exc``."""
    if isinstance(exc, TimeoutError | httpx.TimeoutException):
        return TransientError(f"{who} did not respond within {timeout_s:g} s", kind="timeout")
    detail = quoted(f"{type(exc).__name__}: {exc}".rstrip(": "))
    return TransientError(f"no connection to {who} ({detail}); check the network and the address", kind="network")


def retry_after_s(headers: Mapping[str, str], now: datetime) -> float | None:
    """Return the ``Retry-After`` header in seconds (>= 0), given as seconds or as an HTTP date (RFC 9110, 10.2.3)."""
    value = headers.get("retry-after", "").strip()
    if not value:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            at = parsedate_to_datetime(value)
        except ValueError:
            return None
        seconds = ((at if at.tzinfo else at.replace(tzinfo=UTC)) - now).total_seconds()
    return max(0.0, seconds) if seconds < float("inf") else None


def kind_of_server_error(status: int) -> FailureKind:
    """Return the failure kind of a 408 or 5xx status."""
    return "timeout" if status in {408, 504} else "unavailable"


def quoted(words: object, limit: int = 300) -> str:
    """Return a service's message for an error text: one line, no control characters, at most ``limit`` characters."""
    line = " ".join(str(words).split())[:limit]
    return "".join(c if c.isprintable() else "?" for c in line)


def names(words: str, model: str) -> bool:
    """Return whether a service's message names the model, as a whole word."""
    name = re.escape(model.removeprefix("models/"))
    return re.search(rf"(?<![\w-]){name}(?![\w-])", words, re.IGNORECASE) is not None
