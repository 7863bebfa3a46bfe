"""Composition of the research chat and of investigations: the configurations that they pin, and their adapters.

The web page and ``up`` use it without the runtime.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from infra.clickhouse.client import ClickHouse, connect
from infra.clickhouse.lookups import WITHIN_S, BriefLookup, SignalLookup
from infra.ports import Port, Ports
from infra.settings import Settings
from newsproof.app.composition import address_of, live_models, live_pages, live_search, snapshot_of, topics_of
from newsproof.app.model_options import tuned_prompts
from newsproof.app.version import code_version
from schemas.calls import ProviderMode
from schemas.config import RULES, Snapshot
from schemas.research_events import InvestigationAsked, Limits
from schemas.watches import WatchSet

if TYPE_CHECKING:
    from streams.watches.watcher import Watcher
    from streams.worker import Worker

KEPT_PAGES = 20
"""Maximum number of references that an investigation keeps. It covers several stories, each with a few references."""
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
        rules=RULES,
        search_providers=(),
        case_deadline_seconds=settings.research_deadline_seconds,
        prompts=tuned_prompts(settings, load_prompts("research")),
        calibration=None,
    )


def investigation_snapshot_of(settings: Settings) -> Snapshot:
    """Return the configuration that an investigation pins: the pipeline's rules of evidence, and its own prompts.

    Pages are opened and social platforms are searched in every mode that has them: the subject decides what is
    searched, and the investigation's limits decide how much.

    Raises:
        ConfigError: as for :func:`newsproof.app.composition.snapshot_of`.
    """
    from agents.prompts import load_prompts

    prompts = load_prompts("investigation") | {"critique": load_prompts()["critique"]}
    return replace(
        snapshot_of(settings),
        case_deadline_seconds=settings.investigation_deadline_seconds,
        tool_scrape_enabled=settings.mode != "simulated",
        tool_platform_search_enabled=True,
        quality_keep=KEPT_PAGES,
        prompts=tuned_prompts(settings, prompts),
    )


def investigation_limits(settings: Settings) -> Limits:
    """Return the default limits of an investigation."""
    return Limits(rounds=settings.investigation_max_rounds, searches=settings.investigation_max_searches)


def least_limits(settings: Settings, rounds: int | None, searches: int | None) -> Limits:
    """Return the requested limits, at most those of the settings."""
    most = investigation_limits(settings)
    return Limits(
        rounds=min(rounds or most.rounds, most.rounds), searches=min(searches or most.searches, most.searches)
    )


def investigated_as_of(settings: Settings, now: datetime) -> datetime:
    """Return the default time of an investigation: now, or for the bundled corpus its last day."""
    if settings.mode == "live":
        return now
    from infra.offline.investigating import LAST_DAY

    return LAST_DAY


def research_ports_of(settings: Settings, clickhouse: ClickHouse) -> Ports:
    """Return the adapters of the mode in use. Live mode never falls back to another mode silently.

    Raises:
        ConfigError: live mode lacks a key; the text names the setting.
    """
    if settings.mode == "live":
        from infra.market.ports import live_research

        models, fallbacks = live_models(settings)
        if WITH_A_FALLBACK not in models:
            models = models | {WITH_A_FALLBACK: models["heavy"]}
            fallbacks = fallbacks | {WITH_A_FALLBACK: fallbacks.get("heavy") or (models["light"],)}
        live: dict[str, Any] = {**live_research(settings), **_tables(settings, clickhouse)}
        live |= {"news": _news(settings), "search": live_search(settings), "scrape": live_pages(settings)}
        return Ports(models=models, fallbacks=fallbacks, **live)
    invented: dict[str, Any] = {
        **offline_research(settings),
        **_tables(settings, clickhouse),
        **_offline_pages(settings),
        "news": _news(settings),
    }
    return Ports(models=_offline_models(settings), **invented)


def _tables(settings: Settings, clickhouse: ClickHouse) -> dict[str, Port]:
    """Return the adapters that read this installation's own data."""
    from infra.clickhouse.memory import ClickHouseMemory
    from infra.models.embeddings import embedder_of

    mode: ProviderMode = "live" if settings.mode == "live" else _invented_mode(settings)
    return {
        "signals": SignalLookup(clickhouse, mode=mode),
        "briefs": BriefLookup(clickhouse, mode=mode),
        "recall": ClickHouseMemory(clickhouse, mode=mode, embedder=embedder_of(settings), timeout_s=WITHIN_S),
    }


def _offline_pages(settings: Settings) -> dict[str, Any]:
    from infra.offline.newsroom.search import SubjectSearch
    from infra.offline.search import OfflinePages

    latency_s = settings.offline_latency_seconds
    search = SubjectSearch(latency_s=latency_s)
    # Simulated searches have a provider name of their own; here they use the bundled corpus, as offline ones do.
    return {"search": {settings.mode: search}, "scrape": OfflinePages(search.documents, latency_s=latency_s)}


def offline_research(settings: Settings) -> dict[str, Port]:
    """Return the ports of :func:`infra.market.ports.live_research` for offline and simulated mode.

    Their figures are invented, and labelled so.
    """
    from infra.offline.market import OfflineCandles, OfflineMarket

    mode, latency_s = _invented_mode(settings), settings.offline_latency_seconds
    return {
        "market": OfflineMarket(mode=mode, latency_s=latency_s),
        "candles": OfflineCandles(mode=mode, latency_s=latency_s),
    }


def _news(settings: Settings) -> Port | None:
    """Return the port that publishes the news of watches; None without a Kafka, as when settings are only checked."""
    from infra.kafka.news import NewsPublisher

    mode: ProviderMode = "live" if settings.mode == "live" else _invented_mode(settings)
    known = settings.kafka_bootstrap_servers
    return NewsPublisher(address_of(settings), topics_of(settings), mode=mode) if known else None


def _invented_mode(settings: Settings) -> ProviderMode:
    return "simulated" if settings.mode == "simulated" else "offline"


def watcher_of(settings: Settings, worker: Worker) -> Watcher:
    """Return the watcher beside this research worker, not started. It pins the investigations' configuration."""
    from agents.investigation.subject import asked
    from agents.tables import load_tables
    from streams.journal.appender import Appender
    from streams.journal.clock import utc_now
    from streams.journal.log import KafkaLog
    from streams.watches.matching import NewsMatches
    from streams.watches.watcher import Watcher
    from streams.watches.writer import WatchWriter

    address, topics = address_of(settings), topics_of(settings)
    snapshot, limits = investigation_snapshot_of(settings), investigation_limits(settings)

    def ask(watch: WatchSet, at: datetime) -> InvestigationAsked:
        as_of = investigated_as_of(settings, at)
        return asked(watch.subject, as_of=as_of, config_hash="", limits=limits, watch=watch.id)

    writer = WatchWriter(
        Appender(address, client_id="newsproof-watches"), topics, partitions=settings.topic_partitions,
        ask=ask, pin=lambda appender: worker.configs.publish(snapshot, appender),
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
    investigation_snapshot_of(settings)
    research_ports_of(settings, connect("http://127.0.0.1:1", database="none"))  # created as a check


def _offline_models(settings: Settings) -> dict[str, Port]:
    from infra.offline.model import OfflineModel

    # Simulated mode has no scripted answers to questions: the rules answer, labelled as rules.
    model = OfflineModel(latency_s=settings.offline_latency_seconds)
    return {"light": model, "heavy": model}
