"""The httpx transport for pages: connects to checked addresses only, directly or through a proxy.

httpcore requests a stream to (host, port) from its network backend, and adds TLS for that host. The backend here
resolves the host, checks the addresses and connects to one of them. Host and SNI remain the page's own, and
certificates are verified as usual. A proxy receives ``CONNECT address:port``, so it never resolves a name for us.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Iterable
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote, urlsplit

import httpcore
import httpx

from infra.http import checked_address, quoted, tls_context
from infra.pages.guard import Guard, IPAddress
from schemas.errors import ConfigError, TransientError

MAX_NUMBERS = 4
"""Maximum number of a name's addresses that are tried, one after another."""
_MAX_PROXY_HEAD = 16 * 1024
_MAX_CONNECTIONS = 64


class Proxy:
    """An HTTP proxy, from ``http(s)://user:password@host:port``.

    Raises:
        ConfigError: the address does not have this form.
    """

    def __init__(self, address: str) -> None:
        parts = urlsplit(checked_address(address, "SCRAPE_PROXIES"))
        try:
            port = parts.port or (443 if parts.scheme == "https" else 80)
        except ValueError as exc:
            raise ConfigError("SCRAPE_PROXIES has an invalid port: write http://host:port") from exc
        self.host, self.port, self.tls = parts.hostname or "", port, parts.scheme == "https"
        self.name = f"{self.host}:{self.port}"
        self._login = f"{unquote(parts.username)}:{unquote(parts.password or '')}" if parts.username else ""

    def connect(self, number: IPAddress, port: int) -> bytes:
        """Return the request that opens a tunnel."""
        to = f"[{number}]:{port}" if number.version == 6 else f"{number}:{port}"
        lines = [f"CONNECT {to} HTTP/1.1", f"Host: {to}"]
        if self._login:
            lines.append("Proxy-Authorization: Basic " + base64.b64encode(self._login.encode()).decode())
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


class GuardedBackend(httpcore.AsyncNetworkBackend):
    """Opens TCP streams to checked addresses, and nothing else: no Unix sockets."""

    def __init__(self, guard: Guard, proxy: Proxy | None = None) -> None:
        self._guard, self._proxy = guard, proxy
        self._inner = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect to a checked address of the host.

        Raises:
            PermanentError: the guard refuses the host.
            TransientError: the proxy failed, or the name cannot be resolved.
            httpcore.ConnectError, httpcore.ConnectTimeout: no address accepts a connection.
        """
        numbers = (await self._guard.numbers(host, port))[:MAX_NUMBERS]
        for number in numbers[:-1]:
            try:
                return await self._stream(number, port, timeout)
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                continue
        return await self._stream(numbers[-1], port, timeout)

    async def _stream(self, number: IPAddress, port: int, timeout: float | None) -> httpcore.AsyncNetworkStream:
        if self._proxy is None:
            return await self._inner.connect_tcp(str(number), port, timeout)
        try:
            stream = await self._inner.connect_tcp(self._proxy.host, self._proxy.port, timeout)
            if self._proxy.tls:
                stream = await stream.start_tls(tls_context(), self._proxy.host, timeout)
        except (httpcore.ConnectError, httpcore.ConnectTimeout) as exc:
            raise TransientError(f"the proxy {self._proxy.name} does not respond", kind="network") from exc
        try:
            await self._tunnel(stream, self._proxy, number, port, timeout)
        except BaseException:
            await stream.aclose()
            raise
        return stream

    async def _tunnel(
        self, stream: httpcore.AsyncNetworkStream, proxy: Proxy, number: IPAddress, port: int, timeout: float | None
    ) -> None:
        await stream.write(proxy.connect(number, port), timeout)
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            # Byte by byte, in order not to consume anything after the head.
            byte = await stream.read(1, timeout)
            head += byte
            if not byte or len(head) > _MAX_PROXY_HEAD:
                raise TransientError(
                    f"the proxy {proxy.name} closed the connection or sent an invalid response", kind="network"
                )
        status = head.split(b"\r\n", 1)[0].split(b" ")
        if len(status) < 2 or status[1] != b"200":
            answer = quoted(head.split(b"\r\n", 1)[0].decode("latin-1"), 100)
            raise TransientError(
                f"the proxy {proxy.name} opens no tunnel ({answer}); correct SCRAPE_PROXIES", kind="network"
            )


class GuardedTransport(httpx.AsyncBaseTransport):
    """httpx over httpcore over :class:`GuardedBackend`; one connection per request, never reused for another host."""

    def __init__(self, guard: Guard, proxy: Proxy | None = None) -> None:
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=tls_context(),
            max_connections=_MAX_CONNECTIONS,
            max_keepalive_connections=0,
            network_backend=GuardedBackend(guard, proxy),
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request.

        Raises:
            httpx.HTTPError: the connection failed.
            PermanentError, TransientError: from the guard.
        """
        assert isinstance(request.stream, httpx.AsyncByteStream)
        url = httpcore.URL(
            scheme=request.url.raw_scheme, host=request.url.raw_host, port=request.url.port, target=request.url.raw_path
        )
        raw = httpcore.Request(
            method=request.method,
            url=url,
            headers=request.headers.raw,
            content=request.stream,
            extensions=request.extensions,
        )
        with _as_httpx():
            response = await self._pool.handle_async_request(raw)
        return httpx.Response(response.status, headers=response.headers, stream=_Body(response))

    async def aclose(self) -> None:
        await self._pool.aclose()


class _Body(httpx.AsyncByteStream):
    def __init__(self, response: httpcore.Response) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _as_httpx():
            async for part in self._response.aiter_stream():
                yield part

    async def aclose(self) -> None:
        await self._response.aclose()


@contextmanager
def _as_httpx() -> Any:
    try:
        yield
    except httpcore.TimeoutException as exc:
        raise httpx.ReadTimeout(str(exc)) from exc
    except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.UnsupportedProtocol) as exc:
        raise httpx.TransportError(f"{type(exc).__name__}: {exc}") from exc
