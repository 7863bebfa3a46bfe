"""Workers and sink as processes: built from settings, run until a signal, shut down cleanly.

The page is in :mod:`newsproof.web`; ``supervisor`` starts them all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

import structlog
from msgspec.structs import replace

from agents.core.registry import Registry
from agents.graphs import research, verification
from infra.clickhouse.client import ClickHouse
from infra.clickhouse.migrate import migrate
from infra.ports import Ports
from infra.search import FEEDS
from infra.settings import Settings
from newsproof.app.composition import (
    address_of,
    clickhouse_of,
    journal_ports_of,
    prepare_topics,
    publisher_of,
    sink_of,
    snapshot_of,
    topics_of,
    worker_of,
    worker_options,
)
from newsproof.app.data_dir import last_audit
from newsproof.app.processes.calibrated import CalibratedCases
from newsproof.app.processes.health import research_unready, serve_health, sink_unready, worker_unready
from newsproof.app.processes.hot_settings import HotSettings, hot_file, overlaid
from newsproof.app.processes.lifecycle import Part, run_until, shutdown_on_signal
from newsproof.app.processes.metrics import SinkMetrics, WorkerMetrics
from newsproof.app.research_composition import research_ports_of, research_snapshot_of, watcher_of
from schemas.errors import TransientError
from streams.calibration.topic import Fits, calibration_of
from streams.effects.search_cache import SearchCache
from streams.intake.feed_search import FeedSearch
from streams.journal.log import KafkaLog
from streams.journal.retry import retry_while_unavailable
from streams.runtime.worker_slot import refuse_taken_slot

if TYPE_CHECKING:  # a sink loads no worker
    from streams.publish.publisher import Publisher
    from streams.worker import Worker

log = structlog.get_logger(__name__)


async def run_worker(
    settings: Settings,
    *,
    take_over: bool = False,
    registry: Registry | None = None,
    ports: Ports | None = None,
    starting: Callable[[Worker, Publisher], None] = lambda _worker, _publisher: None,
) -> None:
    """Run one worker and the publisher beside it until SIGINT or SIGTERM.

    ``take_over``: the slot's former worker is known to have ended, so the start ignores its membership, which Kafka
    keeps until the session times out. ``registry`` and ``ports``: another graph and its adapters, for chaos runs.
    ``starting`` is called with worker and publisher before they run.

    Raises:
        NewsproofError: an error that a person must fix.
    """
    signalled = shutdown_on_signal()
    started, settings = settings, overlaid(settings, hot_file(settings))
    address, topics, clickhouse = address_of(settings), topics_of(settings), clickhouse_of(settings)
    options, snapshot = worker_options(settings), snapshot_of(settings)
    if not take_over:
        await refuse_taken_slot(address, topics.group("worker"), options.slot)
    await prepare_topics(settings)
    fits = Fits(KafkaLog(address, client_id="newsproof-calibration"), topics)
    if settings.mode == "live":  # what it says of invented signals would be wrong
        newest = await retry_while_unavailable(fits.read, "the calibration maps")
        snapshot = replace(snapshot, calibration=calibration_of(newest))
    searches, texts = SearchCache(settings.search_cache_ttl_seconds), None
    if ports is None:
        ports, texts = journal_ports_of(settings, clickhouse, searches)
        await texts.start()
        if isinstance(feeds := ports.search.get(FEEDS), FeedSearch):
            feeds.begin()  # the first search would wait for it
    worker, budget = worker_of(settings, registry or verification(), ports, snapshot, options, searches=searches)
    if texts is not None:
        worker.ending.watch(texts.reading)
    publisher = publisher_of(settings, worker)
    calibrated = CalibratedCases(fits, worker)
    hot = HotSettings(started, settings, ports, calibrated.adopt)
    metrics = WorkerMetrics(worker, publisher, budget, audit=lambda: last_audit(settings.newsproof_data_dir))
    serve_health(settings, metrics, lambda: worker_unready(worker, publisher, budget), kind="worker")
    starting(worker, publisher)
    log.info("worker starts", slot=options.slot, mode=settings.mode, config=snapshot.config_hash)
    following = ((calibrated.run, None),) if settings.mode == "live" else ()
    await run_until(signalled, (hot.run, None), *following, (worker.run, worker.stop), (publisher.run, publisher.stop))
    log.info("worker ended in order", slot=options.slot)


async def run_sink(settings: Settings, *, registry: Registry | None = None) -> None:
    """Fill ClickHouse from the journal until SIGINT or SIGTERM; wait while ClickHouse is unavailable.

    Raises:
        NewsproofError: an error that a person must fix.
    """
    signalled = shutdown_on_signal()
    clickhouse = clickhouse_of(settings)
    await prepare_topics(settings)
    sink = sink_of(settings, clickhouse, registry)
    serve_health(settings, SinkMetrics(sink), lambda: sink_unready(sink), kind="sink")
    if not await _migrated(clickhouse, signalled):
        return
    log.info("sink starts", mode=settings.mode)
    try:
        await run_until(signalled, *_daily_fit(settings, clickhouse), (sink.run, sink.stop))
    finally:
        await clickhouse.close()
    log.info("sink ended in order")


def _daily_fit(settings: Settings, clickhouse: ClickHouse) -> tuple[Part, ...]:
    """Return the daily fit of the calibration map, as a component; none outside live mode."""
    if settings.mode != "live":
        return ()
    from streams.calibration.refit import DailyFit

    share = settings.calibration_max_false_share or None
    daily = DailyFit(address_of(settings), topics_of(settings), clickhouse, false_share=share)
    return ((daily.run, daily.stop),)


async def _migrated(clickhouse: ClickHouse, signalled: asyncio.Event) -> bool:
    try:
        await retry_while_unavailable(lambda: migrate(clickhouse), "the migrations of ClickHouse", until=signalled)
    except TransientError:
        return False
    return True


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
    address, clickhouse = address_of(settings), clickhouse_of(settings)
    snapshot = research_snapshot_of(settings)
    options = worker_options(settings)
    options = replace(options, slot=f"research-{options.slot}")
    ports = ports or research_ports_of(settings, clickhouse)
    await prepare_topics(settings)
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
