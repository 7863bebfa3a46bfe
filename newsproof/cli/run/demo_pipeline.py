"""The demo's own pipeline: its settings, its start and end, and the progress of its cases."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import orjson

from infra.clickhouse.client import ClickHouse
from infra.kafka.topics import committed_by
from infra.offline.newsroom.newsroom import Newsroom
from infra.offline.sample_news import SAMPLE_NEWS
from infra.settings import Settings
from infra.settings.verification import FULL_PIPELINE
from newsproof.app import exits
from newsproof.app.composition import address_of, mode_in_words, refuse_unusable
from newsproof.app.data_dir import refuse_unusable_directory
from newsproof.app.processes.supervisor import Pipeline, empty, pipeline, watched
from newsproof.app.servers import DEMO
from newsproof.app.servers import say_on_stderr as say
from newsproof.app.sheet import json_line
from newsproof.app.terminal import command_name
from newsproof.report.demo import OpenedCase
from schemas.errors import TransientError
from schemas.events import BY_WIRE_NAME, TERMINAL_NAMES, CaseDropped, EventReceived, SearchCompleted, SignalSynthesized
from schemas.ids import text_hash
from schemas.printable import counted
from schemas.signals import Signal
from schemas.topics import Topics
from streams.journal.case_reading import read_signals
from streams.journal.fold import JournalFold
from streams.journal.log import KafkaLog

END_WITHIN_S = 600.0
TABLES_WITHIN_S = 60.0


async def framed(
    at: Settings,
    run: Callable[[Pipeline, bool], Coroutine[Any, Any, tuple[Any, bool]]],
    *,
    keep: bool,
    as_json: bool,
    newsroom: Newsroom | None = None,
) -> int:
    """Start the pipeline in an empty directory, with a listener if there is a ``newsroom``; call ``run``, then stop it.

    ``run`` gets the pipeline and ``as_json``, and returns the summary for ``--json`` and whether all is well.
    """
    refuse_unusable(at)
    refuse_unusable_directory(at)
    say(f"Newsproof demo: {mode_in_words(at)}.")
    say("All gated cases take the deep path: PHASE1_ROLLOUT_PERCENTAGE=1.0, DEEP_ANALYSIS_TOOLS_ENABLED=true.")
    if newsroom is None:
        say(f"The demo's own news counts as listed: TRUSTED_SOURCES={at.trusted_sources}.")
    empty(at.newsproof_data_dir)
    began = time.monotonic()
    with listed(newsroom, at.newsproof_data_dir) as sources:
        async with pipeline(at, sources=sources) as running:
            say(f"Kafka and ClickHouse started in {time.monotonic() - began:.1f} s. Data: {at.newsproof_data_dir}")
            summary, is_well = await watched(running, run(running, as_json))
            if as_json:
                json_line(summary)
            if keep:
                say(
                    f"The pipeline keeps running until Ctrl-C. To read its signals: `{command_of(at)} signals --follow`."
                )
                await running.watch()
    return exits.OK if is_well else exits.FINDING


@contextmanager
def listed(newsroom: Newsroom | None, directory: Path) -> Iterator[Sequence[str]]:
    """For the block, write the newsroom's sources where this data directory's commands read them; yield their ids."""
    if newsroom is None:
        yield ()
        return
    file = directory / "sources.toml"
    file.write_text(newsroom.rows, "utf-8")
    try:
        yield newsroom.sources
    finally:
        file.unlink()


def demo_settings(settings: Settings, *, live: bool) -> Settings:
    """Return settings with the demo's own servers and directory, offline unless ``live`` (which costs money)."""
    chosen = settings.newsproof_mode if settings.newsproof_mode != "auto" else "offline"
    return settings.model_copy(
        update={
            **FULL_PIPELINE,
            "trusted_sources": SAMPLE_NEWS,
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


class Follower:
    """Reads the journal from its start as it grows. What it has seen stays between two calls of :meth:`until`."""

    def __init__(self, settings: Settings, topics: Topics) -> None:
        self._topic = topics.cases
        self._partitions = settings.topic_partitions
        self._consumer = address_of(settings).consumer(fetch_max_wait_ms=100)
        self._seen = DemoJournal()

    async def __aenter__(self) -> Follower:
        from aiokafka import TopicPartition

        await self._consumer.start()
        self._parts = {TopicPartition(self._topic, n): JournalFold() for n in range(self._partitions)}
        self._consumer.assign(list(self._parts))
        await self._consumer.seek_to_beginning()
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self._consumer.stop()

    async def until(self, left: Callable[[DemoJournal], int], show: Callable[[DemoJournal], None]) -> DemoJournal:
        """Return once ``left`` counts no open cases.

        Raises:
            TransientError: some are still open after ``END_WITHIN_S``.
        """
        seen = self._seen
        try:
            async with asyncio.timeout(END_WITHIN_S):
                while left(seen):
                    for tp, records in (await self._consumer.getmany(timeout_ms=200)).items():
                        for env, record in self._parts[tp].accept(records):
                            seen.add(env.type, env.case_id, record.value)
                    show(seen)
        except TimeoutError as exc:
            raise TransientError(
                f"{left(seen)} cases did not end within {END_WITHIN_S:g} s: check the worker's log"
            ) from exc
        seen.marks = {tp: mark for tp, fold in self._parts.items() if (mark := fold.accepted.watermark)}
        return seen


async def stored(settings: Settings, topics: Topics, ends: DemoJournal, tables: ClickHouse) -> list[Signal]:
    """Return all published signals, once publisher and sink have processed the journal up to ``ends``.

    Raises:
        TransientError: publisher or sink takes longer than ``TABLES_WITHIN_S``.
    """
    address, group = address_of(settings), topics.group("publisher")
    signals: list[Signal] = []

    async def is_published() -> bool:
        passed = await committed_by(address, group)
        return all(tp in passed and passed[tp].offset >= mark for tp, mark in ends.marks.items())

    async def is_stored() -> bool:
        signals[:] = [signal for signal, _ in await read_signals(KafkaLog(address), topics)]
        counts = await tables.query("SELECT (SELECT count() FROM events FINAL), (SELECT count() FROM signals FINAL)")
        return len(signals) >= ends.signals and counts.rows[0] == (ends.events, len(signals))

    await _until(is_published, "not every signal was published in time: check the worker's log")
    await _until(is_stored, "the sink did not fill the tables in time: check its log")
    return signals


async def _until(look: Callable[[], Awaitable[bool]], otherwise: str) -> None:
    """Wait until ``look`` returns True; raise TransientError after ``TABLES_WITHIN_S``."""
    try:
        async with asyncio.timeout(TABLES_WITHIN_S):
            while not await look():  # noqa: ASYNC110 - another process's progress: there is nothing to wait on
                await asyncio.sleep(0.1)
    except TimeoutError as exc:
        raise TransientError(f"{otherwise} (within {TABLES_WITHIN_S:g} s)") from exc


def command_of(settings: Settings) -> str:
    """Return the command that reads the demo's log. In the default directory, it needs no ``--data-dir``."""
    directory = settings.newsproof_data_dir
    default = Settings.model_fields["newsproof_data_dir"].default
    return command_name() if directory == default / DEMO else command_name(directory)


LINE_EVERY_S = 3.0


class DemoJournal(msgspec.Struct):
    """The demo's journal so far. ``finished``: cases that have ended; ``searched``: those for which a provider responded.

    ``marks``: partition → the offset that a publisher commits once it has published everything.
    """

    events: int = 0
    signals: int = 0
    cases: dict[str, OpenedCase] = {}
    finished: set[str] = set()
    searched: set[str] = set()
    marks: dict[Any, int] = {}

    def add(self, name: str, case_id: str, value: bytes) -> None:
        """Count one accepted event. ``name``: its wire name."""
        self.events += 1
        kind = BY_WIRE_NAME.get(name)
        if kind is EventReceived:
            news = orjson.loads(value)["news"]
            self.cases[case_id] = OpenedCase(news["source"], news.get("external_id", ""), text_hash(news["text"]))
        elif kind is SignalSynthesized:
            self.signals += 1
        elif kind is SearchCompleted:
            if any(outcome.get("failure") is None for outcome in orjson.loads(value)["outcomes"]):
                self.searched.add(case_id)
        elif kind is CaseDropped and case_id in self.cases:  # a second look is not a news item's case
            dropped = orjson.loads(value)
            self.cases[case_id].reason = dropped["reason"]
            self.cases[case_id].told_before = dropped.get("duplicate_of") or ""
        if name in TERMINAL_NAMES and case_id in self.cases:
            self.finished.add(case_id)


class DemoProgress:
    """Progress on standard error: a bar on a terminal, else a line every few seconds. Use as a context manager."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._bar: Any = None
        self._task: Any = None
        self._said_at = time.monotonic()

    def __enter__(self) -> DemoProgress:
        if sys.stderr.isatty():
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            from newsproof.app.console import Console

            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.completed}/{task.total}"),
                TimeElapsedColumn(),
                console=Console(error=True),
                # Redirected prints would be parsed for colours and links, and nothing else prints meanwhile.
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._bar.start()
            self._task = self._bar.add_task("cases", total=self._total)
        return self

    def __exit__(self, *_exc: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show(self, seen: DemoJournal) -> None:
        text = f"{counted(len(seen.cases), 'case')} opened, {counted(seen.events, 'event')}, {counted(seen.signals, 'signal')}"
        if self._bar is not None:
            self._bar.update(self._task, completed=len(seen.finished), description=text)
        elif len(seen.finished) >= self._total or time.monotonic() - self._said_at > LINE_EVERY_S:
            self._said_at = time.monotonic()
            print(f"{text}, {len(seen.finished)} of {self._total} ended", file=sys.stderr, flush=True)
