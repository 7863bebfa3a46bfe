"""``newsproof doctor``: checks what is configured, reachable and missing, and says what to set where.

It starts nothing, makes no paid call (except with ``--live``, :mod:`newsproof.cli.operate.live_calls`) and prints no secret.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from infra.client_settings import ClientSettings
from infra.landlock import FILES_SINCE, NETWORK_SINCE, abi_version
from newsproof.app import exits
from newsproof.app.invocation import agreed, of, run
from newsproof.app.model_options import ignored_options
from newsproof.app.servers import running_clickhouse, running_kafka
from newsproof.app.sheet import Columns, Sheet, json_lines, say_result
from newsproof.app.terminal import as_started
from newsproof.cli.operate.live_calls import (
    CallPlan,
    Check,
    State,
    check_list,
    make_calls,
    missing,
    note,
    ok,
    plan_calls,
)
from newsproof.cli.options import JsonLines, commands, option
from schemas.errors import ConfigError, NewsproofError

if TYPE_CHECKING:
    from infra.market.source import Source
    from infra.settings import Settings
    from streams.intake.feed_search import FeedSearch

app = commands()
FREE_BYTES = 2 * 1024**3


@app.command()
def doctor(
    ctx: typer.Context,
    live: Annotated[
        bool, option("Make one cheap call to each service that live mode calls. Prints the price first.", "--live")
    ] = False,
    yes: Annotated[bool, option("Skip the confirmation of --live.", "--yes")] = False,
    as_json: JsonLines = False,
) -> None:
    """Check what is configured, reachable and missing, and what to set where.

    Exit status 1 if anything is missing. Without --live, it makes no paid call and sends no key. The calls of --live are not
    counted in the budget.
    """
    invocation = of(ctx)
    try:
        plan = plan_calls(invocation.settings())
        why = "live mode is off"
    except ConfigError as exc:
        plan, why = CallPlan(), str(exc)
    nothing_tried = live and not plan.calls
    if nothing_tried:
        print(f"No calls made: {why}", file=sys.stderr)
    live = live and bool(plan.calls) and agreed(plan.question(), yes=yes)
    checks = run(diagnose(invocation.settings(), plan, live=live))
    json_lines(checks) if as_json else _print(checks, live=live)
    healthy = all(check.state != "missing" for check in checks)
    raise typer.Exit(exits.OK if healthy and not nothing_tried else exits.FINDING)


async def diagnose(settings: Settings, plan: CallPlan, *, live: bool) -> list[Check]:
    """Return every check.

    ``plan``: the calls of live mode. With ``live``, they are made; otherwise they are listed, and only the model lists
    of local servers are read.
    """
    kafka, clickhouse, sources, feeds, calls = await asyncio.gather(
        _kafka(settings),
        _clickhouse(settings),
        check_chat_sources(settings),
        check_feeds(settings),
        make_calls(plan) if live else _unmade_calls(plan),
    )
    await plan.close()
    fence = [] if settings.clickhouse_url else [engine_fence(abi_version())]
    python = ok("Python", f"{sys.version.split()[0]} at {sys.executable}")
    servers = [python, _disk(settings), kafka, clickhouse, *fence]
    listener = [*_listened(settings), _listener_key(settings)]
    return [*servers, *calls, *_providers(settings), *sources, *listener, *feeds]


async def _unmade_calls(plan: CallPlan) -> list[Check]:
    checks = await asyncio.gather(*(check_list(models, []) for models in plan.lists if models.keyless))
    calls = [note(call.name, "configured, not tried", _TRY) for call in plan.calls]
    return [*calls, *(check for of_list in checks for check in of_list)]


_TRY = "newsproof doctor --live"


def _print(checks: Sequence[Check], *, live: bool) -> None:
    columns: Columns = {"": "state", "what": "name", "found": "found", "what to do": lambda check: as_started(check.do)}
    Sheet.of(checks, columns).print()
    unmet = [c.name for c in checks if c.state == "missing"]
    notes = sum(c.state == "note" for c in checks)
    well = "All calls succeeded" if live else "Nothing is missing, as far as this can be checked without a call"
    say_result(f"To fix: {', '.join(unmet)}." if unmet else f"{well}. Notes: {notes}.")


def _disk(settings: Settings) -> Check:
    directory = settings.newsproof_data_dir.absolute()
    existing = next(path for path in (directory, *directory.parents) if path.exists())
    free = shutil.disk_usage(existing).free
    finding = f"{directory}, {free / 1024**3:.1f} GiB free"
    if not os.access(existing, os.W_OK | os.X_OK):
        do = "set NEWSPROOF_DATA_DIR to a directory that you can write to"
        return missing("data directory", f"{directory} is not writable", do)
    if free < FREE_BYTES:
        return note("data directory", finding, "free some space: the log is kept forever")
    return ok("data directory", finding)


async def _kafka(settings: Settings) -> Check:
    from newsproof.app.composition import address_of, topics_of

    if not settings.kafka_bootstrap_servers:
        address = await running_kafka(settings.newsproof_data_dir / "kafka")
        if address is None:
            return _embedded_java()
        return ok("Kafka", f"embedded, running at {address}")
    try:
        async with asyncio.timeout(15), address_of(settings).admin() as admin:
            topics = set(await admin.list_topics())
    except (NewsproofError, TimeoutError) as exc:
        return missing("Kafka", str(exc) or "no response within 15 s", _START_KAFKA)
    at = f"reachable at {settings.kafka_bootstrap_servers}"
    if topics_of(settings).cases not in topics:
        return note("Kafka", f"{at}, but its topics are missing", "newsproof topics create")
    return ok("Kafka", at)


def engine_fence(version: int) -> Check:
    """Check the sandbox of the embedded ClickHouse. ``version``: the kernel's Landlock ABI version, 0 without it."""
    name = "ClickHouse sandbox"
    if version < FILES_SINCE:
        finding = (
            "none: this kernel has no Landlock, so a vulnerability in ClickHouse could read and write all your files"
        )
        do = (
            "Linux 5.13 or later (with landlock among CONFIG_LSM), or CLICKHOUSE_URL of a server that another user runs"
        )
        return note(name, finding, do)
    if version < NETWORK_SINCE:
        finding = (
            f"Landlock {version}: the embedded ClickHouse can only access its own folders, but can open connections"
        )
        return note(name, finding, "use Linux 6.7 or later to block connections, too")
    finding = (
        f"Landlock {version}: the embedded ClickHouse can only access its own folders and cannot open TCP connections"
    )
    return ok(name, finding)


_START_KAFKA = "start it, correct KAFKA_BOOTSTRAP_SERVERS, or unset it to use an embedded Kafka"


def _embedded_java() -> Check:
    from infra.embedded.kafka.java import find_java

    try:
        java = find_java()
    except ConfigError as exc:
        return missing("Kafka", "embedded, but no working Java was found", str(exc))
    finding = f"embedded, not running (Java {java.major} at {java.path})"
    return ok("Kafka", finding, "nothing: commands start it when needed")


async def _clickhouse(settings: Settings) -> Check:
    from newsproof.app.composition import clickhouse_of

    if not settings.clickhouse_url:
        url = await running_clickhouse(settings.newsproof_data_dir / "clickhouse")
        finding = f"embedded, running at {url}" if url else "embedded, not running"
        return ok("ClickHouse", finding, "" if url else "nothing: commands start it when needed")
    try:
        async with asyncio.timeout(15), clickhouse_of(settings) as client:
            version = (await client.query("SELECT version()")).rows[0][0]
    except (NewsproofError, TimeoutError) as exc:
        do = "start it, correct CLICKHOUSE_URL, or unset it to use the embedded ClickHouse"
        return missing("ClickHouse", str(exc) or "no response within 15 s", do)
    return ok("ClickHouse", f"version {version}")


def _providers(settings: Settings) -> list[Check]:
    from newsproof.app.composition import mode_in_words, refuse_unusable

    do = "for real signals, set GEMINI_API_KEY in the environment or in .env; TAVILY_API_KEY adds a news search"
    mode, is_live = mode_in_words(settings), settings.mode == "live"
    checks = [ok("mode", mode) if is_live else note("mode", mode, do)]
    try:
        refuse_unusable(settings)
    except ConfigError as exc:
        checks.append(missing("providers", "a key or a name is missing", str(exc)))
    else:
        ignored = ignored_options(settings)
        do = "remove it from MODEL_OPTIONS, or choose another model in MODEL_TASKS"
        checks += [note("MODEL_OPTIONS", warning, do) for warning in ignored]
    checks += _model_providers(settings)
    checks += [*_search_providers(settings), *_pages(settings), *_search_roles(settings), *_left_off(settings)]
    if is_live and not settings.deep_analysis_tools_enabled:
        finding = "DEEP_ANALYSIS_TOOLS_ENABLED is false: workers use the single-pass analysis for every case"
        do = "set it to true, and PHASE1_ROLLOUT_PERCENTAGE to the share of cases (`up` sets both)"
        checks.append(note("deep path", finding, do))
    return checks


def _listened(settings: Settings) -> list[Check]:
    from infra.listeners import source as listed
    from newsproof.app.source_list import keys_of

    on = listed.chosen(listed.sources_of(listed.own_file(settings)))
    lacking = [
        (source, do) for source in on if (do := listed.missing(source, settings.listener_contact, keys_of(settings)))
    ]
    finding = f"{len(on) - len(lacking)} sources are on; `newsproof sources check` polls each of them"
    left_out = [note(f"source {source.id}", "skipped", do) for source, do in lacking]
    if not settings.listen:  # `newsproof listen` may still run, for a user who turned on a source with a key
        return [check for check, (source, _) in zip(left_out, lacking, strict=True) if source.key]
    return [ok("listener", finding), *left_out]


def _listener_key(settings: Settings) -> Check:
    from infra.listeners.mark import keys_at_hand
    from newsproof.app.source_list import NO_KEY, NO_KEY_DO

    name = "listener's key"
    try:
        keys = keys_at_hand(settings)
    except ConfigError as exc:
        return missing(name, "unreadable", str(exc))
    if keys:
        return ok(name, "available: signatures of the listener's news can be checked")
    if settings.kafka_bootstrap_servers is None:
        return ok(name, "none yet: `newsproof up` generates it")
    return note(name, NO_KEY, NO_KEY_DO)


def _left_off(settings: Settings) -> list[Check]:
    """Return a note for each source that live mode could use and does not, with what it would add."""
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
    return [note(name, "not or only partly configured", do) for lacks, name, do in off if lacks]


def _model_providers(settings: Settings) -> list[Check]:
    """Return one check per model provider: whether its key is set, if it takes one. Makes no call.

    Ollama and llama-server have an address by default, so they are skipped unless ``MODEL_*`` names them.
    """
    from infra.models import providers

    chosen = ("light", "heavy", "light_fallback", "heavy_fallback", "tasks")
    named = ",".join(getattr(settings, f"model_{tier}") for tier in chosen)
    endpoints, checks = settings.endpoints(), []
    for name, provider in providers(settings).items():
        if name in {"ollama", "llamacpp"} and not re.search(rf"(^|[\s,|=]){name}\s*:", named, re.IGNORECASE):
            continue
        keyless = name in endpoints and endpoints[name].key is None
        state: State = "ok" if provider.missing is None else "note"
        finding = "no key" if provider.missing else "no key needed at this address" if keyless else "key is set"
        do = f"{provider.missing}, if MODEL_* settings name {name}:… models" if provider.missing else ""
        checks.append(Check(name=f"models ({name})", state=state, found=finding, do=do))
    return checks


_WHY_A_KEY = "TAVILY_API_KEY adds news of any age, official pages and parallel searches"


def _search_providers(settings: Settings) -> list[Check]:
    """Return one check per search provider: whether it is used, and which setting to change to use it."""
    from infra.search import KEYLESS, PROVIDERS, is_keyless_default, provider_names
    from newsproof.app.composition import opens_pages

    named, checks = provider_names(settings), []
    is_live, by_default = settings.mode == "live", is_keyless_default(settings)
    for provider in PROVIDERS.values():
        name = f"search ({provider.name}, {provider.about})"
        if (do := provider.missing(settings)) is not None:
            checks.append(note(name, "listed, but skipped" if provider.name in named else "not configured", do))
        elif provider.name not in named:
            do = f"add {provider.name} to DEEP_ANALYSIS_SEARCH_PROVIDER to use it"
            checks.append(ok(name, "configured, not listed", do))
        elif by_default and provider.name == KEYLESS and is_live:
            opened = "the best pages are opened"
            texts = opened if opens_pages(settings) else "only titles are judged: TOOL_SCRAPE_ENABLED=false"
            checks.append(note(name, f"in use because no search key is set; {texts}", _WHY_A_KEY))
        else:
            checks.append(ok(name, "in use" if is_live else "configured"))
    return checks


def _pages(settings: Settings) -> list[Check]:
    """Return a note if live searches are judged by their results alone, which rarely date official pages."""
    from newsproof.app.composition import opens_pages

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
        return []  # no provider is usable, which has its own check
    finding = "not opened: an official page without a date cannot confirm a claim alone"
    return [note("pages", finding, "set TOOL_SCRAPE_ENABLED=true (`up` sets it)")]


def _search_roles(settings: Settings) -> list[Check]:
    """Return a note for each search role that no event uses."""
    from agents.planning.providers import unreached_roles
    from newsproof.app.composition import tables_of

    do = "nothing, or give an event this role, such as SEARCH_ROLES=event:governance=%s"
    roles = unreached_roles(tables_of(settings))
    return [note(f"search role {r}", "no event uses it", do % r) for r in roles]


WITHIN_S = 5.0
_REFUSES_THE_PLACE = 451


async def check_chat_sources(settings: Settings) -> list[Check]:
    """Check the research chat's data sources: whether each responds, and what a key would add.

    Sends one HEAD request to each source's address: no data, no key, no charge. A source that does not respond is only a
    note, because the chat continues without it and names it in its answers. Modes other than live have one check.
    """
    from infra.market.ports import live_research

    if settings.mode != "live":
        finding = f"synthetic data, labelled {settings.mode}: no outside source is called"
        return [note("chat data", finding, "live mode uses real data; no key is needed")]
    try:
        ports = live_research(settings).values()
    except ConfigError as exc:
        return [missing("chat data", "an address or a key is invalid", str(exc))]
    sources = {source.offered.name: source for port in ports for source in port.sources}
    checks = await asyncio.gather(*map(_check_source, sources.values()))
    for port in ports:
        await port.close()
    if settings.coinmetrics_enabled:
        return checks
    name, do = "chat data (Coin Metrics, exchange flows)", "set COINMETRICS_ENABLED=true (non-commercial use)"
    return [*checks, note(name, "turned off", do)]


async def _check_source(source: Source) -> Check:
    service = source.offered
    name = f"chat data ({service.name}, {service.about})"
    key = (
        "" if not service.key_setting else ", no key needed" if source.key is None else ", key is set (not tested here)"
    )
    try:
        status = await source.probe(WITHIN_S)
    except NewsproofError as exc:
        do = f"check the network, or correct {service.address_setting}; the chat continues without it and says so"
        return note(name, f"{str(exc).partition(';')[0]}{key}", do)
    if status >= 500 or status == _REFUSES_THE_PLACE:
        why = "it does not serve this network" if status == _REFUSES_THE_PLACE else "it is down"
        return note(name, f"returns status {status}{key}", f"nothing: {why}, and the chat says so")
    optional = bool(service.key_setting) and source.key is None
    do = f"optional: {service.key_setting}, for {service.key_adds}" if optional else ""
    return ok(name, f"reachable{key}", do)


_LISTEN = "newsproof up --listen"


async def check_feeds(settings: Settings) -> list[Check]:
    """Check how many items the search ``feeds`` finds in the log, as a worker reads it. Empty if it is not in use."""
    from infra.search import FEEDS, provider_names
    from newsproof.app.composition import feed_search
    from newsproof.sdk.client import running_kafka_of

    if settings.mode != "live" or not settings.tool_search_enabled or FEEDS not in provider_names(settings):
        return []
    name = "items of feeds"
    search: FeedSearch | None = None
    try:
        address = await running_kafka_of(ClientSettings.of(settings))
        if address is None:
            return [note(name, "unknown: Kafka is not running", _LISTEN)]
        search = feed_search(settings, lambda: address)
        held = await search.read_to_the_ends()
    except NewsproofError as exc:
        return [note(name, str(exc), "correct that, then run newsproof doctor again")]
    finally:
        if search is not None:
            await search.close()
    if not held:
        finding = "no items from listed sources in the last 7 days, so this search fails"
        return [note(name, finding, _LISTEN)]
    return [ok(name, f"{held:,} from the last 7 days")]
