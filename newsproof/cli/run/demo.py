"""``newsproof demo``: runs 42 real news items through the whole pipeline on its own embedded servers, then reports."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from newsproof.app.invocation import of, run, say_result
from newsproof.app.terminal import command_name
from newsproof.cli.options import commands, json_flag
from newsproof.cli.read.signals import reader_language
from newsproof.cli.run.up import ENDING
from newsproof.sdk.client import checked_news
from schemas.errors import ConfigError
from schemas.news import News
from schemas.topics import Topics
from streams.journal.log import KafkaLog

if TYPE_CHECKING:
    from infra.settings import Settings
    from newsproof.app.processes.supervisor import Pipeline
    from newsproof.report.demo import DemoSummary, LabelFigures
    from streams.audit.audit import AuditReport


app = commands()


@app.command()
def demo(
    ctx: typer.Context,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the pipeline running after the report, until Ctrl-C.")
    ] = False,
    live: Annotated[
        bool, typer.Option("--live", help="Use real models and search, which costs money. Default: offline.")
    ] = False,
    listen: Annotated[
        bool,
        typer.Option(
            "--listen", help="Read the events from a local newsroom instead of publishing them. Takes about a minute."
        ),
    ] = False,
    as_json: Annotated[bool, json_flag("Print one JSON object on the last line instead of tables.")] = False,
) -> None:
    """Send 42 real news items through the whole pipeline on embedded servers, and print a report."""
    if live and listen:
        raise ConfigError("--listen replays past news as of today, which only offline mode can judge: leave out --live")
    settings = of(ctx).settings()
    if listen:
        from newsproof.cli.run.listening_demo import listening_demo

        work = listening_demo(settings, keep=keep, as_json=as_json)
    else:
        work = run_demo(settings, keep=keep, live=live, as_json=as_json)
    raise typer.Exit(run(work, ending=ENDING))


async def run_demo(settings: Settings, *, keep: bool, live: bool, as_json: bool) -> int:
    """Run the demo; return the exit status: 0, or 1 when the audit is not clean.

    Raises:
        NewsproofError: a server or a child process does not start.
    """
    from newsproof.cli.run.demo_pipeline import demo_settings, framed

    return await framed(demo_settings(settings, live=live), _run, keep=keep, as_json=as_json)


async def _run(running: Pipeline, as_json: bool) -> tuple[DemoSummary, bool]:
    from infra.listeners.mark import keys_at_hand
    from infra.offline.sample_news import sample_labels, sample_news
    from newsproof.app.composition import address_of, clickhouse_of, topics_of
    from newsproof.cli.run.demo_pipeline import DemoProgress, Follower, stored
    from newsproof.report.demo import against_labels, print_report
    from streams.audit.audit import audit

    settings = running.settings
    address, topics = address_of(settings), topics_of(settings)
    items = sample_news()
    began = time.monotonic()
    with DemoProgress(len(items)) as progress:
        async with Follower(settings, topics) as follower:
            sending = asyncio.create_task(_publish(settings, topics, items))
            cases = {news.case_id for news in items}
            ends = await follower.until(lambda seen: len(cases - seen.finished), progress.show)
            await sending
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

    return DemoSummary(
        **msgspec.structs.asdict(figures),
        published=published,
        cases=report.cases,
        signals=report.signals,
        dropped=report.dropped,
        degraded=report.degraded,
        dead_letters=report.dead_letters,
        lost=report.lost,
        duplicates=report.duplicate_events + report.duplicate_signals,
        seconds=round(seconds, 2),
    )


async def _publish(settings: Settings, topics: Topics, items: list[News]) -> None:
    from datetime import UTC, datetime

    from newsproof.app.composition import address_of

    producer = address_of(settings).producer(linger_ms=0)
    await producer.start()
    try:
        for item in items:
            news, value = checked_news(item, now=datetime.now(UTC))
            await producer.send_and_wait(topics.news, value, key=news.key)
    finally:
        await producer.stop()


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
