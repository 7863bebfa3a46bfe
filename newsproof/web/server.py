"""The HTTP server: uvicorn on a socket of ours, ended by us, that can cut a connection off and waits for no slow request."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
import ssl
from collections.abc import Iterator
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from infra.settings import Settings
from schemas.errors import ConfigError

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
SHUT_WITHIN_S = 5.0
GOODBYE_WITHIN_S = 5.0
"""Over TLS, from our end of a connection to the client's: what is still to be sent, and its word that it is over."""
_OPEN_CONNECTIONS = 2_000
HEAD_WITHIN_S = 10.0
"""From the beginning of a connection, or from the first byte of a further request, to the end of the request's head. A
client that is slower is cut off, over TLS also one that needs longer to agree on a key: so many of them would otherwise be all that the service has places for."""
_WRITE_BUFFER, _KERNEL_BUFFER = 64 * 1024, 256 * 1024


class CuttableConnection(H11Protocol):
    """A connection whose requests may end it at once: a close would wait until the client has taken what is buffered."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Bound what is buffered for this client."""
        self._owing: asyncio.TimerHandle | None = None
        super().connection_made(transport)
        self._owing = self.loop.call_later(HEAD_WITHIN_S, transport.abort)
        transport.set_write_buffer_limits(high=_WRITE_BUFFER)
        if (connected := transport.get_extra_info("socket")) is not None:
            # The kernel would hold megabytes for a client that takes nothing.
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _KERNEL_BUFFER)
        app = self.app

        async def with_cut(scope: Any, receive: Any, send: Any) -> None:
            scope.setdefault("extensions", {})["newsproof.cut_off"] = transport.abort
            await app(scope, receive, send)

        self.app = with_cut

    def data_received(self, data: bytes) -> None:
        """Take what came, and note whether the client owes the rest of something."""
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """Go on to the next request; the rest of this one's body, or the beginning of the next, may be there already."""
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget what was owed."""
        self._owes(False)
        super().connection_lost(exc)

    def _watch(self) -> None:
        # A body that is being answered is the guard's to wait for. What is owed besides: a head that has begun, and the
        # body of a request that was answered without it.
        answering = self.cycle is not None and not self.cycle.response_complete
        idle = self.timeout_keep_alive_task is not None and not self.conn.trailing_data[0]  # uvicorn's to end
        begun = self.conn.their_state is h11.IDLE and not idle
        self._owes(not answering and (begun or self.conn.their_state is h11.SEND_BODY))

    def _owes(self, owes: bool) -> None:
        if not owes and self._owing is not None:
            self._owing.cancel()
            self._owing = None
        elif owes and self._owing is None and not self.transport.is_closing():
            self._owing = self.loop.call_later(HEAD_WITHIN_S, self.transport.abort)


class WebServer(uvicorn.Server):
    """Leaves signals to the service, which ends all its parts in order."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen with time limits of our own for TLS, which uvicorn does not pass on: by itself a handshake may take 60 s."""
        await super().startup(sockets=[])
        loop, config = asyncio.get_running_loop(), self.config
        within: dict[str, Any] = {}
        if config.ssl is not None:
            within = {"ssl_handshake_timeout": HEAD_WITHIN_S, "ssl_shutdown_timeout": GOODBYE_WITHIN_S}

        def connection() -> CuttableConnection:
            return CuttableConnection(config=config, server_state=self.server_state, app_state=self.lifespan.state)

        for one in sockets or []:
            server = await loop.create_server(connection, sock=one, ssl=config.ssl, backlog=config.backlog, **within)
            self.servers.append(server)


def opened(settings: Settings) -> socket.socket:
    """Return the listening socket: who connects from now on waits until it is served, and nobody else gets the port.

    Raises:
        ConfigError: the port is in use, or the address is not this machine's.
    """
    host, port = settings.web_host, settings.web_port
    try:
        family, kind, proto, _, at = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        found = socket.socket(family, kind, proto)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(at)
        found.listen(_OPEN_CONNECTIONS)
    except OSError as exc:
        raise ConfigError(
            f"WEB_PORT={port} cannot be opened on WEB_HOST={host} ({exc.strerror}): choose another one (0: a free one)"
        ) from exc
    found.setblocking(False)
    return found


def address_at(settings: Settings, listening: socket.socket) -> str:
    """Return the address that a person opens."""
    return settings.page_at(listening.getsockname()[1])


def server_of(app: Any, settings: Settings) -> WebServer:
    """Return a server of this application; ``serve(sockets=[…])`` runs it, ``should_exit`` ends it.

    Raises:
        ConfigError: the certificate and the key of the settings cannot be used.
    """
    tls = tls_of(settings)
    return WebServer(
        uvicorn.Config(
            app,
            http=CuttableConnection,
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="warning",
            access_log=False,
            proxy_headers=settings.web_trusted_proxy is not None,
            forwarded_allow_ips=_believed(settings.web_trusted_proxy or ""),
            server_header=False,
            date_header=True,
            timeout_keep_alive=30,
            limit_concurrency=_OPEN_CONNECTIONS,
            timeout_graceful_shutdown=int(SHUT_WITHIN_S),
            ssl_context_factory=None if tls is None else lambda _config, _default: tls,
        )
    )


def _believed(proxies: str) -> list[str]:
    """The networks, and how an IPv4 address of them looks where a socket of IPv6 takes both."""
    found = [ipaddress.ip_network(one) for one in proxies.split(",") if one]
    return [
        *map(str, found),
        *(f"::ffff:{one.network_address}/{96 + one.prefixlen}" for one in found if one.version == 4),
    ]


def tls_of(settings: Settings) -> ssl.SSLContext | None:
    """Return what the service is opened with; None: plain HTTP.

    Raises:
        ConfigError: the certificate and the key of the settings cannot be used.
    """
    cert, key = settings.web_tls_cert_file, settings.web_tls_key_file
    if cert is None:
        if key is not None:
            raise ConfigError("WEB_TLS_KEY_FILE is set without WEB_TLS_CERT_FILE: set both, or neither")
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        # A password is never asked for at the terminal: nobody may be there.
        context.load_cert_chain(cert, key, password=lambda: "")
    except (OSError, ValueError) as exc:  # an SSLError is an OSError
        named = f"WEB_TLS_CERT_FILE={cert}" + ("" if key is None else f" and WEB_TLS_KEY_FILE={key}")
        raise ConfigError(
            f"{named} cannot be used ({exc}): name a PEM certificate and its key, not encrypted and readable here"
        ) from exc
    return context
