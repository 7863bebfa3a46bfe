"""Prometheus metrics of a worker process, on loopback: read from the runtime's own counters when they are asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.process_collector import ProcessCollector

from schemas.errors import ConfigError
from streams.publisher import Publisher
from streams.worker import Worker

HOST = "127.0.0.1"


class WorkerMetrics:
    """A collector: nothing is counted twice, and nothing costs anything between two scrapes."""

    def __init__(self, worker: Worker, publisher: Publisher) -> None:
        self._worker, self._publisher = worker, publisher

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics as they are now."""
        worker, intake, publisher = self._worker, self._worker.intake, self._publisher
        yield GaugeMetricFamily("newsproof_open_cases", "Cases open in this worker", worker.projector.open_cases)
        yield GaugeMetricFamily("newsproof_running_effects", "Calls to the world under way", worker.places.used)
        yield GaugeMetricFamily("newsproof_publishing", "1 while this process publishes signals", publisher.active)
        for name, text, value in (
            ("newsproof_cases_opened", "Cases opened", intake.opened),
            ("newsproof_news_repeated", "News that opened no case because it had one", intake.repeated),
            ("newsproof_news_refused", "News that became dead letters", intake.poison),
            ("newsproof_news_forwarded", "News moved to its right partition", intake.forwarded),
            ("newsproof_signals_published", "Signal revisions published", publisher.published),
            ("newsproof_calls_cut_off", "Calls cut off by rebalances, perhaps paid twice", worker.repaid_at_rebalance),
        ):
            yield CounterMetricFamily(name, text, value)


def serve_metrics(port: int, worker: Worker, publisher: Publisher) -> Any:
    """Answer scrapes on ``http://127.0.0.1:PORT/metrics`` until the process ends; return the server.

    Raises:
        ConfigError: the port is in use.
    """
    registry = CollectorRegistry()
    registry.register(WorkerMetrics(worker, publisher))
    ProcessCollector(registry=registry)
    try:
        server, _ = start_http_server(port, addr=HOST, registry=registry)
    except OSError as exc:
        raise ConfigError(f"METRICS_PORT={port} is in use on {HOST} ({exc.strerror}): choose another one") from exc
    return server
