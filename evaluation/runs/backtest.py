"""``newsproof backtest run``: finds the log, surveys it, then estimates the plan or runs its cases concurrently."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, TypeVar

import msgspec

from agents.graphs import verification
from evaluation.compare.code_identity import RunCode, code_change
from evaluation.replay.candidates import ReplayBuilder, with_models
from evaluation.replay.cutoffs import cutoff_of
from evaluation.replay.journal import FileSource, LogSource, Source, Survey, draw_sample, recordings, survey
from evaluation.replay.log_file import LogFile
from evaluation.runs.estimate import Estimate, estimate, identify_code
from evaluation.runs.performer import AsOfMemory, CostLimit, CostLimitReached, Performer, replay_one
from evaluation.runs.plan import RunPlan
from evaluation.runs.run_tables import (
    RunCaseRow,
    RunTables,
    RunTotals,
    call_rows,
    case_row,
    entries_before,
    unreadable_row,
)
from evaluation.runs.topic import CaseReplayed, RunEnded, RunLease, RunProgress, RunTopic
from infra.clickhouse.client import ClickHouse
from infra.embedded.child import DirectoryLock
from infra.ports import Answer, Free, Ports
from infra.settings import Settings
from newsproof.app.composition import clickhouse_of, ports_of
from newsproof.app.data_access import LogAccess
from newsproof.app.invocation import Invocation
from newsproof.app.servers import servers, with_data
from schemas.calls import ProviderMode
from schemas.effects import Failure, FindStory, OpenPart, PublishedReply, StoryReply
from schemas.errors import ConfigError
from schemas.ids import part_id
from schemas.topics import Topics
from streams.journal.gc_thresholds import rarely_collected
from streams.journal.log import KafkaLog
from streams.replay import Recording, ReplayResult

T = TypeVar("T")

SESSION_S = 10.0
"""A killed run can be resumed after this time, from another data directory too."""
AT_ONCE = 16
"""Concurrent cases, and so the maximum of concurrent calls."""


class UnrecordedJournal(Free):
    """Replaces the journal's own ports: a backtest answers such queries from the recording or not at all.

    Only news whose story was not looked up at the time counts as the first report of it. A further claim of a message has
    a case in the recording or none.
    """

    provider = "journal"
    mode: ProviderMode = "offline"

    async def perform(self, effect: Any) -> Answer:
        """Return a failure, since there is no journal to query; for a story, that nobody reported it before. Opens nothing."""
        if isinstance(effect, FindStory):
            return Answer(reply=StoryReply(), cost_usd=Decimal(0))
        if isinstance(effect, OpenPart):
            case_id = part_id(effect.part.first_case, effect.part.asset)
            return Answer(reply=PublishedReply(case_id=case_id), cost_usd=Decimal(0))
        message = f"a backtest cannot query the journal as of that time: {type(effect).__name__}"
        return Answer(reply=Failure(kind="not_configured", message=message, retryable=False), cost_usd=Decimal(0))

    async def close(self) -> None:
        pass


@contextlib.asynccontextmanager
async def log_and_tables(
    invocation: Invocation, *, reads_log: bool = True
) -> AsyncIterator[tuple[LogAccess, ClickHouse]]:
    """Yield the log and ClickHouse with the newest schema, on the configured servers.

    ``reads_log`` False: the cases come from a file, so the data directory may be new.
    """
    from infra.clickhouse.migrate import migrate
    from infra.kafka.topics import KafkaAddress
    from newsproof.app.composition import prepare_topics

    settings = await with_data(invocation.settings(), given=invocation.data_dir_given, must_exist=reads_log)
    async with servers(settings) as running:
        at = running.applied_to(settings)
        if running.embedded_kafka:
            await prepare_topics(at)
        address = KafkaAddress.of(at, at.kafka_bootstrap_servers or "")
        async with clickhouse_of(at) as tables:
            await migrate(tables)
            yield LogAccess(at, address, Topics(at.topic_prefix), bool(running.own)), tables


def model_ports(settings: Settings, tables: ClickHouse) -> Ports:
    """Return the configured adapters; a backtest does not query the journal's own."""
    none = UnrecordedJournal()
    return ports_of(settings, tables, none, concerned=none, story=none, parts=none)


class RunResult(msgspec.Struct, kw_only=True):
    """Result of a run. ``status``: finished, or stopped by ``--max-cost``. ``held`` counts cases already on the topic, ``left`` those that were not run."""

    status: str
    totals: RunTotals
    held: int = 0
    left: int = 0
    about: RunCode = RunCode(run_id="", code=())


class Runner:
    """Runs one plan once. ``on_case`` is called with each row."""

    def __init__(
        self,
        plan: RunPlan,
        source: Source,
        surveyed: Survey,
        builder: ReplayBuilder,
        performer: Performer,
        topic: RunTopic,
        tables: RunTables | None,
        *,
        progress: RunProgress | None = None,
        entries: Mapping[str, list[datetime]] | None = None,
        on_case: Callable[[RunCaseRow], None] = lambda _row: None,
    ) -> None:
        self._plan, self._source, self._surveyed = plan, source, surveyed
        self._builder, self._performer = builder, performer
        self._topic, self._tables = topic, tables
        self._progress = progress or RunProgress()
        self._entries = entries or {}
        self._on_case = on_case
        self._started = self._progress.started_at or datetime.now(UTC)
        self._ran = RunResult(status="finished", totals=RunTotals())

    async def run(self, *, at_once: int = AT_ONCE) -> RunResult:
        """Replay all chosen cases and return the result.

        Raises:
            ConfigError: no call can succeed until a setting is repaired. Calls already paid for are on the topic.
        """
        chosen = frozenset(draw_sample(self._surveyed.ended, self._plan.sample))
        queue: asyncio.Queue[tuple[Recording, int] | None] = asyncio.Queue(maxsize=2 * at_once)
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(at_once):
                    group.create_task(self._work(queue))
                await self._fill(queue, chosen)
                for _ in range(at_once):
                    await queue.put(None)
        except BaseExceptionGroup as failed:
            raise failed.exceptions[0] from None
        self._ran.left = len(chosen) * self._plan.repeat - self._ran.totals.cases - self._ran.totals.left_out
        if self._tables is not None:
            await self._tables.flush()
        return self._ran

    async def _fill(self, queue: asyncio.Queue[tuple[Recording, int] | None], chosen: frozenset[str]) -> None:
        with rarely_collected():
            async for recording in recordings(self._source, chosen.__contains__):
                for repeat in range(self._plan.repeat):
                    await queue.put((recording, repeat))
                if self._ran.status != "finished":
                    return

    async def _work(self, queue: asyncio.Queue[tuple[Recording, int] | None]) -> None:
        while (item := await queue.get()) is not None:
            if self._ran.status != "finished":
                continue  # drain the queue, so that the producer does not block
            try:
                await self._case(*item)
            except CostLimitReached:
                self._ran.status = "stopped"

    async def _case(self, recording: Recording, repeat: int) -> None:
        now = datetime.now(UTC)
        story = self._surveyed.stories.of(recording.case_id)
        if recording.unreadable:
            row = unreadable_row(recording, run_id=self._plan.run_id, repeat=repeat, at=now, story_id=story)
            return await self._ended(row, None)
        replayed = await replay_one(self._builder, recording, self._performer, repeat=repeat)
        if replayed.status == "miss" and self._plan.on_miss == "skip":
            self._ran.totals.left_out += 1
            if self._tables is not None:  # a comparison has to know: what a run could not do may be what it does badly
                row = case_row(replayed, run_id=self._plan.run_id, repeat=repeat, at=now, story_id=story)
                await self._tables.add(row, [], [])
            return None
        self._ran.totals.other_model += sum(
            1
            for used in replayed.used
            if used.execution == "executed" and used.stand_in and used.calls[-1].model != used.stand_in[-1].model
        )
        self._ran.totals.undated += replayed.look_ahead.undated
        self._ran.totals.unknown_cutoffs |= {
            call.model
            for used in replayed.used
            for call in used.calls
            if call.model and call.mode == "live" and cutoff_of(call.model) is None
        }
        early = sum(1 for at in self._entries.get(recording.case_id, ()) if at < replayed.case.as_of)
        seen = replayed.look_ahead
        refused = self._performer.refused_memories.pop(recording.case_id, 0)
        if refused:
            replayed = msgspec.structs.replace(replayed, look_ahead=seen + type(seen)(memory=refused))
        row = case_row(replayed, run_id=self._plan.run_id, repeat=repeat, at=now, story_id=story, refused_prices=early)
        return await self._ended(row, replayed)

    async def _ended(self, row: RunCaseRow, replayed: ReplayResult | None) -> None:
        done_before = (row.case_id, row.repeat) in self._progress.done
        self._ran.held += done_before
        # A case that failed because a provider was unavailable is not final: a resumed run retries it.
        if not done_before and row.status != "failed":
            await self._topic.write(CaseReplayed(row), key=row.case_id)
        if self._tables is not None:
            rows = ([], []) if replayed is None else call_rows(
                replayed, run_id=row.run_id, repeat=row.repeat, started_at=self._started
            )  # fmt: skip
            await self._tables.add(row, *rows)
        self._ran.totals.add(row)
        self._on_case(row)


async def dry_run(
    log: LogAccess, tables: ClickHouse, plan: RunPlan, *, ask_every_step: bool, file: LogFile | None = None
) -> tuple[Estimate, RunCode, frozenset[str]]:
    """Return the estimate of a run, its code, and its cases. ``file`` is a log file to use in place of the journal."""
    source, surveyed = await _surveyed(log, plan, file)
    ports = model_ports(with_models(log.settings, plan.models), tables)
    try:
        estimated = await estimate(plan, source, surveyed, _builder_of(source, plan, ask_every_step), ports)
        return (
            estimated,
            await identify_code(plan, source, surveyed),
            frozenset(draw_sample(surveyed.ended, plan.sample)),
        )
    finally:
        await ports.close()


async def run_plan(
    log: LogAccess,
    tables: ClickHouse,
    plan: RunPlan,
    *,
    max_cost: Decimal | None,
    ask_every_step: bool = False,
    file: LogFile | None = None,
    on_code: Callable[[RunCode], None] = lambda _about: None,
) -> RunResult:
    """Run the plan, or resume it when its topic holds a part already. ``file``: a log file in place of the journal.
    ``on_code`` is called with the code of the run before anything is paid for.

    Raises:
        ConfigError: nothing to replay, the run began with another plan, or another process runs it.
    """
    source, surveyed = await _surveyed(log, plan, file)
    span = _span(surveyed)
    about = await identify_code(plan, source, surveyed)
    on_code(about)
    topic = RunTopic(log.address, log.topics, plan.run_id)
    async with _holding_lease(log, topic, plan.run_id) as lease:
        ports = model_ports(with_models(log.settings, plan.models), tables)
        rows = RunTables(tables)
        progress = await topic.open(plan, replication=log.settings.topic_replication, about=about)
        begun = progress.started_at or datetime.now(UTC)
        cost_limit, memory = CostLimit(max_cost, spent=progress.spent), AsOfMemory(tables, mode=log.settings.mode)
        status, totals = "failed", RunTotals()
        try:
            await rows.write_run(plan, about, "running", totals, span, begun, ended=None)
            runner = Runner(
                plan,
                source,
                surveyed,
                _builder_of(source, plan, ask_every_step),
                Performer(ports, cost_limit, progress, topic, on_miss=plan.on_miss, memory=memory),
                topic,
                rows,
                progress=progress,
                entries=await entries_before(tables),
            )
            ran = await _while_lease_held(lease, runner.run(), plan.run_id)
            status, totals = ran.status, ran.totals
            ran.about = about = msgspec.structs.replace(about, baseline=_is_baseline(plan, ran))
            await topic.write(RunEnded(status, datetime.now(UTC)), key="")
            return ran
        finally:
            with contextlib.suppress(Exception):  # the original error must propagate, not a failure to record it
                await rows.write_run(plan, about, status, totals, span, begun, ended=datetime.now(UTC))
            await topic.close()
            await ports.close()


def _span(surveyed: Survey) -> tuple[datetime, datetime]:
    if not surveyed.ended or surveyed.first is None or surveyed.last is None:
        raise ConfigError(
            f"no case whose news was published in this range has ended ({surveyed.open} are open): check with `newsproof cases`, "
            "and widen --from and --to"
        )
    return surveyed.first, surveyed.last


def _is_baseline(plan: RunPlan, ran: RunResult) -> bool:
    unchanged = not plan.prompts and not plan.models and plan.on_miss != "live" and ran.totals.other_model == 0
    return unchanged and ran.status == "finished"


async def _surveyed(log: LogAccess, plan: RunPlan, file: LogFile | None) -> tuple[Source, Survey]:
    source: Source = FileSource(file) if file is not None else await LogSource.made(KafkaLog(log.address), log.topics)
    return source, await survey(source, since=plan.cases_from, until=plan.cases_to)


def _builder_of(source: Source, plan: RunPlan, ask_every_step: bool) -> ReplayBuilder:
    return ReplayBuilder(verification(), source.snapshots, plan.change, ask_every_step=ask_every_step)


@contextlib.asynccontextmanager
async def _holding_lease(log: LogAccess, topic: RunTopic, run_id: str) -> AsyncIterator[RunLease]:
    """Hold the run exclusively: by a lock on the data directory, which fails at once, and by a lease on the run's
    topic.
    """
    lock = DirectoryLock(log.settings.newsproof_data_dir / "runs" / run_id, what=f"The backtest run {run_id}")
    lock.acquire()
    group = log.topics.group(f"backtest-{run_id}-place")
    lease = RunLease(log.address, topic.name, run_id, group=group, session_s=SESSION_S)
    try:
        await topic.make(log.settings.topic_replication)
        await lease.take_in_time()
        yield lease
    finally:
        await lease.leave()
        lock.release()


async def _while_lease_held(lease: RunLease, work: Coroutine[Any, Any, T], run_id: str) -> T:
    """Run the work while the lease is ours: a process whose lease expired must not pay beside its successor."""
    working, losing = asyncio.create_task(work), asyncio.create_task(lease.lost.wait())
    try:
        await asyncio.wait({working, losing}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ConfigError(f"another process took over the run {run_id}, and continues it; this process ends")
        return working.result()
    finally:
        for task in (working, losing):
            task.cancel()
        await asyncio.gather(working, losing, return_exceptions=True)


class RunSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The line that ``--json`` prints. Costs are USD as text."""

    run_id: str
    status: str
    cases: int
    replayed: int
    missed_cases: int
    failed: int
    refused: int
    left_out: int
    left: int
    executed: int
    reused: int
    missed: int
    cost_usd: str
    avoided_cost_usd: str
    unpriced_calls: int
    look_ahead: int
    after_training_cutoff: int
    undated: int
    unknown_cutoffs: tuple[str, ...]
    code_change: str
    baseline: bool


def summary_of(plan: RunPlan, ran: RunResult) -> RunSummary:
    t, change = ran.totals, code_change(ran.about.recording, ran.about)
    return RunSummary(
        run_id=plan.run_id, status=ran.status, cases=t.cases, replayed=t.replayed, missed_cases=t.missed_cases,
        failed=t.failed, refused=t.refused, left_out=t.left_out, left=ran.left, executed=t.executed, reused=t.reused,
        missed=t.missed, cost_usd=f"{t.cost:f}", avoided_cost_usd=f"{t.avoided:f}", unpriced_calls=t.unpriced_calls,
        look_ahead=t.look_ahead, after_training_cutoff=t.after_cutoff,
        undated=t.undated, unknown_cutoffs=tuple(sorted(t.unknown_cutoffs)),
        code_change="" if change is None else change.text, baseline=ran.about.baseline,
    )  # fmt: skip
