"""``newsproof demo``: runs 42 real news items through the whole pipeline on its own embedded servers, then reports."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec
import orjson

from infra.offline.sample_news import sample_labels, sample_news
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
from newsproof.app.data_dir import refuse_unusable_directory
from newsproof.app.hints import command_name
from newsproof.app.invocation import json_line, say_result
from newsproof.app.processes.supervisor import Pipeline, empty, pipeline, watched
from newsproof.app.servers import DEMO
from newsproof.app.servers import say_on_stderr as say
from newsproof.cli.log.reading import reader_language
from newsproof.cli.progress import DemoProgress, Ends
from newsproof.report.demo import LabelFigures, against_labels, print_report
from newsproof.sdk.client import checked_news
from schemas.errors import TransientError
from schemas.news import News
from schemas.topics import Topics
from streams.audit.audit import AuditReport, audit
from streams.journal.case_reading import read_signals
from streams.journal.fold import JournalFold
from streams.journal.log import KafkaLog

T = TypeVar("T")

END_WITHIN_S = 600.0
TABLES_WITHIN_S = 60.0
_DEFAULT = Settings.model_fields["newsproof_data_dir"].default


class DemoSummary(LabelFigures, frozen=True, kw_only=True):
    """The line that ``--json`` prints. ``seconds`` runs from the first publish to the last table row."""

    published: int
    cases: int
    signals: int
    dropped: int
    degraded: int
    dead_letters: int
    lost: int
    duplicates: int
    seconds: float


async def demo(settings: Settings, *, keep: bool, live: bool, as_json: bool) -> int:
    """Run the demo; return the exit status: 0, or 1 when the audit is not clean.

    Raises:
        NewsproofError: a server or a child process does not start.
    """
    at = _settings(settings, live=live)
    refuse_unusable(at)
    refuse_unusable_directory(at)
    say(f"Newsproof demo: {mode_in_words(at)}.")
    say("Every gated case takes the deep path: PHASE1_ROLLOUT_PERCENTAGE=1.0, DEEP_ANALYSIS_TOOLS_ENABLED=true.")
    empty(at.newsproof_data_dir)
    began = time.monotonic()
    async with pipeline(at) as running:
        say(f"Servers run after {time.monotonic() - began:.1f} s (Kafka, ClickHouse; data in {at.newsproof_data_dir}).")
        summary, report = await watched(running, _run(running, as_json=as_json))
        if as_json:
            json_line(summary)
        if keep:
            say(f"Still running, until Ctrl-C. `{_command(at)} signals --follow` and the other commands find it.")
            await running.watch()
    return exits.OK if report.clean else exits.FINDING


def _settings(settings: Settings, *, live: bool) -> Settings:
    """Force the demo's own servers and directory, and offline mode unless asked, because live costs money."""
    chosen = settings.newsproof_mode if settings.newsproof_mode != "auto" else "offline"
    return settings.model_copy(
        update={
            **FULL_PIPELINE,
            "tool_scrape_enabled": not live and chosen == "offline",  # the bundled corpus has pages to open
            "newsproof_mode": "live" if live else chosen,
            "newsproof_data_dir": settings.newsproof_data_dir / DEMO,
            "kafka_bootstrap_servers": None,
            "clickhouse_url": None,
            "topic_replication": 1,
            "metrics_port": None,
            "publish_preliminary": False,
        }
    )


async def _run(running: Pipeline, *, as_json: bool) -> tuple[DemoSummary, AuditReport]:
    settings = running.settings
    address, topics = address_of(settings), topics_of(settings)
    items = sample_news()
    began = time.monotonic()
    with DemoProgress(len(items)) as progress:
        async with _Follower(settings, topics) as follower:
            sending = asyncio.create_task(_publish(settings, topics, items))
            ends = await follower.until_ended({news.case_id for news in items}, progress.show)
            await sending
    signals = await _all_signals(settings, topics, ends.revisions)
    known = sample_labels()
    labels = {news.case_id: known[str(news.external_id)] for news in items}
    figures = against_labels(labels, signals, ends.searched)
    async with clickhouse_of(settings) as tables:
        await _until(lambda: _counts(tables), (ends.events, len(signals)), "the sink did not fill the tables in time")
        report = await audit(KafkaLog(address), topics)
        if not as_json:
            await print_report(items, signals, report, tables, figures, reader_language(None))
    seconds = time.monotonic() - began
    if not as_json:
        _where_to_look(settings, seconds)
    return _summary(len(items), report, figures, seconds), report


def _summary(published: int, report: AuditReport, figures: LabelFigures, seconds: float) -> DemoSummary:
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

    producer = address_of(settings).producer(linger_ms=0)
    await producer.start()
    try:
        for item in items:
            news, value = checked_news(item, now=datetime.now(UTC))
            await producer.send_and_wait(topics.news, value, key=news.key)
    finally:
        await producer.stop()


class _Follower:
    """Reads the journal from its start as it grows."""

    def __init__(self, settings: Settings, topics: Topics) -> None:
        self._topic = topics.cases
        self._partitions = settings.topic_partitions
        self._consumer = address_of(settings).consumer(fetch_max_wait_ms=100)

    async def __aenter__(self) -> _Follower:
        from aiokafka import TopicPartition

        await self._consumer.start()
        self._parts = {TopicPartition(self._topic, n): JournalFold() for n in range(self._partitions)}
        self._consumer.assign(list(self._parts))
        await self._consumer.seek_to_beginning()
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self._consumer.stop()

    async def until_ended(self, cases: set[str], show: Callable[[Ends], None]) -> Ends:
        """Return when all of the cases have ended.

        Raises:
            TransientError: they have not ended within ``END_WITHIN_S``.
        """
        from schemas.events import (
            OPENING_NAME,
            TERMINAL_NAMES,
            WIRE_NAMES,
            RetractionFound,
            SearchCompleted,
            SignalSynthesized,
        )

        left, seen = set(cases), Ends()
        try:
            async with asyncio.timeout(END_WITHIN_S):
                while left:
                    for tp, records in (await self._consumer.getmany(timeout_ms=200)).items():
                        for env, record in self._parts[tp].accept(records):
                            seen.events += 1
                            seen.opened += env.type == OPENING_NAME
                            if env.type == WIRE_NAMES[SignalSynthesized]:
                                seen.signals += 1
                                seen.signalled.add(env.case_id)
                            elif env.type == WIRE_NAMES[RetractionFound]:
                                seen.withdrawn.add(orjson.loads(record.value)["of_case"])
                            elif env.type == WIRE_NAMES[SearchCompleted] and _was_answered(record.value):
                                seen.searched.add(env.case_id)
                            if env.type in TERMINAL_NAMES:
                                seen.ended += 1
                                left.discard(env.case_id)
                    show(seen)
        except TimeoutError as exc:
            raise TransientError(
                f"{len(left)} cases have not ended within {END_WITHIN_S:g} s: look into the worker's log"
            ) from exc
        return seen


def _was_answered(search: bytes) -> bool:
    return any(one.get("failure") is None for one in orjson.loads(search)["outcomes"])


async def _all_signals(settings: Settings, topics: Topics, count: int) -> list[Any]:
    signals: list[Any] = []

    async def published() -> int:
        signals[:] = [signal for signal, _ in await read_signals(KafkaLog(address_of(settings)), topics)]
        return len(signals)

    await _until(published, count, "not every signal was published in time; look into the worker's log")
    return signals


async def _counts(tables: Any) -> tuple[int, int]:
    found = await tables.query("SELECT (SELECT count() FROM events FINAL), (SELECT count() FROM signals FINAL)")
    return found.rows[0]  # type: ignore[no-any-return]


async def _until(look: Callable[[], Awaitable[T]], wanted: T, otherwise: str) -> None:
    """Poll ``look`` until it returns ``wanted``; raise TransientError after ``TABLES_WITHIN_S``."""
    try:
        async with asyncio.timeout(TABLES_WITHIN_S):
            while await look() != wanted:  # noqa: ASYNC110 - another process's progress: there is nothing to wait on
                await asyncio.sleep(0.1)
    except TimeoutError as exc:
        raise TransientError(f"{otherwise} (within {TABLES_WITHIN_S:g} s)") from exc


def _command(settings: Settings) -> str:
    """Return the command that reads the demo's log: in the default directory it finds it by itself."""
    directory = settings.newsproof_data_dir
    return command_name() if directory == _DEFAULT / DEMO else command_name(directory)


def _where_to_look(settings: Settings, seconds: float) -> None:
    command = _command(settings)
    say_result(f"\n{seconds:.1f} s from the first publish to the last table. Where to look next:")
    for arguments, shows in (
        ("case h09", "one item's whole story (h01 … h42)"),
        ("cases", "all of them; so does `signals`"),
        ("audit", "what the log promises, checked again"),
        ('sql "SHOW TABLES"', "every table and v_* view"),
    ):
        say_result(f"  {command} {arguments:<18} {shows}")
    say_result(f"  {command_name()} {'up':<18} the same pipeline for your own news")
    say_result(f"What worker and sink said: {settings.newsproof_data_dir / 'logs'}")
