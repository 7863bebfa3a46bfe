"""``/metrics``, ``/healthz`` and ``/readyz`` of a worker or the sink, on one loopback port.

They have a separate thread, so that a process with a stuck event loop still responds and reports it.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import structlog
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.process_collector import ProcessCollector

from infra.settings import Settings
from newsproof.app.processes.metrics import loop_stalls
from newsproof.app.processes.targets import write_target
from schemas.errors import ConfigError
from streams.effects.meter import Latencies

if TYPE_CHECKING:
    from streams.budget.budget import BudgetLedger
    from streams.listening.listener import Listener
    from streams.publish.publisher import Publisher
    from streams.sink.sink import Sink
    from streams.worker import Worker

log = structlog.get_logger(__name__)

STUCK_S = 30.0
"""A loop without a turn for this long is stuck: after three of Kafka's session timeouts, its partitions have moved."""
BEAT_S = 0.1
"""Beat interval. A callback that holds the loop for longer is measured, at most this much too short."""
REQUEST_WITHIN_S = 5.0

Unready = Callable[[], dict[str, str]]
"""Returns what the process waits for before it is ready: name → reason in words. Empty: ready."""


class Pulse:
    """Latency of the event loop. ``beat`` runs on the loop; the rest is thread-safe."""

    def __init__(self) -> None:
        self._last = time.monotonic()
        self._stalls = Latencies()

    async def beat(self) -> None:
        """Beat until cancelled."""
        while True:
            await asyncio.sleep(BEAT_S)
            now = time.monotonic()
            self._stalls.add(max(0.0, now - self._last - BEAT_S))
            self._last = now

    def collect(self) -> Iterator[Metric]:
        """Yield the delays of the beats, as metrics."""
        yield loop_stalls(self._stalls)

    @property
    def age_s(self) -> float:
        """Seconds since the loop last turned."""
        return time.monotonic() - self._last


class HealthServer:
    """The three pages, beneath ``path``.

    :meth:`start` runs on the monitored event loop. The server ends with the process, or by :meth:`stop`.
    """

    def __init__(self, settings: Settings, collector: Any, unready: Unready, *, path: str = "") -> None:
        self._at, self.path = (settings.metrics_host, settings.metrics_port or 0), path
        self.registry = CollectorRegistry()
        self.registry.register(collector)
        ProcessCollector(registry=self.registry)
        self.unready = unready
        self.pulse = Pulse()
        self.registry.register(self.pulse)
        self._server: ThreadingHTTPServer | None = None
        self._beating: asyncio.Task[None] | None = None

    @property
    def port(self) -> int:
        assert self._server is not None, "not started"
        return int(self._server.server_address[1])

    def start(self) -> None:
        """Listen.

        Raises:
            ConfigError: the port is in use, or the address does not belong to this machine.
        """
        host, port = self._at
        pages = type("Pages", (_Pages,), {"health": self})
        try:
            self._server = _Server((host, port), pages)
        except OSError as exc:
            raise ConfigError(
                f"METRICS_PORT={port} cannot be opened on METRICS_HOST={host} ({exc.strerror}): choose another port"
            ) from exc
        threading.Thread(target=self._server.serve_forever, name="health", daemon=True).start()
        self._beating = asyncio.create_task(self.pulse.beat(), name="pulse")
        log.info("health and metrics are served", host=host, port=self.port)

    def stop(self) -> None:
        """Close the port."""
        if self._beating is not None:
            self._beating.cancel()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    def alive(self) -> tuple[bool, dict[str, Any]]:
        """Return whether the event loop runs, and the body of ``/healthz``."""
        age = self.pulse.age_s
        return age < STUCK_S, {"alive": age < STUCK_S, "loop_turned_s_ago": round(age, 1)}

    def ready(self) -> tuple[bool, dict[str, Any]]:
        """Return whether the process is ready, and the body of ``/readyz``."""
        waits_for = self.unready()
        if not self.alive()[0]:
            waits_for["event loop"] = "it does not turn"
        return not waits_for, {"ready": not waits_for, "waits_for": waits_for}


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False


class _Pages(BaseHTTPRequestHandler):
    health: HealthServer
    timeout = REQUEST_WITHIN_S  # a silent client must not hold a thread
    server_version, sys_version = "newsproof", ""

    def do_GET(self) -> None:
        beneath, slash, page = self.path.partition("?")[0].rpartition("/")
        match page if beneath == self.health.path and slash else "":
            case "metrics":
                self._answer(200, CONTENT_TYPE_LATEST, generate_latest(self.health.registry))
            case "healthz":
                self._say(*self.health.alive())
            case "readyz":
                self._say(*self.health.ready())
            case _:
                self._answer(404, "text/plain; charset=utf-8", b"/metrics, /healthz or /readyz\n")

    def _say(self, well: bool, document: dict[str, Any]) -> None:
        self._answer(200 if well else 503, "application/json", json.dumps(document).encode() + b"\n")

    def _answer(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: a scrape every few seconds is not worth a line."""


def serve_health(settings: Settings, collector: Any, unready: Unready, *, kind: str, name: str = "") -> None:
    """Serve the pages on ``METRICS_PORT``, if it is set. On loopback, write their address to the data directory.

    ``name``: of the process; without one, its kind and slot.

    On a free port, the path is known only from that file, so that by default this machine's other users learn
    nothing.

    Raises:
        ConfigError: the port cannot be opened, or the file cannot be written.
    """
    if settings.metrics_port is None:
        return
    here = settings.metrics_host in ("127.0.0.1", "localhost")  # its address for other machines is unknown
    path = f"/{secrets.token_urlsafe(16)}" if here and settings.metrics_port == 0 else ""
    health = HealthServer(settings, collector, unready, path=path)
    health.start()
    if not here:
        return
    name = name or (kind if kind in ("sink", "listener") else f"{kind}-{settings.worker_slot}")
    try:
        write_target(settings.newsproof_data_dir, name, kind=kind, address=f"127.0.0.1:{health.port}", path=path)
    except OSError as exc:
        raise ConfigError(
            f"{settings.newsproof_data_dir} is not writable ({exc.strerror}), and the page finds the metrics through a file there: make it "
            "writable, or unset METRICS_PORT"
        ) from exc


def worker_unready(worker: Worker, publisher: Publisher, budget: BudgetLedger | None = None) -> dict[str, str]:
    """Return what this worker still waits for. ClickHouse is not included: a case continues without recall."""
    waits = research_unready(worker, budget)
    if worker.intake_loading:
        waits["intake"] = "the index of news that opened cases is being read"
    if publisher.state in ("joining", "rebuilding"):
        waits["publisher"] = f"it is {publisher.state}"
    return waits


def research_unready(worker: Worker, budget: BudgetLedger | None = None) -> dict[str, str]:
    """Return what a worker without news and signals still waits for: its journal, and the budget's fold."""
    waits: dict[str, str] = {}
    if not worker.assigned:
        waits["kafka"] = "no partitions are assigned yet, or they are just being handed over"
    behind = [str(n) for n, p in list(worker.projector.partitions.items()) if not p.live]
    if behind:
        waits["journal"] = f"the fold has not reached the end of partitions {', '.join(behind)} yet"
    if budget is not None and budget.state.limits is None:
        waits["budget"] = "the fold has not reached the end of the budget topic yet"
    return waits


def listener_unready(listener: Listener) -> dict[str, str]:
    """Return what the listener still waits for. A standby listener is ready."""
    return {"lease": f"it is {listener.state}"} if listener.state in ("joining", "reading its memory") else {}


def sink_unready(sink: Sink) -> dict[str, str]:
    waits: dict[str, str] = {}
    if not sink.lag:
        waits["kafka"] = "no partitions are assigned yet"
    if why := sink.waits_because:
        waits["clickhouse"] = f"{why}; the same rows are sent again"
    return waits
