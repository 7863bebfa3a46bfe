"""``newsproof demo --listen``: the listener polls a local newsroom that reports the sample's events."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime

from pydantic import SecretStr

from infra.embedded.child import free_ports
from infra.kafka.topics import offsets_of, read_range
from infra.listeners.mark import keys_at_hand
from infra.offline.newsroom.newsroom import HOOK, PLAYED_S, STORY_S, Newsroom
from infra.settings import Settings
from newsproof.app.composition import address_of, clickhouse_of, topics_of
from newsproof.app.invocation import say_result
from newsproof.app.processes.supervisor import Pipeline
from newsproof.app.servers import say_on_stderr as say
from newsproof.cli.read.signals import reader_language
from newsproof.cli.run.demo_pipeline import (
    DemoJournal,
    DemoProgress,
    Follower,
    command_of,
    demo_settings,
    framed,
    stored,
)
from newsproof.report.audit import print_audit
from newsproof.report.listening import ListenSummary, in_no_case, print_what_came, summary_of
from newsproof.report.signals import print_signals
from schemas.news import News, decode_news
from schemas.topics import Topics
from streams.audit.audit import audit
from streams.journal.log import KafkaLog
from streams.listening.memory import Cursors

SHOWN_FOR_S = 30.0
"""Seconds after the end of the script within which every item must have a case: 20 polls of each source and more."""
WATCHED_FOR_S = 3.0
"""Seconds that it continues in any case. A second case of the last items would be open by then."""
ON_DATES = f"""\
A local newsroom reports the sample's events within {PLAYED_S:g} s, and the listener reads it.
Each item is dated when it is reported, so its case is judged as of now. Each search shifts the dates of the bundled pages: a page keeps
its distance from the sample event. So each event finds the same pages as in the plain demo.
Five years pass in a minute, so one story lasts {STORY_S:g} s: STORY_WINDOW_HOURS={STORY_S / 3600:.4f}."""


async def listening_demo(settings: Settings, *, keep: bool, as_json: bool) -> int:
    """Run the demo; return the exit status: 0, or 1 if an item was lost or has a second case, or the audit is not clean.

    Raises:
        NewsproofError: a server or a child process does not start.
    """
    began = time.monotonic()
    async with Newsroom() as newsroom:
        (port,) = free_ports(1)
        at = demo_settings(settings, live=False).model_copy(
            update={
                "newsproof_mode": "offline",
                "offline_pages_dated_by_event": True,
                "story_window_hours": STORY_S / 3600,
                "listener_sources": None,
                "listener_webhook_host": "127.0.0.1",
                "listener_webhook_port": port,
                "listener_webhook_secret": SecretStr(f"{HOOK}={newsroom.secret}"),
            }
        )
        say(ON_DATES)

        async def run(running: Pipeline, as_json: bool) -> tuple[ListenSummary, bool]:
            return await _run(running, newsroom, began, as_json)

        return await framed(at, run, keep=keep, as_json=as_json, newsroom=newsroom)


async def _run(running: Pipeline, newsroom: Newsroom, began: float, as_json: bool) -> tuple[ListenSummary, bool]:
    settings = running.settings
    address, topics = address_of(settings), topics_of(settings)
    ends = await _played(settings, topics, newsroom)
    async with clickhouse_of(settings) as tables:
        signals = await stored(settings, topics, ends, tables)
    report = await audit(KafkaLog(address), topics, keys=keys_at_hand(settings))
    published = await _news(settings, topics)
    summary = summary_of(newsroom.shown, published, ends.cases, time.monotonic() - began)
    if not as_json:
        told = {(one.source, one.text_hash): one.of for one in newsroom.shown}
        names = {case_id: f"{told.get(one.text, one.external_id)} {one.source}" for case_id, one in ends.cases.items()}
        print_signals(signals, names, language=reader_language(None))
        cursors = await Cursors(address, topics).read()
        print_what_came(summary, published, cursors, ends.cases, signals)
        print_audit(report)
        say_result(
            f"\n{summary.seconds:.1f} s in all. `{command_of(settings)} cases` lists the cases, `… sources` the sources."
        )
    return summary, report.clean and not summary.lost and not summary.second_cases


async def _played(settings: Settings, topics: Topics, newsroom: Newsroom) -> DemoJournal:
    """Play the newsroom's script; return the journal once all of its items had time to be judged."""
    loop = asyncio.get_running_loop()
    playing = asyncio.create_task(newsroom.play(f"http://127.0.0.1:{settings.listener_webhook_port}"))
    ended_at = 0.0

    def left(seen: DemoJournal) -> int:
        nonlocal ended_at
        if not playing.done():
            return newsroom.tellings - len(seen.finished) + 1
        playing.result()
        ended_at = ended_at or loop.time()
        ago = loop.time() - ended_at
        missing = len(in_no_case(newsroom.shown, seen.cases.values())) if ago < SHOWN_FOR_S else 0
        return missing + len(seen.cases) - len(seen.finished) + (ago < WATCHED_FOR_S)

    with DemoProgress(newsroom.tellings) as progress:
        try:
            async with Follower(settings, topics) as follower:
                return await follower.until(left, progress.show)
        finally:
            playing.cancel()


async def _news(settings: Settings, topics: Topics) -> list[News]:
    address, now = address_of(settings), datetime.now(UTC)
    found: list[News] = []
    async for _, records in read_range(address, await offsets_of(address, topics.news)):
        found += [decode_news(one.value, now=now) for one in records]
    return found
