"""``newsproof acceptance``: sends every message once through a separate installation, then reads the tables."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime

from agents.graphs import verification
from infra.clickhouse.client import ClickHouse
from infra.offline.scripted.server import ScriptedServer
from infra.settings import Settings
from newsproof.app import exits
from newsproof.app.composition import (
    FULL_PIPELINE,
    address_of,
    clickhouse_of,
    mode_in_words,
    refuse_unusable,
    topics_of,
)
from newsproof.app.invocation import json_line
from newsproof.app.processes.supervisor import Pipeline, empty, pipeline, watched
from newsproof.app.servers import say_on_stderr as say
from newsproof.evaluation.acceptance.measures import Measured, ended, measured
from newsproof.evaluation.acceptance.messages import acceptance_news
from newsproof.evaluation.acceptance.report import AcceptanceReport, print_report, report_of
from newsproof.evaluation.acceptance.targets import criteria, verdicts
from newsproof.sdk.client import checked_news
from schemas.errors import TransientError
from schemas.news import News

DIRECTORY = "acceptance"
"""Directory of the run's servers, inside the data directory."""
SEARCH_MEDIAN_S = 0.7
"""Median search latency of a scripted run; plausible for a hosted search, not measured on one."""
END_WITHIN_S = 600.0
LOOK_EVERY_S = 0.25


async def acceptance(settings: Settings, *, scripted: bool, as_json: bool, markdown: bool) -> int:
    """Run it; return the exit status: 0, or 1 when a target or criterion is missed or a message got no signal.

    Live providers, if configured, are used and cost money; with ``scripted`` or without a key the scripted server
    answers.

    Raises:
        NewsproofError: a server or a child process does not start, or a message does not end.
    """
    async with _providers(settings, scripted=scripted or settings.mode != "live") as at:
        refuse_unusable(at)
        say(f"Acceptance run: {mode_in_words(at)}.")
        empty(at.newsproof_data_dir)
        async with pipeline(at) as running:
            say(f"Servers run (data in {at.newsproof_data_dir}). Sending the messages.")
            report = await watched(running, _run(running))
    if as_json:
        json_line(report)
    else:
        print_report(report, markdown=markdown)
    met = all(one.met for one in (*report.targets, *report.criteria))
    return exits.OK if met and not report.failed else exits.FINDING


@contextlib.asynccontextmanager
async def _providers(settings: Settings, *, scripted: bool) -> AsyncIterator[Settings]:
    own = {
        **FULL_PIPELINE,
        "newsproof_data_dir": settings.newsproof_data_dir / DIRECTORY,
        "kafka_bootstrap_servers": None,
        "clickhouse_url": None,
        "topic_replication": 1,
        "metrics_port": None,
        "publish_preliminary": False,
        "hot_settings_file": None,
    }
    if not scripted:
        yield settings.model_copy(update=own)
        return
    async with ScriptedServer(latency="realistic") as server:
        yield settings.model_copy(
            update=own
            | {
                "newsproof_mode": "simulated",
                "scripted_model_url": server.url,
                "offline_latency_seconds": SEARCH_MEDIAN_S,
                **{f"tool_{name}_enabled": False for name in ("price", "macro", "onchain")},
            }
        )


async def _run(running: Pipeline) -> AcceptanceReport:
    settings = running.settings
    items = acceptance_news(datetime.now(UTC))
    began = time.monotonic()
    async with clickhouse_of(settings) as tables:
        await _publish(settings, items)
        await _until_ended(tables, {str(item.external_id) for item in items})
        order = {step: place for place, step in enumerate(_flow_order())}
        found: Measured = await measured(tables, order)
    return report_of(mode_in_words(settings), found, verdicts(found), criteria(found), time.monotonic() - began)


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
                for one in sorted((now := await ended(tables)) - seen):
                    say(f"  {one} has ended")
                seen = now
                await asyncio.sleep(LOOK_EVERY_S)
    except TimeoutError as exc:
        raise TransientError(
            f"{', '.join(sorted(wanted - seen))} did not end within {END_WITHIN_S:g} s: look into the worker's log"
        ) from exc


def _flow_order() -> list[str]:
    return list(dict.fromkeys(source for source, _, _ in verification().edges()))
