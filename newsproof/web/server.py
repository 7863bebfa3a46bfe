"""HTTP server: uvicorn on our own socket, which we shut down. It can abort a connection, and slow requests time out."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import socket
import ssl
from collections.abc import Iterator
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from infra.embedded.child import port_owner
from infra.settings import Settings
from schemas.errors import ConfigError

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
SHUT_WITHIN_S = 5.0
GOODBYE_WITHIN_S = 5.0
"""TLS only: time from our end of a connection to the client's, for the unsent data and the client's close_notify."""
_OPEN_CONNECTIONS = 2_000
HEAD_WITHIN_S = 10.0
"""Time from the start of a connection, or from the first byte of a further request, to the end of the request's head.

A slower client is disconnected; over TLS the handshake has the same limit. Otherwise slow clients could use up all
of the service's connections."""
_WRITE_BUFFER, _KERNEL_BUFFER = 64 * 1024, 256 * 1024


class CuttableConnection(H11Protocol):
    """A connection that its requests can abort. A close would wait until the client has read the buffered data."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Limit the buffers of this connection, and start the timeout of the first head."""
        self._owing: asyncio.TimerHandle | None = None
        super().connection_made(transport)
        self._owing = self.loop.call_later(HEAD_WITHIN_S, transport.abort)
        transport.set_write_buffer_limits(high=_WRITE_BUFFER)
        if (connected := transport.get_extra_info("socket")) is not None:
            # The kernel would buffer megabytes for a client that reads nothing.
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _KERNEL_BUFFER)
        app = self.app

        async def with_cut(scope: Any, receive: Any, send: Any) -> None:
            scope.setdefault("extensions", {})["newsproof.cut_off"] = transport.abort
            await app(scope, receive, send)

        self.app = with_cut

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """Check again: the rest of this request's body, or the start of the next request, may have arrived already."""
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._owes(False)
        super().connection_lost(exc)

    def _watch(self) -> None:
        # The guard waits for the body of a request that is being handled. Watched here: a head that has started, and
        # the body of a request that was answered without it.
        answering = self.cycle is not None and not self.cycle.response_complete
        idle = self.timeout_keep_alive_task is not None and not self.conn.trailing_data[0]  # uvicorn ends it
        begun = self.conn.their_state is h11.IDLE and not idle
        self._owes(not answering and (begun or self.conn.their_state is h11.SEND_BODY))

    def _owes(self, owes: bool) -> None:
        if not owes and self._owing is not None:
            self._owing.cancel()
            self._owing = None
        elif owes and self._owing is None and not self.transport.is_closing():
            self._owing = self.loop.call_later(HEAD_WITHIN_S, self.transport.abort)


class WebServer(uvicorn.Server):
    """A server that leaves signals to the service, which shuts all its components down cleanly."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen with our own TLS timeouts, which uvicorn does not pass; the default handshake timeout is 60 s."""
        await super().startup(sockets=[])
        loop, config = asyncio.get_running_loop(), self.config
        within: dict[str, Any] = {}
        if config.ssl is not None:
            within = {"ssl_handshake_timeout": HEAD_WITHIN_S, "ssl_shutdown_timeout": GOODBYE_WITHIN_S}

        def connection() -> CuttableConnection:
            return CuttableConnection(config=config, server_state=self.server_state, app_state=self.lifespan.state)

        for listening in sockets or []:
            server = await loop.create_server(
                connection, sock=listening, ssl=config.ssl, backlog=config.backlog, **within
            )
            self.servers.append(server)


def opened(settings: Settings) -> socket.socket:
    """Return the listening socket: clients can connect and wait from now on, and no other program gets the port.

    Raises:
        ConfigError: the port is in use, or the address does not belong to this machine.
    """
    host, port = settings.web_host, settings.web_port
    try:
        family, kind, proto, _, at = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listening = socket.socket(family, kind, proto)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(at)
        listening.listen(_OPEN_CONNECTIONS)
    except OSError as exc:
        if exc.errno == errno.EADDRINUSE:
            why = f"port {port} of {host} is in use by {port_owner(port)}"
        else:
            why = f"port {port} of {host} cannot be opened ({exc.strerror})"
        raise ConfigError(
            f"{why}: choose another port with --port (or WEB_PORT), or use --port 0 for any free port"
            + ("" if exc.errno == errno.EADDRINUSE else "; also check WEB_HOST")
        ) from exc
    listening.setblocking(False)
    return listening


def address_at(settings: Settings, listening: socket.socket) -> str:
    return settings.page_at(listening.getsockname()[1])


def server_of(app: Any, settings: Settings) -> WebServer:
    """Return a server of this application. ``serve(sockets=[…])`` runs it, ``should_exit`` ends it.

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
    """Return the networks, plus the IPv4-mapped form of IPv4 ones, which a dual-stack IPv6 socket reports."""
    networks = [ipaddress.ip_network(network) for network in proxies.split(",") if network]
    return [
        *map(str, networks),
        *(f"::ffff:{network.network_address}/{96 + network.prefixlen}" for network in networks if network.version == 4),
    ]


def tls_of(settings: Settings) -> ssl.SSLContext | None:
    """Return the TLS context of the settings; None: plain HTTP.

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
        # Never ask for a password on the terminal: nobody may be there.
        context.load_cert_chain(cert, key, password=lambda: "")
    except (OSError, ValueError) as exc:  # an SSLError is an OSError
        named = f"WEB_TLS_CERT_FILE={cert}" + ("" if key is None else f" and WEB_TLS_KEY_FILE={key}")
        raise ConfigError(
            f"{named} cannot be used ({exc}): name a PEM certificate and its key, not encrypted and readable here"
        ) from exc
    return context
