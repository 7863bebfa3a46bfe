"""The HTTP server: uvicorn on a socket of ours, ended by us, that can cut a connection off."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from infra.settings import Settings
from schemas.errors import ConfigError

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
SHUT_WITHIN_S = 5.0
_OPEN_CONNECTIONS = 2_000
_WRITE_BUFFER, _KERNEL_BUFFER = 64 * 1024, 256 * 1024


class CuttableConnection(H11Protocol):
    """A connection whose requests may end it at once: a close would wait until the client has taken what is buffered."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Bound what is buffered for this client."""
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=_WRITE_BUFFER)
        if (connected := transport.get_extra_info("socket")) is not None:
            # The kernel would hold megabytes for a client that takes nothing.
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _KERNEL_BUFFER)
        app = self.app

        async def with_cut(scope: Any, receive: Any, send: Any) -> None:
            scope.setdefault("extensions", {})["newsproof.cut_off"] = transport.abort
            await app(scope, receive, send)

        self.app = with_cut


class WebServer(uvicorn.Server):
    """Leaves signals to the service, which ends all its parts in order."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


def opened(settings: Settings) -> socket.socket:
    """Return the listening socket.

    Raises:
        ConfigError: the port is in use, or the address is not this machine's; or it is open to others without a token.
    """
    host, port = settings.web_host, settings.web_port
    if host not in LOOPBACK and settings.web_token is None:
        raise ConfigError(
            f"WEB_HOST={host} opens the web service to the network, and WEB_TOKEN is not set: set it to a secret of at "
            "least 16 characters (such as `openssl rand -hex 24` prints), or leave WEB_HOST at 127.0.0.1"
        )
    try:
        family, kind, proto, _, at = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        found = socket.socket(family, kind, proto)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(at)
    except OSError as exc:
        raise ConfigError(
            f"WEB_PORT={port} cannot be opened on WEB_HOST={host} ({exc.strerror}): choose another one (0: a free one)"
        ) from exc
    found.setblocking(False)
    return found


def address_at(settings: Settings, listening: socket.socket) -> str:
    """Return the address that a person opens."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.web_host, settings.web_host)
    return f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}/"


def server_of(app: Any) -> WebServer:
    """Return a server of this application; ``serve(sockets=[…])`` runs it, ``should_exit`` ends it."""
    return WebServer(
        uvicorn.Config(
            app,
            http=CuttableConnection,
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="warning",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=True,
            timeout_keep_alive=30,
            limit_concurrency=_OPEN_CONNECTIONS,
            timeout_graceful_shutdown=int(SHUT_WITHIN_S),
        )
    )
