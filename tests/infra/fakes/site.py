"""Web sites and a proxy on loopback, and the guard that lets tests open them."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from infra.pages.guard import Guard
from infra.pages.port import LivePages
from tests.infra.fakes.server import Behaviour, FakeServer, Received, Say, _receive

PARAGRAPH = "<p>Circle said on Monday that the reserves of USDC are whole, and that redemptions go on as usual.</p>"
NOTHING = Say(b"not here", status=404, headers={"content-type": "text/html"})


def page(body: str = PARAGRAPH * 5, *, head: str = "", charset: str = "utf-8", **more: Any) -> Say:
    html = f"<html><head><title>Circle denies</title>{head}</head><body><article>{body}</article></body></html>"
    headers = {"content-type": f"text/html; charset={charset}", **more.pop("headers", {})}
    return Say(html.encode(charset), headers=headers, **more)


def moved(to: str, status: int = 302) -> Say:
    return Say(b"", status=status, headers={"location": to, "content-type": "text/html"})


class Site(FakeServer):
    """Responds by path. Several behaviours of a path are used in turn; the last one repeats."""

    def __init__(self, routes: Mapping[str, Behaviour | Sequence[Behaviour]]) -> None:
        super().__init__(NOTHING)
        self._routes = {p: [b] if not isinstance(b, Sequence) else list(b) for p, b in routes.items()}

    @property
    def port(self) -> int:
        return int(self.url.rsplit(":", 1)[1])

    def paths(self) -> list[str]:
        return [r.path for r in self.requests if r.path != "/robots.txt"]

    def _chosen(self, request: Received) -> Behaviour:
        script = self._routes.get(request.path, [NOTHING])
        return script.pop(0) if len(script) > 1 else script[0]


class FakeProxy:
    """Opens tunnels to loopback. ``tunnels``: the requested targets; ``logins``: the headers of those requests."""

    def __init__(self, *, answer: bytes = b"HTTP/1.1 200 Connection established\r\n\r\n") -> None:
        self._answer = answer
        self.tunnels: list[str] = []
        self.logins: list[str] = []
        self.address = ""
        self._open: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> FakeProxy:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            request = await _receive(reader)
            self.tunnels.append(request.path)
            self.logins.append(request.headers.get("proxy-authorization", ""))
            writer.write(self._answer)
            if b" 200 " in self._answer:
                host, _, port = request.path.rpartition(":")
                there = await asyncio.open_connection(host.strip("[]"), int(port))
                await asyncio.gather(_copy(reader, there[1]), _copy(there[0], writer))
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
            self._open.discard(task)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


async def on_loopback(_host: str, _port: int) -> tuple[str, ...]:
    """Resolve every name to loopback."""
    return ("127.0.0.1",)


def loopback_guard(**changes: Any) -> Guard:
    """Return a guard that allows only 127.0.0.1, on every port."""
    only = ipaddress.ip_address("127.0.0.1")
    return Guard(**{"allows": lambda one, _: one == only, "ports": None, "resolves": on_loopback, **changes})


@asynccontextmanager
async def opened(
    routes: Mapping[str, Behaviour | Sequence[Behaviour]], **settings: Any
) -> AsyncIterator[tuple[LivePages, Site]]:
    """Return pages that may open the site, named by any host and the site's port."""
    async with Site(routes) as site:
        pages = LivePages(**{"guard": loopback_guard(), "timeout_s": 60.0, **settings})
        try:
            yield pages, site
        finally:
            await pages.close()
