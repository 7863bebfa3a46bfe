"""The one composition root: settings in, the parts of Newsproof out. Nothing else chooses an adapter.

What only a worker needs is imported when a worker asks for it: every command comes by here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from infra.clickhouse.client import ClickHouse, connect
from infra.kafka import KafkaAddress
from infra.ports import Port, Ports
from infra.settings import Settings
from newsproof.version import code_version
from schemas.config import Snapshot
from schemas.errors import ConfigError
from schemas.topics import Topics

if TYPE_CHECKING:
    from streams.options import WorkerOptions

FULL_PIPELINE: dict[str, object] = {"phase1_rollout_percentage": 1.0, "deep_analysis_tools_enabled": True}
"""What ``up`` and ``demo`` set, and say so: every case that passes the gate takes the deep path."""

SAME_NAMES = tuple(f.name for f in msgspec.structs.fields(Snapshot) if f.name in Settings.model_fields)
"""Snapshot fields that a setting of the same name decides."""


def topics_of(settings: Settings) -> Topics:
    """Return the topics of this installation."""
    return Topics(settings.topic_prefix)


def address_of(settings: Settings) -> KafkaAddress:
    """Return the configured Kafka address.

    Raises:
        ConfigError: when none is configured; only ``newsproof.servers`` starts embedded ones.
    """
    if not settings.kafka_bootstrap_servers:
        raise ConfigError("KAFKA_BOOTSTRAP_SERVERS is not set: set it, or use `newsproof up`, which starts a server")
    return KafkaAddress.of(settings, settings.kafka_bootstrap_servers)


def clickhouse_of(settings: Settings) -> ClickHouse:
    """Return a client of the configured ClickHouse; it connects at its first statement.

    Raises:
        ConfigError: when none is configured.
    """
    if not settings.clickhouse_url:
        raise ConfigError("CLICKHOUSE_URL is not set: set it, or use `newsproof up`, which starts a server")
    return connect(settings.clickhouse_url, database=settings.clickhouse_database)


def search_providers(settings: Settings) -> tuple[str, ...]:
    """Return the search providers of the mode in force.

    A live provider without its key is left out where another one remains.

    Raises:
        ConfigError: searching is on and no provider remains, or a name is unknown.
    """
    if settings.mode != "live":
        return (settings.mode,)
    named = [name.strip().lower() for name in settings.deep_analysis_search_provider.split(",") if name.strip()]
    if unknown := [name for name in named if name != "tavily"]:
        raise ConfigError(
            f"DEEP_ANALYSIS_SEARCH_PROVIDER names {', '.join(unknown)}, which is no provider here: write tavily"
        )
    with_key = tuple(name for name in named if settings.tavily_api_key)
    if settings.tool_search_enabled and not with_key:
        raise ConfigError(
            "live mode searches, and no search provider has a key: set TAVILY_API_KEY (https://app.tavily.com), "
            "or TOOL_SEARCH_ENABLED=false to judge without searching, or NEWSPROOF_MODE=offline to try things out"
        )
    return with_key


def snapshot_of(settings: Settings) -> Snapshot:
    """Return the configuration that cases pin: policy settings, prompts, tables, mode and code version.

    Raises:
        ConfigError: as :func:`search_providers`, or a prompt file is malformed.
    """
    from agents.prompts import load_prompts
    from agents.tables import load_tables

    from_settings = {name: getattr(settings, name) for name in SAME_NAMES if name != "search_include_domains"}
    return Snapshot(
        **from_settings,
        provider_mode=settings.mode,
        code_version=code_version(),
        search_providers=search_providers(settings),
        search_depth=settings.tavily_search_depth if settings.mode == "live" else "basic",
        search_include_domains=include_domains(settings),
        synthesis_choice="model" if settings.mode == "live" else "middle",
        prompts=load_prompts(),
        tables=load_tables(demo=settings.mode != "live"),
    )


def include_domains(settings: Settings) -> tuple[str, ...]:
    """Return the domains that live searches are limited to; empty = the whole web."""
    if settings.mode != "live":
        return ()
    return tuple(d.strip() for d in settings.search_include_domains.split(",") if d.strip())


def ports_of(settings: Settings, clickhouse: ClickHouse, earlier: Port) -> Ports:
    """Return the adapters of the mode in force. There is no silent fallback from live to anything else.

    Raises:
        ConfigError: live mode lacks a key; the text names the setting.
    """
    from infra.memory import ClickHouseMemory

    memory = ClickHouseMemory(clickhouse, mode=settings.mode)
    if settings.mode == "live":
        return Ports(models=_live_models(settings), search=_live_search(settings), recall=memory, earlier=earlier)
    if settings.mode == "offline":
        from infra.offline.model import OfflineModel
        from infra.offline.pages import OfflinePages
        from infra.offline.search import OfflineSearch

        model = OfflineModel(latency_s=settings.offline_latency_seconds)
        search = OfflineSearch(latency_s=settings.offline_latency_seconds)
        pages = OfflinePages(search.documents, latency_s=settings.offline_latency_seconds)
        return Ports(
            models={"light": model, "heavy": model},
            search={search.provider: search},
            recall=memory,
            earlier=earlier,
            scrape=pages,
        )
    from infra.offline.simulated import Simulated

    port = Simulated(settings.offline_latency_seconds)
    return Ports(models={"light": port, "heavy": port}, search={port.provider: port}, recall=memory, earlier=earlier)


def _live_models(settings: Settings) -> dict[str, Port]:
    from infra.models.gemini import GeminiModel
    from infra.models.prices import Prices

    key, prices = _gemini_key(settings), Prices()
    return {
        tier: GeminiModel(
            api_key=key,
            model=name,
            prices=prices,
            base_url=settings.gemini_base_url,
            timeout_s=settings.model_timeout_seconds,
        )
        for tier, name in (("light", settings.model_light), ("heavy", settings.model_heavy))
    }


def _gemini_key(settings: Settings) -> str:
    if settings.gemini_api_key is None:
        raise ConfigError(
            "live mode needs a model key: set GEMINI_API_KEY (https://aistudio.google.com/apikey), "
            "or NEWSPROOF_MODE=offline to try things out without one"
        )
    return settings.gemini_api_key.get_secret_value()


def _live_search(settings: Settings) -> dict[str, Port]:
    from infra.searching.tavily import TavilySearch

    key = settings.tavily_api_key
    if not search_providers(settings) or key is None:
        return {}
    tavily = TavilySearch(
        api_key=key.get_secret_value(),
        base_url=settings.tavily_base_url,
        timeout_s=settings.deep_analysis_tool_timeout,
        include_domains=include_domains(settings),
        cost_per_credit_usd=settings.search_cost_usd,
    )
    return {"tavily": tavily}


def worker_options(settings: Settings) -> WorkerOptions:
    """Return how a worker of these settings runs."""
    from streams.options import WorkerOptions

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
    """Refuse settings that no worker could start with, before anything is started.

    Raises:
        ConfigError: live mode lacks a key, or a provider is unknown.
    """
    search_providers(settings)
    without: tuple[str, ...] = ("tool_price_enabled", "tool_macro_enabled", "tool_onchain_enabled")
    if settings.mode == "live":
        _gemini_key(settings)
        without = ("tool_scrape_enabled", *without)
    for name in without:
        if getattr(settings, name):
            raise ConfigError(f"{name.upper()}=true, but no adapter for this tool exists yet: leave it off")
