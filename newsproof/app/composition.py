"""The composition root: builds the components of Newsproof from the settings.

The news pipeline's adapters are chosen here, the chat's in :mod:`newsproof.app.research_composition`. A
worker's runtime is built from them in :mod:`streams.composition`. Only ``./run eval`` builds its own ports, because
the file of judged cases replaces its searches.

Imports that only a worker needs are inside its functions, because every command imports this module.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from infra.clickhouse.client import ClickHouse, connect
from infra.kafka.topics import KafkaAddress, ensure_topics
from infra.ports import Port, Ports
from infra.settings import Settings
from newsproof.app.model_options import options_of, tuned_prompts
from newsproof.app.version import code_version
from schemas.config import RULES, Snapshot, Tables
from schemas.errors import ConfigError
from schemas.topics import Topics

if TYPE_CHECKING:
    from agents.core.registry import Registry
    from schemas.budget import LimitsSet
    from streams.budget.budget import BudgetLedger
    from streams.effects.search_cache import SearchCache
    from streams.ending import Ending
    from streams.intake.feed_search import FeedSearch
    from streams.intake.text_index import TextIndex
    from streams.publish.publisher import Publisher
    from streams.runtime.options import WorkerOptions
    from streams.sink.sink import Sink
    from streams.wake import Wake
    from streams.worker import Worker

SAME_NAMES = tuple(f.name for f in msgspec.structs.fields(Snapshot) if f.name in Settings.model_fields)
"""Snapshot fields taken from the setting with the same name."""


def mode_in_words(settings: Settings) -> str:
    """Return the mode in words, so that nobody mistakes an offline signal for a real one."""
    if settings.mode == "simulated" and settings.scripted_model_url:
        return "SIMULATED (scripted model server, bundled corpus; only for testing prompts)"
    return {
        "live": "live (real models and search)",
        "offline": "OFFLINE (rules and a bundled corpus instead of models and search; for trying it out)",
        "simulated": "SIMULATED (empty responses; only for benchmarks)",
    }[settings.mode]


def topics_of(settings: Settings) -> Topics:
    return Topics(settings.topic_prefix)


def address_of(settings: Settings) -> KafkaAddress:
    """Return the configured Kafka address.

    Raises:
        ConfigError: no address is configured. Only ``newsproof.app.servers`` starts embedded servers.
    """
    if not settings.kafka_bootstrap_servers:
        raise ConfigError("KAFKA_BOOTSTRAP_SERVERS is not set: set it, or use `newsproof up`, which starts a server")
    return KafkaAddress.of(settings, settings.kafka_bootstrap_servers)


async def prepare_topics(settings: Settings) -> dict[str, int]:
    """Create and check the topics; return the created ones, as :func:`infra.kafka.topics.ensure_topics` does."""
    address, topics = address_of(settings), topics_of(settings)
    partitions, replication = settings.topic_partitions, settings.topic_replication
    return await ensure_topics(address, topics, partitions=partitions, replication=replication)


def clickhouse_of(settings: Settings) -> ClickHouse:
    """Return a client of the configured ClickHouse; it connects at its first statement.

    Raises:
        ConfigError: no address is configured.
    """
    if not settings.clickhouse_url:
        raise ConfigError("CLICKHOUSE_URL is not set: set it, or use `newsproof up`, which starts a server")
    return connect(settings.clickhouse_url, database=settings.clickhouse_database, cluster=settings.clickhouse_cluster)


def search_providers(settings: Settings) -> tuple[str, ...]:
    """Return the search providers of the mode in use.

    A live provider without a key is left out if another one remains. With search off, there is no default provider.

    Raises:
        ConfigError: search is on and no provider remains, or a name is unknown.
    """
    if settings.mode != "live":
        return (settings.mode,)
    from infra.search import PROVIDERS, is_keyless_default, provider_names

    if not settings.tool_search_enabled and is_keyless_default(settings):
        return ()
    named = provider_names(settings)
    if unknown := [name for name in named if name not in PROVIDERS]:
        raise ConfigError(
            f"DEEP_ANALYSIS_SEARCH_PROVIDER names {', '.join(unknown)}, which are not search providers: "
            f"choose from {', '.join(PROVIDERS)}"
        )
    missing = {name: PROVIDERS[name].missing(settings) for name in named}
    usable = tuple(name for name in PROVIDERS if name in missing and missing[name] is None)
    if settings.tool_search_enabled and not usable:
        ways = "; ".join(f"{name}: {do}" for name, do in missing.items())
        raise ConfigError(
            f"live mode needs a search provider, and none of DEEP_ANALYSIS_SEARCH_PROVIDER is usable ({ways}). Correct that, "
            "or unset it to search with what is configured (gdelt without any key), or set TOOL_SEARCH_ENABLED=false to judge without searching, or NEWSPROOF_MODE=offline to try things out"
        )
    return usable


def search_in_words(settings: Settings) -> str:
    """Return live mode's search providers, and the reason for a default; empty in other modes or with search off.

    Raises:
        ConfigError: as for :func:`search_providers`.
    """
    from infra.search import FEEDS, is_keyless_default

    if settings.mode != "live" or not settings.tool_search_enabled:
        return ""
    every = f"{settings.gdelt_interval_seconds:g} s"
    why = f" because no search key is set (titles of the last 3 months, one search per {every})"
    names = (f"{name} (items from the listener)" if name == FEEDS else name for name in search_providers(settings))
    return ", ".join(names) + (why if is_keyless_default(settings) else "")


def opens_pages(settings: Settings) -> bool:
    """Return whether the best pages are opened: ``TOOL_SCRAPE_ENABLED``; if unset, whether searches return only titles.

    Raises:
        ConfigError: as for :func:`search_providers`.
    """
    from infra.search import FEEDS, KEYLESS

    if "tool_scrape_enabled" in settings.model_fields_set or not settings.tool_search_enabled:
        return settings.tool_scrape_enabled
    return {FEEDS, KEYLESS}.issuperset(search_providers(settings))


def snapshot_of(settings: Settings) -> Snapshot:
    """Return the configuration that cases pin: policy settings, prompts, tables, mode and code version.

    It has no calibration map; a live worker adds the newest (:mod:`newsproof.app.processes.calibrated`).

    Raises:
        ConfigError: as for :func:`search_providers`, or a prompt file or ``MODEL_OPTIONS`` is malformed.
    """
    from agents.prompts import load_prompts

    from_settings = {name: getattr(settings, name) for name in SAME_NAMES if name != "search_include_domains"}
    from_settings["tool_scrape_enabled"] = opens_pages(settings)
    from_settings["trusted_sources"] = settings.trusted_ids
    from_settings["second_looks_after_seconds"] = settings.second_looks_s
    return Snapshot(
        **from_settings,
        provider_mode=settings.mode,
        code_version=code_version(),
        rules=RULES,
        search_providers=search_providers(settings),
        search_by_topic=_that_are(settings, "by_topic"),
        search_billed=_that_are(settings, "billed"),
        **_quality(settings),
        search_depth=settings.tavily_search_depth if settings.mode == "live" else "basic",
        search_include_domains=include_domains(settings),
        synthesis_choice="model" if settings.mode == "live" or scripted(settings) else "middle",
        prompts=tuned_prompts(settings, load_prompts()),
        tables=tables_of(settings),
        calibration=None,
    )


def tables_of(settings: Settings) -> Tables:
    """Return the tables that cases pin, with the rows of ``SEARCH_ROLES``.

    Raises:
        ConfigError: ``SEARCH_ROLES`` is malformed.
    """
    from agents.tables import load_tables
    from infra.search import search_roles

    tables = load_tables(demo=settings.mode != "live")
    return msgspec.structs.replace(tables, search_roles=search_roles(settings, tables.search_roles))


def _that_are(settings: Settings, trait: Literal["by_topic", "billed"]) -> tuple[str, ...]:
    from infra.search import PROVIDERS

    asked = search_providers(settings)
    if trait == "billed" and scripted(settings):
        return asked  # its search stands in for a hosted one, as its models do
    return tuple(name for name in asked if name in PROVIDERS and getattr(PROVIDERS[name], trait))


def _quality(settings: Settings) -> dict[str, Any]:
    """Return the bounds of quality control that differ by live provider; offline scores keep their own bounds.

    Raises:
        ConfigError: ``QUALITY_FLOOR`` or ``QUALITY_MIN_WIDTH`` is malformed.
    """
    from infra.search import by_provider

    floors = by_provider("quality_floor", settings.quality_floor, most=1.0)
    widths = by_provider("quality_min_width", settings.quality_min_width, most=1000.0)
    asked = search_providers(settings) if settings.mode == "live" else ()
    return {
        "quality_floors": {name: floors[name] for name in asked},
        "quality_widths": {name: int(widths[name]) for name in asked},
    }


def scripted(settings: Settings) -> bool:
    """Return whether the scripted model server answers: simulated mode, with its address set."""
    return settings.mode == "simulated" and settings.scripted_model_url is not None


def include_domains(settings: Settings) -> tuple[str, ...]:
    """Return the domains that live searches are limited to; empty: the whole web."""
    from infra.search import include_domains as written

    return written(settings) if settings.mode == "live" else ()


def ports_of(settings: Settings, clickhouse: ClickHouse, earlier: Port, **journal: Port) -> Ports:
    """Return the adapters of the mode in use. Live mode never falls back to another mode silently.

    ``earlier`` and ``journal`` use the journal: copies of a text; ``concerned``, claims that a denial may concern;
    ``story``, earlier reports of a story; ``parts``, the cases of a message's further claims.

    Raises:
        ConfigError: live mode lacks a key; the text names the setting.
    """
    from infra.clickhouse.memory import ClickHouseMemory
    from infra.models.embeddings import embedder_of

    recall = ClickHouseMemory(clickhouse, mode=settings.mode, embedder=embedder_of(settings))
    ours: dict[str, Any] = {"recall": recall, "earlier": earlier, **journal}
    if settings.mode == "live":
        from infra.market.ports import live_market

        models, fallbacks = live_models(settings)
        ours |= {"search": live_search(settings), "scrape": live_pages(settings), "market": live_market(settings)}
        return Ports(models=models, fallbacks=fallbacks, **ours)
    if settings.mode == "offline":
        from infra.offline.model import OfflineModel
        from infra.offline.newsroom.search import PlayedSearch, StorySearch
        from infra.offline.search import OfflinePages

        model = OfflineModel(latency_s=settings.offline_latency_seconds)
        made = PlayedSearch if settings.offline_pages_dated_by_event else StorySearch
        search = made(latency_s=settings.offline_latency_seconds)
        pages = OfflinePages(search.documents, latency_s=settings.offline_latency_seconds)
        return Ports(models={"light": model, "heavy": model}, search={search.provider: search}, scrape=pages, **ours)
    if scripted(settings):
        from infra.offline.scripted.ports import scripted_ports

        return Ports(**scripted_ports(settings), **ours)
    from infra.offline.simulated import Simulated

    port = Simulated(settings.offline_latency_seconds)
    return Ports(models={"light": port, "heavy": port}, search={port.provider: port}, **ours)


def live_models(settings: Settings) -> tuple[dict[str, Port], dict[str, tuple[Port, ...]]]:
    """Return new adapters of the first models and of their fallbacks, by tier and by task.

    Raises:
        ConfigError: a key is missing, or ``MODEL_TASKS`` names an unknown task.
    """
    from agents.prompts import every_task
    from infra.models import live_models as made

    return made(settings, every_task())


def live_search(settings: Settings) -> dict[str, Port]:
    """Return a new adapter for each usable search provider of live mode."""
    return {name: search_adapter(settings, name) for name in search_providers(settings)}


def search_adapter(settings: Settings, name: str) -> Port:
    """Return a new adapter of a search provider. The adapter for our own log finds its broker at its first search.

    Raises:
        ConfigError: a key or an address is invalid.
    """
    from infra.search import PROVIDERS

    if (make := PROVIDERS[name].make) is not None:
        return make(settings)
    return feed_search(settings, lambda: address_of(settings))


def feed_search(settings: Settings, address: Callable[[], KafkaAddress]) -> FeedSearch:
    """Return a new search over the listeners' items. It finds its broker when it starts."""
    from infra.listeners.mark import Marks
    from infra.listeners.source import own_file, sources_of
    from streams.intake.feed_search import FeedSearch
    from streams.journal.log import KafkaLog

    return FeedSearch(
        lambda: KafkaLog(address()),
        topics_of(settings),
        lambda: sources_of(own_file(settings)),
        Marks(settings).is_marked,
    )


def live_pages(settings: Settings) -> Port:
    from infra.pages.port import LivePages

    return LivePages(
        timeout_s=settings.deep_analysis_tool_timeout,
        max_bytes=settings.scrape_max_bytes,
        proxies=[proxy.strip() for proxy in settings.scrape_proxies.split(",") if proxy.strip()],
    )


def journal_ports_of(settings: Settings, clickhouse: ClickHouse, searches: SearchCache) -> tuple[Ports, TextIndex]:
    """Return the adapters of a news worker, and the text index that they use, not started.

    Raises:
        ConfigError: as for :func:`ports_of`.
    """
    from infra.listeners.source import own_file, sources_of
    from streams.intake.claim_index import ClaimIndex
    from streams.intake.part_opener import PartOpener
    from streams.intake.story_index import StoryIndex
    from streams.intake.text_index import TextIndex

    address, topics, count = address_of(settings), topics_of(settings), settings.topic_partitions
    folds = worker_options(settings).fold_directory(topics)
    texts = TextIndex(
        address, topics, window_days=settings.dedup_days, by_owner=settings.story_window_hours > 0, directory=folds, searches=searches
    )  # fmt: skip
    claims = ClaimIndex(address, topics, texts, partitions=count, window_days=settings.retraction_window_days)
    listed, hours = (lambda: sources_of(own_file(settings))), settings.story_window_hours
    stories = StoryIndex(texts, listed, partitions=count, window_hours=hours)
    parts = PartOpener(address, topics, partitions=count)
    return ports_of(settings, clickhouse, texts, concerned=claims, story=stories, parts=parts), texts


def worker_of(
    settings: Settings,
    registry: Registry,
    ports: Ports,
    snapshot: Snapshot,
    options: WorkerOptions,
    *,
    searches: SearchCache | None = None,
) -> tuple[Worker, BudgetLedger]:
    """Return a worker of this registry's flow, not started, and its budget ledger. Needs a running event loop."""
    from infra.listeners.mark import Marks
    from streams import composition
    from streams.ending import Ending
    from streams.wake import Wake

    ending, wake = Ending(), Wake()
    budget = budget_of(settings, ending, wake, options.fold_directory(topics_of(settings)))
    worker = composition.worker_of(
        address_of(settings), topics_of(settings), registry, ports, snapshot, options,
        ending=ending, wake=wake, budget=budget, searches=searches, authenticate=Marks(settings).authenticate,
    )  # fmt: skip
    return worker, budget


def publisher_of(settings: Settings, worker: Worker) -> Publisher:
    """Return the publisher beside this worker, not started. It shares the worker's tombstones and its directory."""
    from streams.publish.publisher import Publisher

    return Publisher(address_of(settings), worker.topics, worker.folds, worker.projector.tombstones, worker.appender)


def sink_of(settings: Settings, clickhouse: ClickHouse, registry: Registry | None = None) -> Sink:
    """Return the sink that fills this ClickHouse, not started. ``registry``: another graph than the product's."""
    from streams.sink.sink import Sink

    return Sink(address_of(settings), topics_of(settings), clickhouse, registry=registry)


def limits_of_settings(settings: Settings) -> LimitsSet:
    """Return the budget's limits from these settings."""
    from schemas.budget import LimitsSet

    return LimitsSet(
        monthly_usd=Decimal(str(settings.deep_analysis_monthly_budget)),
        triage_reserve_usd=Decimal(str(settings.triage_reserve_usd)),
        daily_units=settings.deep_analysis_tool_daily_limit,
        daily_percent=settings.deep_analysis_daily_max_percent,
        group_percent=settings.source_group_max_percent,
        unlisted_percent=settings.unlisted_sources_max_percent,
        verification_percent=settings.verification_max_percent,
        doubtful_percent=settings.search_doubtful_max_percent,
        forced_percent=settings.search_forced_reserve_percent,
        investigation_percent=settings.investigation_max_percent,
        allow_unpriced=settings.allow_unpriced,
        by=settings.worker_slot,
    )


def budget_of(settings: Settings, ending: Ending, wake: Wake, folds: Path | None = None) -> BudgetLedger:
    """Return a worker's budget ledger with these settings' limits, not started. ``folds``: directory for its state."""
    from streams.budget.budget import BudgetLedger

    return BudgetLedger(address_of(settings), topics_of(settings), limits_of_settings(settings), ending, wake, folds)


def worker_options(settings: Settings) -> WorkerOptions:
    from streams.runtime.options import WorkerOptions

    return WorkerOptions(
        slot=settings.worker_slot,
        slot_dir=settings.newsproof_data_dir / "slots",
        partitions=settings.topic_partitions,
        max_open_cases=settings.max_open_cases,
        step_concurrency=settings.step_concurrency,
        effects_in_flight=settings.effects_in_flight,
        dedup_days=settings.dedup_days,
        crash_suspect_after=settings.crash_suspect_after,
        session_timeout_s=settings.session_timeout_seconds,
    )


def refuse_unusable(settings: Settings) -> None:
    """Refuse settings that no worker can start with, before anything is started.

    Raises:
        ConfigError: live mode lacks a key, or a provider is unknown.
    """
    search_providers(settings)
    _quality(settings)
    options_of(settings)
    tables_of(settings)
    if settings.mode == "live":
        from infra.market.ports import live_market

        models, fallbacks = live_models(settings)
        _refuse_unpriced(settings, (*models.values(), *(p for behind in fallbacks.values() for p in behind)))
        _refuse_unpriced_vectors(settings)
        for port in (*live_search(settings).values(), live_pages(settings), live_market(settings)):
            del port  # created as a check: an invalid key or address is refused here
        return
    without = ("tool_price_enabled", "tool_macro_enabled", "tool_onchain_enabled")
    if scripted(settings):
        from infra.offline.scripted.ports import scripted_models

        scripted_models(settings)
    has_pages = settings.mode == "offline" or scripted(settings)
    for name in without if has_pages else ("tool_scrape_enabled", *without):
        if getattr(settings, name):
            raise ConfigError(f"{name.upper()}=true, but {settings.mode} mode has no such source: turn it off")


def _refuse_unpriced_vectors(settings: Settings) -> None:
    from infra.models.embeddings import embedder_of

    embedder = embedder_of(settings)
    if embedder is not None and not settings.allow_unpriced and embedder.worst_case_usd("") is None:
        raise ConfigError(
            f"the embedding model {embedder.provider}:{embedder.model} has no known price, so the budget would deny every recall: "
            "add its price to infra/models/price_overrides.json, name another EMBEDDING_MODEL, or set ALLOW_UNPRICED=true"
        )


def _refuse_unpriced(settings: Settings, models: tuple[Port, ...]) -> None:
    from infra.models.call_costs import OVERRIDES_PATH
    from schemas.effects import CallModel

    least = CallModel(
        task="",
        tier="light",
        prompt_name="",
        prompt_version="",
        prompt_hash="",
        system="",
        parts=(),
        max_output_tokens=1,
    )
    for port in () if settings.allow_unpriced else models:
        if port.worst_case_usd(least) is None:
            name = f"{port.provider}:{getattr(port, 'model', '')}"
            raise ConfigError(
                f"the model {name} has no known price, so the budget would deny all its calls: add its price to "
                f"infra/models/{OVERRIDES_PATH.name}, name another model, or set ALLOW_UNPRICED=true to count it as 0 USD"
            )
