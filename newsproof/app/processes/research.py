"""The research chat's worker as a process: built from settings, runs until a signal, shuts down cleanly."""

from __future__ import annotations

import asyncio

import structlog
from msgspec.structs import replace

from agents.graphs import research
from infra.kafka.topics import ensure_topics
from infra.ports import Ports
from infra.settings import Settings
from newsproof.app.composition import address_of, clickhouse_of, topics_of, worker_of, worker_options
from newsproof.app.processes.health import research_unready, serve_health
from newsproof.app.processes.lifecycle import run_until, shutdown_on_signal
from newsproof.app.processes.metrics import WorkerMetrics
from newsproof.app.research_composition import research_ports_of, research_snapshot_of, watcher_of
from streams.runtime.worker_slot import refuse_taken_slot

log = structlog.get_logger(__name__)


async def run_research(settings: Settings, *, take_over: bool = False, ports: Ports | None = None) -> None:
    """Answer questions until SIGINT or SIGTERM.

    ``take_over``: as for :func:`newsproof.app.processes.services.run_worker`. ``ports``: other adapters, for tests.

    Raises:
        NewsproofError: an error that a person must fix.
    """
    signalled = shutdown_on_signal()
    await serve_research(settings, signalled, take_over=take_over, ports=ports)


async def serve_research(
    settings: Settings, ending: asyncio.Event, *, take_over: bool = False, ports: Ports | None = None
) -> None:
    """Answer questions until ``ending`` is set.

    Raises:
        NewsproofError: an error that a person must fix.
    """
    address, topics, clickhouse = address_of(settings), topics_of(settings), clickhouse_of(settings)
    snapshot = research_snapshot_of(settings)
    options = worker_options(settings)
    options = replace(options, slot=f"research-{options.slot}")
    ports = ports or research_ports_of(settings, clickhouse)
    await ensure_topics(address, topics, partitions=settings.topic_partitions, replication=settings.topic_replication)
    worker, budget = worker_of(settings, research(), ports, snapshot, options)
    if not take_over:
        await refuse_taken_slot(address, worker.group, options.slot)
    serve_health(
        settings, WorkerMetrics(worker, None, budget), lambda: research_unready(worker, budget), kind="research"
    )
    log.info("research worker starts", slot=options.slot, mode=settings.mode, config=snapshot.config_hash)
    watcher = watcher_of(settings, worker)
    await run_until(ending, (watcher.run, watcher.stop), (worker.run, worker.stop))
    log.info("research worker ended in order", slot=options.slot)
