"""``./run acceptance``: sends every message once through a separate installation, then reads the tables."""

from __future__ import annotations

import asyncio
import contextlib
import time
from datetime import UTC, datetime
from decimal import Decimal

from agents.core.model_calls import call_of
from agents.graphs import verification
from agents.prompts import every_task, load_prompts
from infra.clickhouse.client import ClickHouse
from infra.models import routes
from infra.offline.scripted.server import ScriptedServer
from infra.settings import Settings
from infra.settings.verification import FULL_PIPELINE
from lab.acceptance.measures import RunMeasures, ended, measured
from lab.acceptance.messages import MESSAGES, SOURCE, acceptance_news
from lab.acceptance.report import AcceptanceReport, print_report, report_of
from lab.acceptance.targets import criteria, verdicts
from newsproof.app import exits
from newsproof.app.composition import (
    address_of,
    clickhouse_of,
    live_models,
    mode_in_words,
    refuse_unusable,
    search_providers,
    topics_of,
)
from newsproof.app.processes.supervisor import Pipeline, empty, pipeline, watched
from newsproof.app.servers import say_on_stderr as say
from newsproof.app.sheet import json_line
from newsproof.sdk.client import checked_news
from schemas.effects import Untrusted
from schemas.errors import ConfigError, TransientError
from schemas.news import News

DIRECTORY = "acceptance"
"""Directory of the run's servers, inside the data directory."""
SEARCH_MEDIAN_S = 0.7
"""Median search latency of a scripted run; plausible for a hosted search, not measured on one."""
END_WITHIN_S = 600.0
UNITS = 1000
"""Metered searches of a live run: more than its messages can make, because the day's limit is not under test."""
LOOK_EVERY_S = 0.25


def live_question(settings: Settings, max_cost: float) -> str:
    """Return a live run's models, searches and maximum cost, as a sentence without its full stop. Sends nothing.

    Raises:
        ConfigError: there are no live providers, or no worker could start with them; the text says what to set.
    """
    if settings.mode != "live":
        raise ConfigError(
            f"acceptance --live asks real providers, and the mode is {settings.mode}: set GEMINI_API_KEY, or MODEL_LIGHT and "
            "MODEL_HEAVY to models of your own such as ollama:qwen3:8b; without --live a scripted server answers"
        )
    at = _live(settings, max_cost)
    refuse_unusable(at)
    if (triage := _triage_usd(at)) is not None and triage > max_cost:
        raise ConfigError(
            f"a triage alone may cost {triage:f} USD: with --max-cost {max_cost:g} nothing would be judged, so raise it"
        )
    asked = dict.fromkeys(model for route in routes(at, every_task()).values() for model in route)
    models = ", ".join(f"{provider}:{model}" for provider, model in asked)
    beside = ", and ALLOW_UNPRICED leaves calls of unknown price uncounted" if at.allow_unpriced else ""
    searches = ", ".join(search_providers(at)) if at.tool_search_enabled else "no search"
    return f"This sends {2 * len(MESSAGES)} messages to {models}; {searches}; at most {max_cost:g} USD{beside}"


def _triage_usd(settings: Settings) -> Decimal | None:
    """Return the maximum cost of triage for the first message; None: unknown."""
    prompt, models = load_prompts()["triage"], live_models(settings)[0]
    call = call_of(prompt, prompt.text, (Untrusted("news", MESSAGES[0].en),))
    return models.get(prompt.name, models["light"]).worst_case_usd(call)


async def acceptance(settings: Settings, *, max_cost: float | None, as_json: bool, markdown: bool) -> int:
    """Run it; return the exit status: 0, or 1 if a target or criterion is missed or a message gets no signal.

    ``max_cost`` (USD): call the live providers with this budget. None: use the scripted server, whatever is
    configured, without any cost.

    Raises:
        NewsproofError: a server or a child process does not start, or a message does not end.
    """
    async with contextlib.AsyncExitStack() as stack:
        if max_cost is None:
            server = await stack.enter_async_context(ScriptedServer(latency="realistic"))
            at = _scripted(settings, server.url)
        else:
            at = _live(settings, max_cost)
        refuse_unusable(at)
        say(f"Acceptance run: {mode_in_words(at)}.")
        empty(at.newsproof_data_dir)
        async with pipeline(at) as running:
            say(f"Servers run (data in {at.newsproof_data_dir}). Sending the messages.")
            report = await watched(running, _run(running, max_cost))
    if as_json:
        json_line(report)
    else:
        print_report(report, markdown=markdown)
    met = all(verdict.met for verdict in (*report.targets, *report.criteria))
    return exits.OK if met and not report.failed else exits.FINDING


def _own(settings: Settings) -> dict[str, object]:
    return {
        **FULL_PIPELINE,
        "trusted_sources": SOURCE,
        "source_group_max_percent": 100,  # all messages are of one source, on one day
        "deep_analysis_daily_max_percent": 100,
        "newsproof_data_dir": settings.newsproof_data_dir / DIRECTORY,
        "kafka_bootstrap_servers": None,
        "clickhouse_url": None,
        "topic_replication": 1,
        "metrics_port": None,
        "publish_preliminary": False,
        "second_looks_after_seconds": "0",  # a message's cost is measured when its case has ended
        "claims_per_message": 1,  # a message is one case
        "story_window_hours": 0.0,  # some messages report one event in two languages, and each is measured
        "hot_settings_file": None,
    }


def _live(settings: Settings, max_cost: float) -> Settings:
    # The reserve for triage would be added to the budget.
    budget = {
        "deep_analysis_monthly_budget": max_cost,
        "triage_reserve_usd": 0.0,
        "deep_analysis_tool_daily_limit": UNITS,
    }
    return settings.model_copy(update=settings.defaults_of_up | _own(settings) | budget)


def _scripted(settings: Settings, url: str) -> Settings:
    simulated = {
        "newsproof_mode": "simulated",
        "scripted_model_url": url,
        "offline_latency_seconds": SEARCH_MEDIAN_S,
        **{f"tool_{name}_enabled": False for name in ("price", "macro", "onchain")},
    }
    return settings.model_copy(update=_own(settings) | simulated)


async def _run(running: Pipeline, max_cost: float | None) -> AcceptanceReport:
    settings = running.settings
    items = acceptance_news(datetime.now(UTC))
    began = time.monotonic()
    async with clickhouse_of(settings) as tables:
        await _publish(settings, items)
        await _until_ended(tables, {str(item.external_id) for item in items})
        order = {step: place for place, step in enumerate(_flow_order())}
        measures: RunMeasures = await measured(tables, order)
    took_s = time.monotonic() - began
    return report_of(mode_in_words(settings), measures, verdicts(measures), criteria(measures), took_s, max_cost)


async def _publish(settings: Settings, items: list[News]) -> None:
    topics = topics_of(settings)
    async with address_of(settings).producer(linger_ms=0) as producer:
        for item in items:
            news, value = checked_news(item, now=datetime.now(UTC))
            await producer.send_and_wait(topics.news, value, key=news.key)


async def _until_ended(tables: ClickHouse, wanted: set[str]) -> None:
    seen: set[str] = set()
    try:
        async with asyncio.timeout(END_WITHIN_S):
            while wanted - seen:
                for name in sorted((now := await ended(tables)) - seen):
                    say(f"  {name} has ended")
                seen = now
                await asyncio.sleep(LOOK_EVERY_S)
    except TimeoutError as exc:
        raise TransientError(
            f"{', '.join(sorted(wanted - seen))} did not end within {END_WITHIN_S:g} s: look into the worker's log, which says so "
            "where news waits because --max-cost is used up"
        ) from exc


def _flow_order() -> list[str]:
    return list(dict.fromkeys(source for source, _, _ in verification().edges()))
