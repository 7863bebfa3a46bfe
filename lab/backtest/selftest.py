"""The long self-test: records cases with the real runtime, then replays their log with ``newsproof backtest verify``."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from evaluation.replay.verify import verify_log
from infra.kafka.topics import offsets_of, read_range
from infra.settings import Settings
from infra.settings.verification import FULL_PIPELINE
from lab.backtest.generated import generated_news
from newsproof.app import exits
from newsproof.app.composition import address_of, topics_of
from newsproof.app.invocation import Invocation
from newsproof.app.processes.supervisor import Pipeline, pipeline, watched
from newsproof.app.servers import say_on_stderr as say
from newsproof.app.sheet import json_line
from newsproof.cli.measure.backtest import show_verified
from newsproof.sdk.client import checked_news
from schemas.errors import ConfigError, TransientError
from schemas.events import OPENING_NAME, TERMINAL_NAMES
from schemas.news import News
from streams.journal.fold import JournalFold

AT_ONCE = 32
"""Maximum number of open cases. More would only queue for recalls and then report that memory is unavailable."""
QUIET_S = 300.0
SAY_EVERY_S = 20.0


class SelfTest(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a self-test. ``ends``: cases by terminal event; ``events``: records of the journal; times in seconds."""

    cases: int
    identical: int
    calls: int
    misses: int
    seconds: float
    recorded_seconds: float
    kills: int
    events: int
    ends: dict[str, int]
    look_ahead: int
    seed: int


class JournalWatch:
    """Follows the journal incrementally. ``ends`` counts ended cases by terminal event."""

    def __init__(self, settings: Settings) -> None:
        self._address, self._topic = address_of(settings), topics_of(settings).cases
        self._parts: dict[int, JournalFold] = {}
        self._read: dict[int, int] = {}
        self.opened = self.events = 0
        self.ends: Counter[str] = Counter()

    async def look(self) -> None:
        """Read the new records."""
        bounds = await offsets_of(self._address, self._topic)
        fresh = {tp: (self._read.get(tp.partition, first), end) for tp, (first, end) in bounds.items()}
        async for tp, records in read_range(self._address, fresh):
            part = self._parts.setdefault(tp.partition, JournalFold(partitions=len(bounds)))
            for env, _ in part.accept(records):
                self.events += 1
                self.opened += env.type == OPENING_NAME
                if env.type in TERMINAL_NAMES:
                    self.ends[env.type.removeprefix("newsproof.")] += 1
        self._read = {tp.partition: end for tp, (_, end) in bounds.items()}


async def self_test(directory: Path, *, cases: int, seed: int, kills: int) -> SelfTest:
    """Record the cases and verify them.

    Raises:
        NewsproofError: a server does not start, or the journal makes no progress.
    """
    began = time.monotonic()
    async with pipeline(offline_settings(directory, max_open_cases=AT_ONCE)) as running:
        seen = await watched(running, _recorded(running, cases=cases, seed=seed, kills=kills))
    took = time.monotonic() - began
    say(f"{cases:,} cases recorded in {took:.0f} s; deciding them again …")
    invocation = Invocation()
    invocation.data_dir = directory
    verified = await verify_log(invocation, sample=False, file=None, cases=0)
    show_verified(verified)
    return SelfTest(
        cases=verified.cases, identical=verified.identical, calls=verified.calls, misses=verified.misses, seconds=verified.seconds,
        recorded_seconds=round(took, 1), kills=kills, events=seen.events, ends=dict(seen.ends),
        look_ahead=verified.look_ahead, seed=seed,
    )  # fmt: skip


def offline_settings(directory: Path, *, max_open_cases: int) -> Settings:
    """Return settings: embedded servers, offline providers without latency, the deep path for all cases past the gate."""
    return Settings(_env_file=None).model_copy(  # type: ignore[call-arg]
        update={
            **FULL_PIPELINE,
            "newsproof_mode": "offline",
            "newsproof_data_dir": directory,
            "kafka_bootstrap_servers": None,
            "clickhouse_url": None,
            "topic_replication": 1,
            "metrics_port": None,
            "hot_settings_file": None,
            "offline_latency_seconds": 0.0,
            "tool_scrape_enabled": True,
            "max_open_cases": max_open_cases,
            "deep_analysis_tool_daily_limit": 1_000_000,
        }
    )


async def _recorded(running: Pipeline, *, cases: int, seed: int, kills: int) -> JournalWatch:
    """Publish the news, kill the worker ``kills`` times on the way, and wait until every case has ended."""
    await publish(running.settings, generated_news(cases, seed=seed))
    seen, worker = JournalWatch(running.settings), running.services[0]
    due = [cases * (number + 1) // (kills + 1) for number in range(kills)]
    moved, reported, before = time.monotonic(), time.monotonic(), -1
    while (ended := sum(seen.ends.values())) < cases:
        await asyncio.sleep(1.0)
        await seen.look()
        now = time.monotonic()
        if due and ended >= due[0]:
            say(f"killing the worker after {ended:,} cases")
            worker.child.kill()
            due.pop(0)
        moved, before = (now, seen.events) if seen.events != before else (moved, before)
        if now - reported > SAY_EVERY_S:
            say(f"{ended:,} of {cases:,} cases ended, {seen.events:,} events")
            reported = now
        if now - moved > QUIET_S:
            raise TransientError(
                f"no event for {QUIET_S:.0f} s at {ended:,} of {cases:,} cases: {worker.child.log_file}"
            )
    return seen


async def publish(settings: Settings, items: Iterable[News]) -> None:
    """Send these news to the input topic."""
    async with address_of(settings).producer(linger_ms=5) as producer:
        for item in items:
            news, value = checked_news(item, now=datetime.now(UTC))
            await producer.send(topics_of(settings).news, value, key=news.key)
        await producer.flush()


async def tested(directory: Path | None, *, cases: int, seed: int, kills: int) -> int:
    """Run the test in this directory, or in one that is removed; print the result and return the exit status.

    Raises:
        ConfigError: the directory is not empty.
        NewsproofError: as :func:`self_test`.
    """
    _refuse_filled(directory)
    with contextlib.ExitStack() as stack:
        kept = directory or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="newsproof-selftest-")))
        kept.mkdir(parents=True, exist_ok=True)
        result = await self_test(kept, cases=cases, seed=seed, kills=kills)
    json_line(result)
    return exits.OK if result.cases == result.identical == cases and not result.misses else exits.FINDING


def _refuse_filled(directory: Path | None) -> None:
    if directory is not None and directory.exists() and any(directory.iterdir()):
        raise ConfigError(f"{directory} is not empty: name a new directory with --data-dir")
