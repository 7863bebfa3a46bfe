"""Composition of the research chat: what its turns pin, and its adapters.

Web page and ``up`` use it without the runtime.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from infra.clickhouse.client import ClickHouse, connect
from infra.clickhouse.found_signals import FoundSignals
from infra.ports import Port, Ports
from infra.settings import Settings
from newsproof.app.composition import address_of, live_models, topics_of
from newsproof.app.model_options import tuned_prompts
from newsproof.app.version import code_version
from schemas.calls import ProviderMode
from schemas.config import Snapshot

if TYPE_CHECKING:
    from streams.watches.watcher import Watcher
    from streams.worker import Worker

WITH_A_FALLBACK = "research_macro"
"""The task that has the light model as fallback even if no fallback is configured."""


def research_snapshot_of(settings: Settings) -> Snapshot:
    """Return the configuration that a turn pins. It excludes the news pipeline's settings and prompts.

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
    """Return the adapters of the mode in use. Live mode never falls back to another mode silently.

    Raises:
        ConfigError: live mode lacks a key; the text names the setting.
    """
    if settings.mode == "live":
        from infra.market.research.ports import live_research

        models, fallbacks = live_models(settings)
        if WITH_A_FALLBACK not in models:
            models = models | {WITH_A_FALLBACK: models["heavy"]}
            fallbacks = fallbacks | {WITH_A_FALLBACK: fallbacks.get("heavy") or (models["light"],)}
        live: dict[str, Any] = {**live_research(settings)}
        return Ports(models=models, fallbacks=fallbacks, signals=FoundSignals(clickhouse, mode="live"), **live)
    invented: dict[str, Any] = {**offline_research(settings)}
    signals = FoundSignals(clickhouse, mode=_invented_mode(settings))
    return Ports(models=_offline_models(settings), signals=signals, **invented)


def offline_research(settings: Settings) -> dict[str, Port]:
    """Return the ports of :func:`infra.market.research.ports.live_research` for offline and simulated mode.

    Their figures are invented and labelled so.
    """
    from infra.offline.market import OfflineCandles, OfflineMarket

    mode, latency_s = _invented_mode(settings), settings.offline_latency_seconds
    return {
        "market": OfflineMarket(mode=mode, latency_s=latency_s),
        "candles": OfflineCandles(mode=mode, latency_s=latency_s),
    }


def _news(settings: Settings) -> Port | None:
    """Return what puts in the news of watches; None where no Kafka is known, as when settings are only checked."""
    from infra.kafka.news import NewsPublisher

    mode: ProviderMode = "live" if settings.mode == "live" else _invented_mode(settings)
    known = settings.kafka_bootstrap_servers
    return NewsPublisher(address_of(settings), topics_of(settings), mode=mode) if known else None


def _invented_mode(settings: Settings) -> ProviderMode:
    return "simulated" if settings.mode == "simulated" else "offline"


def watcher_of(settings: Settings, worker: Worker) -> Watcher:
    """Return the watcher beside this worker of the research flow, not started. It pins what investigations pin."""
    from agents.tables import load_tables
    from streams.journal.appender import Appender
    from streams.journal.clock import utc_now
    from streams.journal.log import KafkaLog
    from streams.watches.matching import NewsMatches
    from streams.watches.watcher import Watcher
    from streams.watches.writer import WatchWriter

    address, topics = address_of(settings), topics_of(settings)
    snapshot = research_snapshot_of(settings)
    writer = WatchWriter(
        Appender(address, client_id="newsproof-watches"), topics, partitions=settings.topic_partitions,
        pin=lambda appender: worker.configs.publish(snapshot, appender),
    )  # fmt: skip
    log = KafkaLog(address, client_id="newsproof-watches")
    matches = NewsMatches(log, topics.cases, load_tables(demo=settings.mode != "live"))
    return Watcher(log, topics.watches, writer, matches, utc_now, settings.watch_daily_limit)


def refuse_unusable_research(settings: Settings) -> None:
    """Refuse settings that no worker of the chat can start with, before anything is started.

    Raises:
        ConfigError: a key is missing, or an address or a prompt is invalid.
    """
    research_snapshot_of(settings)
    research_ports_of(settings, connect("http://127.0.0.1:1", database="none"))  # created as a check


def _offline_models(settings: Settings) -> dict[str, Port]:
    from infra.offline.model import OfflineModel

    # Simulated mode has no scripted answers to questions: the rules answer, labelled as rules.
    model = OfflineModel(latency_s=settings.offline_latency_seconds)
    return {"light": model, "heavy": model}
