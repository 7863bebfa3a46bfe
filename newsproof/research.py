"""The research chat's composition: what its turns pin, its adapters, and its worker as a process."""

from __future__ import annotations

import asyncio
from typing import Any

import structlog
from msgspec.structs import replace

from agents.registry import research
from infra.clickhouse.client import ClickHouse, connect
from infra.kafka import ensure_topics
from infra.ports import Port, Ports
from infra.settings import Settings
from newsproof.bootstrap import address_of, budget_of, clickhouse_of, live_models, topics_of, worker_options
from newsproof.health import HealthServer, research_unready
from newsproof.metrics import WorkerMetrics
from newsproof.model_options import tuned_prompts
from newsproof.services import heed_signals, run_until
from newsproof.version import code_version
from schemas.config import Snapshot
from streams.slot_file import refuse_taken_slot
from streams.worker import Worker

log = structlog.get_logger(__name__)

WITH_A_FALLBACK = "research_macro"
"""The task that is asked of the light model when the heavy one does not answer, also where no fallback is configured
(RESEARCH_CHAT: "macro has one by default")."""


def research_snapshot_of(settings: Settings) -> Snapshot:
    """Return the configuration that a turn pins. The news pipeline's settings and prompts are no part of it.

    Raises:
        ConfigError: a prompt file or ``MODEL_OPTIONS`` is malformed.
    """
    from agents.prompts import load_prompts

    return Snapshot(
        provider_mode=settings.mode,
        code_version=code_version(),
        search_providers=(),
        case_deadline_seconds=settings.research_deadline_seconds,
        prompts=tuned_prompts(settings, load_prompts("research")),
    )


def research_ports_of(settings: Settings, clickhouse: ClickHouse) -> Ports:
    """Return the adapters of the mode in force. There is no silent fallback from live to anything else.

    Raises:
        ConfigError: live mode lacks a key; the text names the setting.
    """
    from infra.research.ports import live_research, offline_research

    if settings.mode == "live":
        models, fallbacks = live_models(settings)
        if WITH_A_FALLBACK not in models:
            models = models | {WITH_A_FALLBACK: models["heavy"]}
            fallbacks = fallbacks | {WITH_A_FALLBACK: fallbacks.get("heavy") or (models["light"],)}
        data: dict[str, Any] = {**live_research(settings, clickhouse)}
        return Ports(models=models, fallbacks=fallbacks, **data)
    data = {**offline_research(settings, clickhouse)}
    return Ports(models=_offline_models(settings), **data)


def refuse_unusable_research(settings: Settings) -> None:
    """Refuse settings that no worker of the chat could start with, before anything is started.

    Raises:
        ConfigError: a key is missing, or an address or a prompt cannot be one.
    """
    research_snapshot_of(settings)
    research_ports_of(settings, connect("http://127.0.0.1:1", database="none"))  # made to see that they can be


def _offline_models(settings: Settings) -> dict[str, Port]:
    from infra.offline.model import OfflineModel

    # Simulated mode has no answers to a question either: the rules answer, labelled as what they are.
    model = OfflineModel(latency_s=settings.offline_latency_seconds)
    return {"light": model, "heavy": model}


async def run_research(settings: Settings, *, take_over: bool = False, ports: Ports | None = None) -> None:
    """Answer questions until SIGINT or SIGTERM.

    ``take_over``: as of :func:`newsproof.services.run_worker`. ``ports`` are other adapters, as tests have.

    Raises:
        NewsproofError: what a person must mend.
    """
    signalled = heed_signals()
    await serve_research(settings, signalled, take_over=take_over, ports=ports)


async def serve_research(
    settings: Settings, ending: asyncio.Event, *, take_over: bool = False, ports: Ports | None = None
) -> None:
    """Answer questions until ``ending`` is set.

    Raises:
        NewsproofError: what a person must mend.
    """
    address, topics, clickhouse = address_of(settings), topics_of(settings), clickhouse_of(settings)
    snapshot = research_snapshot_of(settings)
    options = worker_options(settings)
    options = replace(options, slot=f"research-{options.slot}")
    ports = ports or research_ports_of(settings, clickhouse)
    await ensure_topics(address, topics, partitions=settings.topic_partitions, replication=settings.topic_replication)
    budget = budget_of(settings)
    worker = Worker(address, topics, research(), ports, snapshot, options, spending=budget)
    if not take_over:
        await refuse_taken_slot(address, worker.group, options.slot)
    if settings.metrics_port is not None:
        collector = WorkerMetrics(worker, None, budget)
        HealthServer(settings, collector, lambda: research_unready(worker, budget)).start()
    log.info("research worker starts", slot=options.slot, mode=settings.mode, config=snapshot.config_hash)
    await run_until(ending, (worker.run, worker.stop))
    log.info("research worker ended in order", slot=options.slot)
