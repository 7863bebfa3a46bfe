"""``newsproof backtest run``: finds the log, surveys it, then estimates or runs the plan."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, TypeVar

import msgspec

from agents.graphs import verification
from evaluation.backtest.deciding import Deciding
from evaluation.backtest.journal import FileSource, LogSource, Source, Survey, drawn, survey
from evaluation.backtest.memory import AsOfMemory
from evaluation.backtest.models import with_models
from evaluation.backtest.questions import questions, recorded_code
from evaluation.backtest.run.cost_limit import CostLimit
from evaluation.backtest.run.estimate import Estimate, estimate
from evaluation.backtest.run.lease import RunLease
from evaluation.backtest.run.performer import Performer
from evaluation.backtest.run.plan import RunPlan, trial_of
from evaluation.backtest.run.runner import Ran, Runner
from evaluation.backtest.run.tables import RunTables, Totals, entries_before
from evaluation.backtest.run.topic import RunEnded, RunTopic
from evaluation.backtest.sample import LogFile
from evaluation.compare.code_identity import RunCode, code_change, declarations_of
from evaluation.compare.run_records import TrialLog, write_trial
from infra.clickhouse.client import ClickHouse
from infra.embedded.child import DirectoryLock
from infra.ports import Answer, Free, Ports
from infra.settings import Settings
from newsproof.app.composition import clickhouse_of, ports_of
from newsproof.app.data_access import LogAccess
from newsproof.app.invocation import Invocation
from newsproof.app.servers import servers, with_data
from schemas.calls import ProviderMode
from schemas.effects import Failure, FindStory, StoryReply
from schemas.errors import ConfigError
from schemas.topics import Topics
from streams.journal.log import KafkaLog

T = TypeVar("T")

SESSION_S = 10.0
"""A killed run can be resumed after this time, from another data directory too."""


class Unasked(Free):
    """Replaces the journal's own ports: a backtest answers such queries from the recording or not at all.

    Only a telling whose story was not looked for then is taken for the first one of it.
    """

    provider = "journal"
    mode: ProviderMode = "offline"

    async def perform(self, effect: Any) -> Answer:
        """Return a failure: there is no journal to query; for a story, that nobody told it before."""
        if isinstance(effect, FindStory):
            return Answer(reply=StoryReply(), cost_usd=Decimal(0))
        said = f"a backtest cannot ask the journal of then: {type(effect).__name__}"
        return Answer(reply=Failure(kind="not_configured", message=said, retryable=False), cost_usd=Decimal(0))

    async def close(self) -> None:
        pass


@contextlib.asynccontextmanager
async def log_and_tables(invocation: Invocation) -> AsyncIterator[tuple[LogAccess, ClickHouse]]:
    """Yield the log and ClickHouse with the newest schema, on the configured servers."""
    from infra.clickhouse.migrate import migrate
    from infra.kafka.topics import KafkaAddress
    from newsproof.app.processes.supervisor import prepare_topics

    settings = await with_data(invocation.settings(), given=invocation.data_dir_given)
    async with servers(settings) as found:
        at = found.applied_to(settings)
        if found.embedded_kafka:
            await prepare_topics(at)
        address = KafkaAddress.of(at, at.kafka_bootstrap_servers or "")
        async with clickhouse_of(at) as tables:
            await migrate(tables)
            yield LogAccess(at, address, Topics(at.topic_prefix), bool(found.own)), tables


def model_ports(settings: Settings, tables: ClickHouse) -> Ports:
    """Return the configured adapters; a backtest does not query the journal's own."""
    return ports_of(settings, tables, Unasked(), Unasked(), Unasked())


async def dry_run(
    log: LogAccess, tables: ClickHouse, plan: RunPlan, *, ask_every_step: bool, file: LogFile | None = None
) -> tuple[Estimate, RunCode, frozenset[str]]:
    """Return the estimate of a run, its code, and its cases. ``file`` is a log file to use in place of the journal."""
    source, surveyed = await _surveyed(log, plan, file)
    ports = model_ports(with_models(log.settings, plan.models), tables)
    try:
        found = await estimate(plan, source, surveyed, _deciding(source, plan, ask_every_step), ports)
        return found, await about_run(plan, source, surveyed), frozenset(drawn(surveyed.ended, plan.sample))
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
    on_about: Callable[[RunCode], None] = lambda _about: None,
) -> Ran:
    """Run the plan, or resume it when its topic holds a part already. ``file``: a log file in place of the journal.
    ``on_about`` is called with the code of the run before anything is paid for.

    The run is in the ledger of trials before its first case is decided.

    Raises:
        ConfigError: nothing to replay, the run began with another plan, or another process runs it.
    """
    source, surveyed = await _surveyed(log, plan, file)
    span = _span(surveyed)
    about = await about_run(plan, source, surveyed)
    on_about(about)
    topic = RunTopic(log.address, log.topics, plan.run_id)
    async with _holding_lease(log, topic, plan.run_id) as lease:
        ports = model_ports(with_models(log.settings, plan.models), tables)
        rows = RunTables(tables)
        held = await topic.open(plan, replication=log.settings.topic_replication, about=about)
        begun = held.started_at or datetime.now(UTC)
        cost_limit, memory = CostLimit(max_cost, spent=held.spent), AsOfMemory(tables, mode=log.settings.mode)
        status, totals = "failed", Totals()
        try:
            await write_trial(
                tables, trial_of(plan, log=_log_of(file), cases=len(surveyed.ended), span=span, started_at=begun)
            )
            await rows.run(plan, about, "running", totals, span, begun, ended=None)
            runner = Runner(
                plan,
                source,
                surveyed,
                _deciding(source, plan, ask_every_step),
                Performer(ports, cost_limit, held, topic, on_miss=plan.on_miss, memory=memory),
                topic,
                rows,
                held=held,
                entries=await entries_before(tables),
            )
            ran = await _while_lease_held(lease, runner.run(), plan.run_id)
            status, totals = ran.status, ran.totals
            ran.about = about = msgspec.structs.replace(about, baseline=_is_baseline(plan, ran))
            await topic.write(RunEnded(status, datetime.now(UTC)), key="")
            return ran
        finally:
            with contextlib.suppress(Exception):  # the original error must propagate, not a failure to record it
                await rows.run(plan, about, status, totals, span, begun, ended=datetime.now(UTC))
            await topic.close()
            await ports.close()


def _span(surveyed: Survey) -> tuple[datetime, datetime]:
    if not surveyed.ended or surveyed.first is None or surveyed.last is None:
        raise ConfigError(
            f"no case of the journal has ended in this range ({surveyed.open} are open): look with `newsproof cases`, "
            "and widen --from and --to"
        )
    return surveyed.first, surveyed.last


def _log_of(file: LogFile | None) -> TrialLog:
    return "journal" if file is None else "sample"


async def about_run(plan: RunPlan, source: Source, surveyed: Survey) -> RunCode:
    """Return by which code a plan is run, and by which its cases were recorded; looks at their questions if that is another."""
    registry = verification()
    recorded = recorded_code(source.snapshots, surveyed.config_hashes)
    newest = source.snapshots.get(surveyed.config_hashes[-1]) if surveyed.config_hashes else None
    prompts = {**(newest.prompts if newest is not None else {}), **plan.prompts}
    same = recorded == (plan.code_version,)
    asked, cases = ({}, 0) if same else await questions(source, drawn(surveyed.ended, plan.sample), registry)
    return RunCode(
        run_id=plan.run_id,
        code=(plan.code_version,),
        recorded_code=recorded,
        declarations=declarations_of(registry, prompts),
        questions=asked,
        looked_at=cases,
        changed_prompts=(*plan.prompts, *plan.models),
    )


def _is_baseline(plan: RunPlan, ran: Ran) -> bool:
    unchanged = not plan.prompts and not plan.models and plan.on_miss != "live" and ran.totals.other_model == 0
    return unchanged and ran.status == "finished"


async def _surveyed(log: LogAccess, plan: RunPlan, file: LogFile | None) -> tuple[Source, Survey]:
    source: Source = FileSource(file) if file is not None else await LogSource.made(KafkaLog(log.address), log.topics)
    return source, await survey(source, since=plan.cases_from, until=plan.cases_to)


def _deciding(source: Source, plan: RunPlan, ask_every_step: bool) -> Deciding:
    return Deciding(verification(), source.snapshots, plan.change, ask_every_step=ask_every_step)


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
            raise ConfigError(f"another process took over the run {run_id}, and goes on with it: this one ends")
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
    code_change: str
    baseline: bool


def summary_of(plan: RunPlan, ran: Ran) -> RunSummary:
    t, change = ran.totals, code_change(ran.about.recording, ran.about)
    return RunSummary(
        run_id=plan.run_id, status=ran.status, cases=t.cases, replayed=t.replayed, missed_cases=t.missed_cases,
        failed=t.failed, refused=t.refused, left_out=t.left_out, left=ran.left, executed=t.executed, reused=t.reused,
        missed=t.missed, cost_usd=f"{t.cost:f}", avoided_cost_usd=f"{t.avoided:f}", unpriced_calls=t.unpriced_calls,
        look_ahead=t.look_ahead, after_training_cutoff=t.after_cutoff,
        code_change="" if change is None else change.text, baseline=ran.about.baseline,
    )  # fmt: skip
