"""``newsproof doctor``: checks what is configured, reachable and missing, and says what to write where.

It starts nothing, makes no paid request (but for ``--live``, :mod:`newsproof.cli.doctor.live`) and prints no secret.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

from infra.landlock import FILES_SINCE, NETWORK_SINCE, abi_version
from infra.settings import Settings
from newsproof.app.composition import address_of, clickhouse_of, mode_in_words, opens_pages, refuse_unusable, topics_of
from newsproof.app.invocation import Invocation, json_line, say_result, table
from newsproof.app.model_options import ignored_options
from newsproof.app.servers import running_clickhouse, running_kafka
from newsproof.app.terminal import as_started
from newsproof.cli.doctor.calls import Plan
from newsproof.cli.doctor.check import Check, State
from newsproof.cli.doctor.feeds import feeds
from newsproof.cli.doctor.live import listed, tried
from newsproof.cli.doctor.research import chat_sources
from schemas.errors import ConfigError, NewsproofError

FREE_BYTES = 2 * 1024**3


async def diagnose(invocation: Invocation, plan: Plan, *, live: bool, as_json: bool) -> bool:
    """Print every check; return True if nothing is missing.

    ``plan``: what live mode asks, with ``live`` asked now; else named, and of it only the lists of local model servers read.
    """
    settings = invocation.settings()
    kafka, clickhouse, sources, fed, asked = await asyncio.gather(
        _kafka(settings),
        _clickhouse(settings),
        chat_sources(settings),
        feeds(settings),
        tried(plan) if live else _not_tried(plan),
    )
    await plan.close()
    fence = [] if settings.clickhouse_url else [engine_fence(abi_version())]
    checks = [
        _python(),
        _disk(settings),
        kafka,
        clickhouse,
        *fence,
        *asked,
        *_providers(settings),
        *sources,
        *_listened(settings),
        _listener_key(settings),
        *fed,
    ]
    _print(checks, as_json=as_json, live=live)
    return all(check.state != "missing" for check in checks)


async def _not_tried(plan: Plan) -> list[Check]:
    found = await asyncio.gather(*(listed(one, []) for one in plan.lists if one.keyless))
    calls = [Check(name=one.name, state="note", found="configured, not tried", do=_TRY) for one in plan.calls]
    return [*calls, *(check for of_list in found for check in of_list)]


_TRY = "newsproof doctor --live"


def _print(checks: Iterable[Check], *, as_json: bool, live: bool) -> None:
    if as_json:
        for check in checks:
            json_line(check)
        return
    table(("", "what", "found", "what to do"), [(c.state, c.name, c.found, as_started(c.do)) for c in checks])
    missing = [c.name for c in checks if c.state == "missing"]
    notes = sum(c.state == "note" for c in checks)
    say_result(
        f"To fix: {', '.join(missing)}."
        if missing
        else f"{'All calls succeeded' if live else 'Nothing is missing, as far as this can be checked without a call'}. Notes: {notes}."
    )


def _python() -> Check:
    return Check(name="Python", state="ok", found=f"{sys.version.split()[0]} at {sys.executable}")


def _disk(settings: Settings) -> Check:
    directory = settings.newsproof_data_dir.absolute()
    existing = next(path for path in (directory, *directory.parents) if path.exists())
    free = shutil.disk_usage(existing).free
    found = f"{directory}, {free / 1024**3:.1f} GiB free"
    if not _writable(existing):
        return Check(
            name="data directory",
            state="missing",
            found=f"{directory} is not writable",
            do="set NEWSPROOF_DATA_DIR to a directory that you can write to",
        )
    if free < FREE_BYTES:
        return Check(name="data directory", state="note", found=found, do="free some space: the log is kept forever")
    return Check(name="data directory", state="ok", found=found)


def _writable(directory: Path) -> bool:
    import os

    return os.access(directory, os.W_OK | os.X_OK)


async def _kafka(settings: Settings) -> Check:
    if not settings.kafka_bootstrap_servers:
        address = await running_kafka(settings.newsproof_data_dir / "kafka")
        if address is None:
            return _embedded_java()
        return Check(name="Kafka", state="ok", found=f"embedded, running at {address}")
    try:
        async with asyncio.timeout(15), address_of(settings).admin() as admin:
            topics = set(await admin.list_topics())
    except (NewsproofError, TimeoutError) as exc:
        return Check(name="Kafka", state="missing", found=str(exc) or "no response within 15 s", do=_START_KAFKA)
    at = f"reachable at {settings.kafka_bootstrap_servers}"
    if topics_of(settings).cases not in topics:
        return Check(
            name="Kafka", state="note", found=f"{at}, but its topics are missing", do="newsproof topics create"
        )
    return Check(name="Kafka", state="ok", found=at)


def engine_fence(version: int) -> Check:
    """Check the sandbox of the embedded ClickHouse. ``version``: the kernel's Landlock ABI version, 0 without it."""
    name = "ClickHouse sandbox"
    if version < FILES_SINCE:
        found = (
            "none: this kernel has no Landlock, so a vulnerability in ClickHouse could read and write all your files"
        )
        do = (
            "Linux 5.13 or later (with landlock among CONFIG_LSM), or CLICKHOUSE_URL of a server that another user runs"
        )
        return Check(name=name, state="note", found=found, do=do)
    if version < NETWORK_SINCE:
        found = f"Landlock {version}: the embedded ClickHouse can only access its own folders, but can open connections"
        return Check(name=name, state="note", found=found, do="use Linux 6.7 or later to block connections, too")
    found = (
        f"Landlock {version}: the embedded ClickHouse can only access its own folders and cannot open TCP connections"
    )
    return Check(name=name, state="ok", found=found)


_START_KAFKA = "start it, correct KAFKA_BOOTSTRAP_SERVERS, or unset it to use an embedded Kafka"


def _embedded_java() -> Check:
    from infra.embedded.kafka.java import find_java

    try:
        java = find_java()
    except ConfigError as exc:
        return Check(name="Kafka", state="missing", found="embedded, but no working Java was found", do=str(exc))
    found = f"embedded, not running (Java {java.major} at {java.path})"
    return Check(name="Kafka", state="ok", found=found, do="nothing: commands start it when needed")


async def _clickhouse(settings: Settings) -> Check:
    if not settings.clickhouse_url:
        url = await running_clickhouse(settings.newsproof_data_dir / "clickhouse")
        found = f"embedded, running at {url}" if url else "embedded, not running"
        return Check(
            name="ClickHouse", state="ok", found=found, do="" if url else "nothing: commands start it when needed"
        )
    try:
        async with asyncio.timeout(15), clickhouse_of(settings) as client:
            version = (await client.query("SELECT version()")).rows[0][0]
    except (NewsproofError, TimeoutError) as exc:
        return Check(
            name="ClickHouse",
            state="missing",
            found=str(exc) or "no response within 15 s",
            do="start it, correct CLICKHOUSE_URL, or unset it to use the embedded ClickHouse",
        )
    return Check(name="ClickHouse", state="ok", found=f"version {version}")


def _providers(settings: Settings) -> list[Check]:
    checks = [Check(name="mode", state="ok", found=mode_in_words(settings))]
    if settings.mode != "live":
        checks[0] = Check(
            name="mode",
            state="note",
            found=mode_in_words(settings),
            do="for real signals, set GEMINI_API_KEY in the environment or in .env; TAVILY_API_KEY adds a news search",
        )
    try:
        refuse_unusable(settings)
    except ConfigError as exc:
        checks.append(Check(name="providers", state="missing", found="a key or a name is missing", do=str(exc)))
    else:
        ignored = ignored_options(settings)
        do = "remove it from MODEL_OPTIONS, or choose another model in MODEL_TASKS"
        checks += [Check(name="MODEL_OPTIONS", state="note", found=one, do=do) for one in ignored]
    checks += _model_providers(settings)
    checks += [*_search_providers(settings), *_pages(settings), *_search_roles(), *_left_off(settings)]
    if settings.mode == "live" and not settings.deep_analysis_tools_enabled:
        checks.append(
            Check(
                name="deep path",
                state="note",
                found="DEEP_ANALYSIS_TOOLS_ENABLED is false: workers use the single-pass analysis for every case",
                do="set it to true, and PHASE1_ROLLOUT_PERCENTAGE to the share of cases (`up` sets both)",
            )
        )
    return checks


def _listened(settings: Settings) -> list[Check]:
    from infra.listeners.source import chosen, missing, own_file, sources_of
    from newsproof.app.source_list import keys_of

    on = chosen(sources_of(own_file(settings)))
    lacking = [(one, do) for one in on if (do := missing(one, settings.listener_contact, keys_of(settings)))]
    found = f"{len(on) - len(lacking)} sources are on; `newsproof sources check` polls each of them"
    left_out = [Check(name=f"source {one.id}", state="note", found="skipped", do=do) for one, do in lacking]
    if not settings.listen:  # `newsproof listen` may run all the same, for whoever turned a source with a key on
        return [check for check, (one, _) in zip(left_out, lacking, strict=True) if one.key]
    return [Check(name="listener", state="ok", found=found), *left_out]


def _listener_key(settings: Settings) -> Check:
    from infra.listeners.mark import keys_at_hand
    from newsproof.app.source_list import NO_KEY, NO_KEY_DO

    name = "listener's key"
    try:
        keys = keys_at_hand(settings)
    except ConfigError as exc:
        return Check(name=name, state="missing", found="unreadable", do=str(exc))
    if keys:
        return Check(name=name, state="ok", found="available: signatures of the listener's news can be checked")
    if settings.kafka_bootstrap_servers is None:
        return Check(name=name, state="ok", found="none yet: `newsproof up` generates it")
    return Check(name=name, state="note", found=NO_KEY, do=NO_KEY_DO)


def _left_off(settings: Settings) -> list[Check]:
    """Return a note for each source that live mode could ask and does not, with what it would add."""
    if settings.mode != "live":
        return []
    off: tuple[tuple[bool, str, str], ...] = (
        (
            not (settings.model_light_fallback or settings.model_heavy_fallback),
            "fallback models",
            "MODEL_LIGHT_FALLBACK and MODEL_HEAVY_FALLBACK: models to call while a provider is unavailable",
        ),
        (
            settings.embedding_provider == "offline",
            "vectors of memory",
            "EMBEDDING_PROVIDER: finds past cases by meaning and across languages instead of by words alone; each recall is a paid call",
        ),
        (
            not (settings.tool_price_enabled and settings.tool_macro_enabled and settings.tool_onchain_enabled),
            "market data",
            "TOOL_PRICE_ENABLED, TOOL_MACRO_ENABLED, TOOL_ONCHAIN_ENABLED=true: free data to check claims against",
        ),
    )
    return [
        Check(name=name, state="note", found="not or only partly configured", do=do) for lacks, name, do in off if lacks
    ]


def _model_providers(settings: Settings) -> list[Check]:
    """Return one check per provider of models: whether its key is set, where it takes one. Nothing is asked.

    Ollama and llama-server, which have an address by default, are left out unless ``MODEL_*`` names them.
    """
    from infra.models import providers

    chosen = ("light", "heavy", "light_fallback", "heavy_fallback", "tasks")
    named = ",".join(getattr(settings, f"model_{one}") for one in chosen)
    endpoints, checks = settings.endpoints(), []
    for name, provider in providers(settings).items():
        if name in {"ollama", "llamacpp"} and not re.search(rf"(^|[\s,|=]){name}\s*:", named, re.IGNORECASE):
            continue
        keyless = name in endpoints and endpoints[name].key is None
        state: State = "ok" if provider.missing is None else "note"
        found = "no key" if provider.missing else "no key needed at this address" if keyless else "key is set"
        do = f"{provider.missing}, if MODEL_* settings name {name}:… models" if provider.missing else ""
        checks.append(Check(name=f"models ({name})", state=state, found=found, do=do))
    return checks


_WHY_A_KEY = "TAVILY_API_KEY adds news of any age, official pages and parallel searches"


def _search_providers(settings: Settings) -> list[Check]:
    """Return one check per known provider: whether it is queried, and which setting to change so that it is."""
    from infra.search import KEYLESS, PROVIDERS, is_keyless_default, provider_names

    named, checks = provider_names(settings), []
    by_default = is_keyless_default(settings)
    for provider in PROVIDERS.values():
        name, missing = f"search ({provider.name}, {provider.about})", provider.missing(settings)
        if missing is not None:
            state: State = "note"
            found = "listed, but skipped" if provider.name in named else "not configured"
            checks.append(Check(name=name, state=state, found=found, do=missing))
        elif provider.name not in named:
            do = f"add {provider.name} to DEEP_ANALYSIS_SEARCH_PROVIDER to use it"
            checks.append(Check(name=name, state="ok", found="configured, not listed", do=do))
        else:
            asked = "in use" if settings.mode == "live" else "configured"
            if by_default and provider.name == KEYLESS and settings.mode == "live":
                texts = (
                    "the best pages are opened"
                    if opens_pages(settings)
                    else "only titles are judged: TOOL_SCRAPE_ENABLED=false"
                )
                found = f"in use because no search key is set; {texts}"
                checks.append(Check(name=name, state="note", found=found, do=_WHY_A_KEY))
            else:
                checks.append(Check(name=name, state="ok", found=asked))
    return checks


def _pages(settings: Settings) -> list[Check]:
    """Return a note where live searches are judged by their results alone, which mostly do not date official pages."""
    if (
        settings.mode != "live"
        or not settings.tool_search_enabled
        or "tool_scrape_enabled" in settings.model_fields_set
    ):
        return []
    try:
        if opens_pages(settings):
            return []
    except ConfigError:
        return []  # no provider can be asked: that is a line of its own
    found = "not opened: an official page without a date cannot confirm a claim alone"
    return [Check(name="pages", state="note", found=found, do="set TOOL_SCRAPE_ENABLED=true (`up` sets it)")]


def _search_roles() -> list[Check]:
    """Return a note for each role of searches that no event reaches."""
    from agents.planning.providers import unreached_roles
    from agents.tables import load_tables

    do = 'nothing, or add an event in agents/tables/search_roles.json, such as "event:governance": ["%s"]'
    roles = unreached_roles(load_tables(demo=False))
    return [Check(name=f"search role {r}", state="note", found="no event uses it", do=do % r) for r in roles]
