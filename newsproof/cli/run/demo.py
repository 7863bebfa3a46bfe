"""``newsproof demo``: runs 42 real news items through the whole pipeline on its own embedded servers, then reports.

With ``--listen``, a local newsroom reports them, and the listener polls it.
"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from newsproof.app.invocation import of, run
from newsproof.app.servers import say_on_stderr as say
from newsproof.app.sheet import say_result
from newsproof.app.terminal import command_name
from newsproof.cli.options import commands, json_flag, option
from newsproof.cli.read.signals import reader_language
from newsproof.cli.run.up import ENDING
from newsproof.sdk.client import checked_news
from schemas.errors import ConfigError
from schemas.news import News, decode_news
from schemas.topics import Topics
from streams.journal.log import KafkaLog

if TYPE_CHECKING:
    from infra.offline.newsroom.newsroom import Newsroom
    from infra.settings import Settings
    from newsproof.app.processes.supervisor import Pipeline
    from newsproof.cli.run.demo_pipeline import DemoJournal
    from newsproof.report.demo import DemoSummary, LabelFigures, ListenSummary
    from streams.audit.audit import AuditReport

app = commands()


@app.command()
def demo(
    ctx: typer.Context,
    keep: Annotated[bool, option("Keep the pipeline running after the report, until Ctrl-C.", "--keep")] = False,
    live: Annotated[bool, option("Use real models and search, which costs money. Default: offline.", "--live")] = False,
    listen: Annotated[
        bool,
        option("Read the events from a local newsroom instead of publishing them. Takes about a minute.", "--listen"),
    ] = False,
    as_json: Annotated[bool, json_flag("Print one JSON object on the last line instead of tables.")] = False,
) -> None:
    """Send 42 real news items through the whole pipeline on embedded servers, and print a report."""
    if live and listen:
        raise ConfigError("--listen replays past news as of today, which only offline mode can judge: leave out --live")
    settings = of(ctx).settings()
    demo_of = listening_demo if listen else partial(run_demo, live=live)
    raise typer.Exit(run(demo_of(settings, keep=keep, as_json=as_json), ending=ENDING))


async def run_demo(settings: Settings, *, keep: bool, live: bool, as_json: bool) -> int:
    """Run the demo; return the exit status: 0, or 1 if the audit is not clean.

    Raises:
        NewsproofError: a server or a child process does not start.
    """
    from newsproof.cli.run.demo_pipeline import demo_settings, framed

    return await framed(demo_settings(settings, live=live), _run, keep=keep, as_json=as_json)


async def _run(running: Pipeline, as_json: bool) -> tuple[DemoSummary, bool]:
    from infra.listeners.mark import keys_at_hand
    from infra.offline.sample_news import sample_labels, sample_news
    from newsproof.app.composition import address_of, clickhouse_of, topics_of
    from newsproof.cli.run.demo_pipeline import stored
    from newsproof.report.demo import against_labels, print_report
    from streams.audit.audit import audit

    settings = running.settings
    address, topics = address_of(settings), topics_of(settings)
    items = sample_news()
    began = time.monotonic()
    ends = await judged(settings, items)
    known = sample_labels()
    labels = {news.case_id: known[str(news.external_id)] for news in items}
    async with clickhouse_of(settings) as tables:
        signals = await stored(settings, topics, ends, tables)
        figures = against_labels(labels, signals, ends.searched)
        report = await audit(KafkaLog(address), topics, keys=keys_at_hand(settings))
        if not as_json:
            await print_report(items, signals, report, tables, figures, reader_language(None))
    seconds = time.monotonic() - began
    if not as_json:
        _where_to_look(settings, seconds)
    return _summary(len(items), report, figures, seconds), report.clean


def _summary(published: int, report: AuditReport, figures: LabelFigures, seconds: float) -> DemoSummary:
    from newsproof.report.demo import DemoSummary

    names = ("cases", "signals", "dropped", "degraded", "dead_letters", "lost")
    return DemoSummary(
        **msgspec.structs.asdict(figures),
        **{name: getattr(report, name) for name in names},
        published=published,
        duplicates=report.duplicate_events + report.duplicate_signals,
        seconds=round(seconds, 2),
    )


async def judged(settings: Settings, items: list[News]) -> DemoJournal:
    """Publish these items; return the journal once all of their cases have ended."""
    from newsproof.app.composition import topics_of
    from newsproof.cli.run.demo_pipeline import DemoProgress, Follower

    topics, cases = topics_of(settings), {news.case_id for news in items}
    with DemoProgress(len(items)) as progress:
        async with Follower(settings, topics) as follower:
            sending = asyncio.create_task(_publish(settings, topics, items))
            ends = await follower.until(lambda seen: len(cases - seen.finished), progress.show)
            await sending
    return ends


async def _publish(settings: Settings, topics: Topics, items: list[News]) -> None:
    from newsproof.app.composition import address_of

    async with address_of(settings).producer(linger_ms=0) as producer:
        for item in items:
            news, value = checked_news(item, now=datetime.now(UTC))
            await producer.send_and_wait(topics.news, value, key=news.key)


def _where_to_look(settings: Settings, seconds: float) -> None:
    from newsproof.cli.run.demo_pipeline import command_of

    command = command_of(settings)
    say_result(f"\n{seconds:.1f} s from the first publish to the last table. Next steps:")
    for arguments, shows in (
        ("case h09", "timeline of one case (h01 … h42)"),
        ("cases", "all cases; `signals` lists the signals"),
        ("audit", "check the log for lost, duplicate and forged records"),
        ('sql "SHOW TABLES"', "list all tables and v_* views"),
    ):
        say_result(f"  {command} {arguments:<18} {shows}")
    say_result(f"  {command_name()} {'up':<18} run the pipeline for your own news")
    say_result(f"Logs of worker and sink: {settings.newsproof_data_dir / 'logs'}")


SHOWN_FOR_S = 30.0
"""Seconds after the end of the script within which every item must have a case: more than 20 polls of each source."""
WATCHED_FOR_S = 3.0
"""Seconds for which it always continues. A second case of the last items would be open by then."""


async def listening_demo(settings: Settings, *, keep: bool, as_json: bool) -> int:
    """Run the demo; return the exit status: 0, or 1 if an item was lost or has a second case, or the audit is not clean.

    Raises:
        NewsproofError: a server or a child process does not start.
    """
    from pydantic import SecretStr

    from infra.embedded.child import free_ports
    from infra.offline.newsroom.newsroom import HOOK, PLAYED_S, STORY_S, Newsroom
    from newsproof.cli.run.demo_pipeline import demo_settings, framed

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
        say(
            f"A local newsroom reports the sample's events within {PLAYED_S:g} s, and the listener reads it.\n"
            f"Each item is dated when it is reported, so its case is judged as of now. Each search shifts the dates of the bundled pages: a page keeps\n"
            f"its distance from the sample event. So each event finds the same pages as in the plain demo.\n"
            f"Five years pass in a minute, so one story lasts {STORY_S:g} s: STORY_WINDOW_HOURS={STORY_S / 3600:.4f}."
        )

        async def run(running: Pipeline, as_json: bool) -> tuple[ListenSummary, bool]:
            return await _run_listening(running, newsroom, began, as_json)

        return await framed(at, run, keep=keep, as_json=as_json, newsroom=newsroom)


async def _run_listening(
    running: Pipeline, newsroom: Newsroom, began: float, as_json: bool
) -> tuple[ListenSummary, bool]:
    from infra.listeners.mark import keys_at_hand
    from newsproof.app.composition import address_of, clickhouse_of, topics_of
    from newsproof.cli.run.demo_pipeline import command_of, stored
    from newsproof.report.audit import print_audit
    from newsproof.report.demo import print_what_came, summary_of
    from newsproof.report.signals import print_signals
    from streams.audit.audit import audit
    from streams.listening.memory import Cursors

    settings = running.settings
    address, topics = address_of(settings), topics_of(settings)
    ends = await _played(settings, topics, newsroom)
    async with clickhouse_of(settings) as tables:
        signals = await stored(settings, topics, ends, tables)
    report = await audit(KafkaLog(address), topics, keys=keys_at_hand(settings))
    published = await _news(settings, topics)
    summary = summary_of(newsroom.shown, published, ends.cases, time.monotonic() - began)
    if not as_json:
        events = {(shown.source, shown.text_hash): shown.of for shown in newsroom.shown}
        names = {
            case_id: f"{events.get(case.text, case.external_id)} {case.source}" for case_id, case in ends.cases.items()
        }
        print_signals(signals, names, language=reader_language(None))
        cursors = await Cursors(address, topics).read()
        print_what_came(summary, published, cursors, ends.cases, signals)
        print_audit(report)
        say_result(
            f"\n{summary.seconds:.1f} s in all. `{command_of(settings)} cases` lists the cases, `… sources` the sources."
        )
    return summary, report.clean and not summary.lost and not summary.second_cases


async def _played(settings: Settings, topics: Topics, newsroom: Newsroom) -> DemoJournal:
    """Play the newsroom's script; return the journal once all of its items have had time to be judged."""
    from newsproof.cli.run.demo_pipeline import DemoProgress, Follower
    from newsproof.report.demo import in_no_case

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
    from infra.kafka.topics import offsets_of, read_range
    from newsproof.app.composition import address_of

    address, now = address_of(settings), datetime.now(UTC)
    items: list[News] = []
    async for _, records in read_range(address, await offsets_of(address, topics.news)):
        items += [decode_news(record.value, now=now) for record in records]
    return items
