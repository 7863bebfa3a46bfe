"""Components of the web service: feeds from Kafka, ClickHouse as the analyst user, and the current state of both."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable, Iterable
from contextlib import AsyncExitStack
from datetime import datetime
from functools import cache, partial
from math import inf
from typing import Any, TypeVar

import msgspec
import structlog
from aiokafka.errors import KafkaError

from agents.core.registry import Registry
from agents.graphs import RESEARCH, verification
from infra.bots.paper import FillPrices, ImportedPrices
from infra.bots.table import PRICES
from infra.clickhouse.client import ClickHouse
from infra.kafka.topics import members_of
from infra.settings import Settings
from newsproof.app.analysts import analyst_client
from newsproof.app.composition import address_of, mode_in_words, topics_of
from newsproof.app.dead_letters import DeadLetter, DeadLetters, UnmarkedNews
from newsproof.app.processes.bots_view import BotsReader
from newsproof.app.research_composition import investigation_snapshot_of, research_snapshot_of
from newsproof.app.servers import is_embedded_here
from newsproof.app.terminal import command_name
from newsproof.app.version import code_version
from newsproof.app.watches import WatchBook
from newsproof.report.timeline import sentence_of
from newsproof.sdk.verification import Verifier
from newsproof.web.limits import ConnectionLimit, Rates
from newsproof.web.processes import Processes, Vitals, VitalsReader
from newsproof.web.questions import Questions
from schemas import envelope as wire
from schemas.calls import Call, CallKind
from schemas.effects import Failure
from schemas.envelope import Envelope
from schemas.errors import FailureKind, NewsproofError, TransientError
from schemas.events import EffectCompleted
from streams.effects.host import GOES_ON, GUARDED
from streams.feed.case_items import FeedCase
from streams.feed.history import CaseRecords, SignalHistory
from streams.feed.live import LiveFeed
from streams.feed.turns import TurnFeed
from streams.listening.memory import Cursors

log = structlog.get_logger(__name__)

LOOK_EVERY_S = 5.0
ASK_TABLES_S = 3.0
LOOK_FOR_PROCESSES_S = 15.0
PREVIEW_BYTES = 400
DELIVERIES_KEPT = 200
DESIRED_WITHIN_S = 5.0
SQL_AT_ONCE = 2
"""Maximum number of concurrent statements and comparisons. Others wait."""


class Status(Vitals, frozen=True, kw_only=True):
    """Response of `/api/v1/status`. `label` is empty if signals are real; `*_seen`: such a worker exists.

    `open_cases` is None until the recent past is read. `providers`: those that cases have called since then. `command`:
    the command line for this data directory.
    """

    mode: str
    label: str
    version: str
    kafka: str
    clickhouse: str
    workers_seen: bool
    research_seen: bool
    live: bool
    open_cases: int | None
    providers: tuple[ProviderState, ...]
    command: str


class Backend:
    """The components behind the API. :meth:`run` keeps them running until cancelled."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.address, self.topics = address_of(settings), topics_of(settings)
        self.providers = ProviderStates()
        self.feed = LiveFeed(self.address, self.topics, describe=self._progress)
        self.signals = SignalHistory(self.address, self.topics)
        self.cases = CaseRecords(self.address, self.topics.cases)
        self.tables = analyst_client(settings, embedded=is_embedded_here(settings)) if settings.clickhouse_url else None
        self.questions = Questions(
            self.address, self.topics, research_snapshot_of(settings), investigation_snapshot_of(settings)
        )
        self.turns = TurnFeed(
            self.address, self.topics, self.questions.config_of, group=self.topics.group(RESEARCH.name)
        )
        self.verifier = Verifier(self.address, self.topics, self.questions.send)
        self.watches = WatchBook(self.address, self.topics, daily_limit=settings.watch_daily_limit)
        # Analysts may read the imported prices, and this service reads tables as they do.
        prices: dict[str, Callable[[], FillPrices]] = {name: partial(make, settings) for name, make in PRICES.items()}
        prices["imported"] = lambda: ImportedPrices(self.tables)
        self.bots = BotsReader(
            self.address, self.topics, prices, keep=DELIVERIES_KEPT, desired_within_s=DESIRED_WITHIN_S
        )
        self.question_rates = Rates(settings.web_questions_per_minute)
        self.ending = asyncio.Event()
        self.places = ConnectionLimit(settings.web_max_streams, settings.web_max_streams_per_address)
        self.processes = Processes(settings.newsproof_data_dir)
        self.letters = DeadLetters(self.address, self.topics, keep_bytes=PREVIEW_BYTES)
        self.cursors = Cursors(self.address, self.topics)
        self.unmarked = UnmarkedNews(self.address, self.topics)
        self.requeueing = asyncio.Lock()
        self._reading_letters: asyncio.Task[list[DeadLetter]] | None = None
        self.readings, self.asking_sql = Readings(), asyncio.Semaphore(SQL_AT_ONCE)
        self.vitals = VitalsReader(self.address, self.topics)
        self._tables_away = "it was not asked yet"
        self._seen: frozenset[str] = frozenset()
        self._running: asyncio.Task[Any] | None = None

    async def run(self) -> None:
        """Follow the log, and check ClickHouse and the workers, until :meth:`stop`.

        Raises:
            NewsproofError: a component failed; if several failed together, the error of the first.
        """
        self._running = asyncio.current_task()
        try:
            async with AsyncExitStack() as stack:
                if self.tables is not None:
                    await stack.enter_async_context(self.tables)
                async with asyncio.TaskGroup() as group:
                    group.create_task(self.feed.run(), name="live feed")
                    group.create_task(self.questions.run(), name="questions")
                    group.create_task(self.turns.run(), name="turns")
                    group.create_task(self.verifier.follower.run(), name="verifications")
                    group.create_task(self._look(), name="look")
                    group.create_task(self._look_at_processes(), name="look at processes")
        except BaseExceptionGroup as exc:
            raise _first_of(exc) from exc
        finally:
            if self._reading_letters is not None:
                self._reading_letters.cancel()
            self.vitals.stop()
            await self.bots.close()

    def stop(self) -> None:
        if self._running is not None:
            self._running.cancel()

    def _progress(self, case: FeedCase, env: Envelope, event: Any) -> dict[str, Any]:
        self.providers.take(event.calls)
        return case_progress(case, env, event)

    async def _look(self) -> None:
        while True:
            await asyncio.gather(self._look_at_tables(), self._look_for_workers())
            await asyncio.sleep(LOOK_EVERY_S)

    async def _look_at_processes(self) -> None:
        """Record when each process last responded, even while nobody has the page open."""
        while True:
            await self.processes.look()
            await asyncio.sleep(LOOK_FOR_PROCESSES_S)

    async def dead_letters(self) -> list[DeadLetter]:
        """Return the present dead letters. A caller that stops waiting does not stop a reading that others wait for.

        Raises:
            TransientError: Kafka is unavailable.
        """
        if self._reading_letters is not None and not self._reading_letters.done():
            await asyncio.wait({self._reading_letters})  # it began before now, so another one must follow
        if self._reading_letters is None or self._reading_letters.done():
            self._reading_letters = asyncio.create_task(self.letters.read(), name="dead letters")
        try:
            return await asyncio.shield(self._reading_letters)
        except (KafkaError, OSError) as exc:
            raise TransientError(
                "Kafka is not responding, so dead letters cannot be read: try again when it is back", kind="unavailable"
            ) from exc

    async def _look_at_tables(self) -> None:
        if self.tables is None:
            self._tables_away = "CLICKHOUSE_URL is not set"
            return
        try:
            async with asyncio.timeout(ASK_TABLES_S):
                await self.tables.query("SELECT 1")
        except (NewsproofError, TimeoutError) as exc:
            self._tables_away = str(exc) or "it does not respond"
        else:
            self._tables_away = ""

    async def _look_for_workers(self) -> None:
        workers: set[str] = set()
        for name in ("worker", RESEARCH.name):
            try:
                async with asyncio.timeout(LOOK_EVERY_S):
                    if await members_of(self.address, self.topics.group(name)):
                        workers.add(name)
            except (NewsproofError, KafkaError, OSError, TimeoutError):
                continue
        self._seen = frozenset(workers)

    async def status(self) -> Status:
        mode, away = self.settings.mode, self.feed.away
        vitals = Vitals() if away else await self.vitals.read()
        return Status(
            **msgspec.structs.asdict(vitals),
            mode=mode,
            label="" if mode == "live" else mode_in_words(self.settings),
            version=code_version(),
            kafka="away" if away else "ok",
            clickhouse="away" if self._tables_away else "ok",
            workers_seen="worker" in self._seen,
            research_seen=RESEARCH.name in self._seen,
            live=self.feed.ready and not away,
            open_cases=len(self.feed.open_cases()) if self.feed.ready else None,
            providers=self.providers.all(),
            command=command_name(),
        )

    def unready(self) -> dict[str, str]:
        """Return what the service still waits for, with the reason. ClickHouse is not included."""
        waits: dict[str, str] = {}
        if self.feed.away:
            waits["kafka"] = "it does not respond"
        elif not self.feed.ready:
            waits["journal"] = "the recent past is being read"
        return waits

    def reachable_tables(self) -> ClickHouse:
        """Return the ClickHouse client.

        Raises:
            TransientError: ClickHouse does not respond now.
        """
        if self.tables is None or self._tables_away:
            raise TransientError(
                "ClickHouse is not responding, and this page needs its tables: try again when it is back "
                f"({self._tables_away})"
            )
        return self.tables


def _first_of(exc: BaseException) -> BaseException:
    """Return the first single error in a group, which a user can act on."""
    while isinstance(exc, BaseExceptionGroup):
        exc = exc.exceptions[0]
    return exc


MOST_KEPT = 32
T = TypeVar("T")


class Readings:
    """Cached readings by key. Callers that come during a reading wait for it. The latest :data:`MOST_KEPT` are kept."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, _CachedAnswer] = {}

    async def of(self, asked: Hashable, for_s: float, read: Callable[[], Awaitable[T]]) -> T:
        """Return a reading at most ``for_s`` seconds old, else the result of ``read``."""
        reading = self._kept.pop(asked) if asked in self._kept else _CachedAnswer()
        self._kept[asked] = reading
        while len(self._kept) > MOST_KEPT:
            del self._kept[next(iter(self._kept))]
        async with reading.lock:
            if time.monotonic() - reading.at > for_s:
                reading.answer, reading.at = await read(), time.monotonic()
            answer: T = reading.answer
            return answer


class _CachedAnswer:
    def __init__(self) -> None:
        self.lock, self.at = asyncio.Lock(), -inf
        self.answer: Any = None


def case_progress(case: FeedCase, env: wire.Envelope, event: Any) -> dict[str, Any]:
    """Return the ``data`` of one ``case`` event. ``step`` is the next step; it is empty if the case has ended."""
    phase, text, why = sentence_of(event)
    following = _graph().step_after(event) if not isinstance(event, EffectCompleted) else None
    progress = {
        "case_id": case.case_id,
        "status": case.status,
        "step": event.step if isinstance(event, EffectCompleted) else ("" if following is None else following.name),
        "phase": phase,
        "text": text.en,
        "text_zh": text.zh,
        "why": why.en[:500],
        "why_zh": why.zh[:500],
        "at": env.time,
    }
    if case.is_whole:
        progress |= {"news": case.text, "source": case.source, "language": case.language, "asset": case.asset,
                 "event_type": case.event_type, "confidence": case.confidence}  # fmt: skip
    return progress


@cache
def _graph() -> Registry:
    return verification()


class ProviderState(msgspec.Struct, frozen=True, kw_only=True):
    """The latest call of a kind to a provider. ``failing``: it failed in a way after which the next provider is called.

    ``since``: time of the first such failure after the last successful call. Times are UTC.
    """

    kind: CallKind
    provider: str
    at: datetime
    failing: FailureKind | None = None
    since: datetime | None = None


class ProviderStates:
    """Fold of calls, in any order. Cached replies say nothing about a provider."""

    def __init__(self) -> None:
        self._newest: dict[tuple[CallKind, str], ProviderState] = {}

    def take(self, calls: Iterable[Call]) -> None:
        for call in calls:
            before = self._newest.get(key := (call.kind, call.provider))
            if call.kind not in GUARDED or call.cached or (before is not None and call.replied_at < before.at):
                continue
            failing = call.reply.kind if isinstance(call.reply, Failure) and call.reply.kind in GOES_ON else None
            began = before.since if before is not None else None
            self._newest[key] = ProviderState(
                kind=call.kind,
                provider=call.provider,
                at=call.replied_at,
                failing=failing,
                since=None if failing is None else began or call.replied_at,
            )

    def all(self) -> tuple[ProviderState, ...]:
        """Return every provider that was called, by kind and name."""
        return tuple(state for _, state in sorted(self._newest.items()))
