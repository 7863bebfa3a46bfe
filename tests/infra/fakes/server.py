"""A scripted HTTP/1.1 server on loopback that can also do what a well-behaved server never does.

It is written on bare sockets because the interesting behaviours (drip, silence, reset, endless body) are below what
server frameworks let one express. Each request takes the next behaviour of the script; the last one repeats.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import socket
import struct
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, Self, TypeVar

import orjson


@dataclass(frozen=True)
class Received:
    """One request as it came over the wire; header names in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return orjson.loads(self.body)


class Behaviour(Protocol):
    """The server's behaviour for one request."""

    async def respond(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None: ...


@dataclass(frozen=True)
class Say:
    """Respond at once. ``body`` is sent as JSON unless it is bytes."""

    body: Any = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    packed: bool = False

    async def respond(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        body = self.body if isinstance(self.body, bytes) else orjson.dumps(self.body)
        extra = dict(self.headers)
        if self.packed:
            body, extra["content-encoding"] = gzip.compress(body), "gzip"
        writer.write(_head(self.status, {"content-length": str(len(body)), **extra}) + body)
        await writer.drain()


@dataclass(frozen=True)
class StaySilent:
    """Read the request and never respond, until the client disconnects."""

    async def respond(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()


@dataclass(frozen=True)
class Drip:
    """Send one byte of the body after another, each well within a read timeout, and never end."""

    every_s: float = 0.02

    async def respond(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(_head(200, {"content-length": "100000"}) + b"{")
        while not writer.is_closing():
            writer.write(b" ")
            await writer.drain()
            await asyncio.sleep(self.every_s)


@dataclass(frozen=True)
class Flood:
    """Send a body without end until the client hangs up; with ``announced``, name that length and send nothing."""

    announced: int | None = None
    status: int = 200

    async def respond(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.announced is not None:
            writer.write(_head(self.status, {"content-length": str(self.announced)}))
            await reader.read()
            return
        writer.write(_head(self.status, {"transfer-encoding": "chunked"}))
        block = b" " * 65536
        while not writer.is_closing():
            writer.write(b"%x\r\n%b\r\n" % (len(block), block))
            await writer.drain()


@dataclass(frozen=True)
class Reset:
    """Cut the connection with a TCP reset; ``after`` is sent first."""

    after: bytes = b""

    async def respond(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(self.after)
        await writer.drain()
        sock = writer.get_extra_info("socket")
        # linger on, 0 s: closing sends RST instead of FIN
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()


@dataclass(frozen=True)
class HangUp:
    """Close the connection without a response."""

    async def respond(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()


class FakeServer:
    """Use as ``async with FakeServer(behaviour, …) as server``; then read ``server.url`` and ``server.requests``."""

    def __init__(self, *script: Behaviour) -> None:
        assert script, "a fake server needs at least one behaviour"
        self._script = list(script)
        self._serving: set[asyncio.Task[None]] = set()
        self.requests: list[Received] = []
        self.connections = 0
        self.url = ""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            try:
                while not writer.is_closing():
                    self.requests.append(await _receive(reader))
                    await self._chosen(self.requests[-1]).respond(reader, writer)
            finally:
                writer.close()

    def _chosen(self, request: Received) -> Behaviour:
        return self._script.pop(0) if len(self._script) > 1 else self._script[0]


class Closing(Protocol):
    """The common part of all adapters."""

    async def close(self) -> None: ...


Adapter = TypeVar("Adapter", bound=Closing)


@asynccontextmanager
async def against(
    make: Callable[..., Adapter], *script: Behaviour, **settings: Any
) -> AsyncIterator[tuple[Adapter, FakeServer]]:
    """Return an adapter and the fake server that it calls. ``make``: (address of the server, settings) → adapter."""
    async with FakeServer(*script) as server:
        adapter = make(server.url, **settings)
        try:
            yield adapter, server
        finally:
            await adapter.close()


async def _receive(reader: asyncio.StreamReader) -> Received:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, path, _ = head[0].split(" ", 2)
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Received(method, path, headers, body)


def _head(status: int, headers: Mapping[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} Fake"]
    lines += [f"{name}: {value}" for name, value in {"content-type": "application/json", **headers}.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
