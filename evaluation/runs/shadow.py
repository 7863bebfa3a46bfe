"""``newsproof shadow``: replays live cases with a candidate as they get their signals, until a signal, the budget or the stop rule.

    journal ─► LiveCases ─► (a case has its signal) ─► Shadow ─► runs.<run_id>, ClickHouse        never: signals

Uses the engine and topic of backtests: a reply is reused when its request equals the live one, others are requested. Paid calls
are written to the run's own topic before use, so a restart pays for nothing twice.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import msgspec
import structlog
from aiokafka.errors import KafkaError
from msgspec.structs import replace

from agents.graphs import verification
from evaluation.compare.watch import describe_watch, look_at_run
from evaluation.declaration import Watch
from evaluation.replay.candidates import ReplayBuilder, candidate_prompts, refuse_offline
from evaluation.replay.journal import LiveCases, recent_stories
from evaluation.runs.backtest import log_and_tables, model_ports
from evaluation.runs.performer import AsOfMemory, CostLimit, CostLimitReached, Performer, replay_one
from evaluation.runs.plan import OnMiss, RunPlan, change_name, run_id_of
from evaluation.runs.run_tables import RunTotals, ShadowTables, case_row, unreadable_row
from evaluation.runs.topic import CaseReplayed, RunEnded, RunLease, RunProgress, RunTopic
from infra.clickhouse.client import ClickHouse
from infra.ports import Ports
from newsproof.app import exits
from newsproof.app.composition import mode_in_words, refuse_unusable
from newsproof.app.data_access import LogAccess
from newsproof.app.invocation import Invocation
from newsproof.app.servers import say_on_stderr as say
from newsproof.app.sheet import json_line, say_result
from newsproof.app.terminal import command_name
from newsproof.app.version import code_version
from schemas.config import Prompt, Snapshot
from schemas.effects import CallModel
from schemas.errors import ConfigError, NewsproofError, TransientError
from schemas.events import CaseDropped, CaseFailed
from schemas.ids import content_hash
from schemas.printable import counted
from streams.journal.configs import ConfigStore
from streams.journal.log import KafkaLog
from streams.replay import Recording, ReplayResult

log = structlog.get_logger(__name__)

AT_ONCE = 8
"""Concurrent cases. Kept low because live traffic has priority at the providers."""
GRACE_S = 8.0
"""How long running calls may continue after a stop request. A call cut off after this may be paid for again."""
SNAPSHOT_WITHIN_S = 30.0
RECORD_EVERY_S = 30.0


class ShadowSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The line that ``--json`` prints. ``status``: stopped, exhausted (the budget) or decided (the stop rule holds). USD, over
    all restarts.
    """

    run_id: str
    status: str
    spent_usd: Decimal
    budget_usd: Decimal
    cases: int
    replayed: int
    executed: int
    reused: int
    missed: int


class Shadow:
    """One run of one candidate. Call :meth:`run` once, and :meth:`stop` from a signal handler."""

    def __init__(self, at: LogAccess, client: ClickHouse, ports: Ports, plan: RunPlan, budget_usd: Decimal) -> None:
        """``plan`` names run and candidate; ``budget_usd`` bounds the run's spend, restarts included."""
        self._at, self._client, self._ports, self._plan, self._budget = at, client, ports, plan, budget_usd
        self._topic = RunTopic(at.address, at.topics, plan.run_id)
        self._live = LiveCases(at.address, at.topics, at.topics.group(plan.run_id))
        group = at.topics.group(f"{plan.run_id}-place")
        self._lease = RunLease(at.address, at.topics.publisher_lease, plan.run_id, group=group)
        self._configs = ConfigStore(at.address, at.topics)
        self._snapshots: dict[str, Snapshot] = {}
        self._builder = ReplayBuilder(verification(), self._snapshots, plan.change)
        self._stopping = asyncio.Event()
        self._arrived = asyncio.Event()
        self._configs.subscribe(lambda _hash: self._arrived.set())
        self.following = asyncio.Event()
        self.exhausted = False
        self.decided = False
        self._looked_on: date | None = None
        self._progress: RunProgress
        self._cost_limit: CostLimit
        self._performer: Performer
        self._tables: ShadowTables

    def stop(self) -> None:
        """Request a clean stop."""
        self._stopping.set()

    async def run(self) -> ShadowSummary:
        """Follow the live journal until stopped, until the budget is exhausted, or until the stop rule holds.

        Raises:
            ConfigError: another process works on this run, or it was begun with another candidate.
            NewsproofError: no model can be called; paid calls are kept.
        """
        try:
            await self._lease.take_in_time()
            self._progress = await self._topic.open(self._plan, replication=self._at.settings.topic_replication)
            return await self._ran()
        finally:
            await self._lease.leave()

    async def _ran(self) -> ShadowSummary:
        status = "failed"
        try:
            await self._start()
            await self._follow()
            status = "decided" if self.decided else "exhausted" if self.exhausted else "stopped"
            await self._topic.write(RunEnded(status, datetime.now(UTC)), key="")
        finally:
            totals = await self._record("finished" if status in ("exhausted", "decided") else status)
            await self._live.stop()
            await self._configs.stop()
            await self._topic.close()
        return self._summary(status, totals)

    async def _start(self) -> None:
        begun = self._progress.started_at or datetime.now(UTC)
        self._tables = ShadowTables(self._client, self._plan, begun, self._stop_waiting, self._snapshots)
        self._cost_limit = CostLimit(self._budget, spent=self._progress.spent)
        memory = AsOfMemory(self._client, mode=self._at.settings.mode)
        self._performer = Performer(
            self._ports, self._cost_limit, self._progress, self._topic, on_miss=self._plan.on_miss, memory=memory
        )
        await self._configs.start()
        self._stories = await recent_stories(KafkaLog(self._at.address), self._at.topics)
        await self._live.start()
        await self._record("running")
        await self._look()
        log.info(
            "shadowing live traffic",
            run=self._plan.run_id,
            candidate=self._plan.label,
            spent_usd=str(self._cost_limit.spent),
        )
        self.following.set()

    # Following

    async def _follow(self) -> None:
        loop = asyncio.get_running_loop()
        recorded_at = loop.time()
        while not self._over:
            batch = await self._live.next()
            for recording in batch:
                for record in recording.records:
                    self._stories.add(recording.case_id, record.event)
            if wanted := [r for r in batch if self._wanted(r)]:
                await self._judge_all(wanted)
                await self._look(max(r.records[0].at.date() for r in wanted))
            if self._over:
                return  # without a commit, a restart repeats this batch
            try:
                await self._live.commit()
            except KafkaError as exc:
                log.warning("the journal position is saved later", error=repr(exc))
            if loop.time() - recorded_at > RECORD_EVERY_S:
                await self._record("running")
                recorded_at = loop.time()

    @property
    def _over(self) -> bool:
        if self._lease.lost.is_set():
            raise ConfigError(f"another process took over the run {self._plan.run_id}; this process ends")
        return self._stopping.is_set() or self.exhausted or self.decided

    async def _look(self, day: date | None = None) -> None:
        """Decide by the stop rule when a new UTC day begins: only then a block can have closed, and days come in order."""
        watch = self._plan.watch
        if watch is None or not watch.stop_when or (day is not None and self._looked_on == day):
            return
        try:
            if day is not None:
                # With the code that recorded these cases: without it, the look would take it for unrecorded.
                await self._tables.write_run("running")
            seen = await look_at_run(self._client, self._plan.run_id, watch, self._at.settings.profit_cap)
        except ConfigError:
            return  # no case worked in both yet
        except TransientError as exc:
            log.warning("the stop rule is checked again with the next case", error=str(exc))
            return
        self._looked_on, self.decided = day, seen.stop
        fields = {"metric": seen.metric, "found": describe_watch(seen), "code_change": seen.code_change}
        log.info("stop rule checked", run=self._plan.run_id, **fields)

    def _wanted(self, recording: Recording) -> bool:
        if (recording.case_id, 0) in self._progress.done or isinstance(recording.end, CaseFailed):
            return False
        # No prompt changes why a case was dropped, except spam: triage decides that.
        dropped = isinstance(recording.end, CaseDropped)
        return not dropped or (recording.end.reason == "spam" and "triage" in self._plan.prompts)  # type: ignore[attr-defined]

    async def _judge_all(self, recordings: Sequence[Recording]) -> None:
        """Judge concurrently; then, one by one, the cases whose worst case did not fit beside the others."""
        places, alone = asyncio.Semaphore(AT_ONCE), list[Recording]()
        await self._unless_stopped([self._judge(r, places, alone.append) for r in recordings])
        for recording in alone:
            if not self._over:
                await self._unless_stopped([self._judge(recording, places, self._say_exhausted)])

    async def _unless_stopped(self, work: Sequence[Coroutine[Any, Any, None]]) -> None:
        tasks = [asyncio.create_task(part) for part in work]
        stopping = asyncio.create_task(self._stopping.wait())
        every: asyncio.Future[list[None]] = asyncio.gather(*tasks)
        try:
            ends: set[asyncio.Future[Any]] = {every, stopping}
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if not every.done():
                await asyncio.wait({every}, timeout=GRACE_S)
            if every.done():
                every.result()
        finally:
            for task in (*tasks, stopping):
                task.cancel()
            await asyncio.gather(*tasks, every, stopping, return_exceptions=True)

    async def _judge(
        self, recording: Recording, places: asyncio.Semaphore, unpaid: Callable[[Recording], None]
    ) -> None:
        async with places:
            if self._over:
                return
            now, case_id = datetime.now(UTC), recording.case_id
            story, run_id = self._stories.of(case_id), self._plan.run_id
            try:
                replayed = None if recording.unreadable else await self._replayed(recording)
            except CostLimitReached:
                unpaid(recording)
                return
            if replayed is None:
                row = unreadable_row(recording, run_id=run_id, repeat=0, at=now, story_id=story)
            else:
                row = case_row(replayed, run_id=run_id, repeat=0, at=now, story_id=story)
            await self._tables.add(row, replayed)
            await self._topic.write(CaseReplayed(row), key=case_id)
            self._progress.done.add((case_id, 0))

    async def _replayed(self, recording: Recording) -> ReplayResult:
        await self._snapshot(recording.received.config_hash)
        return await replay_one(self._builder, recording, self._performer)

    async def _snapshot(self, config_hash: str) -> None:
        try:
            async with asyncio.timeout(SNAPSHOT_WITHIN_S):
                while config_hash not in self._snapshots:
                    self._arrived.clear()
                    if (snapshot := self._configs.get(config_hash)) is not None:
                        self._snapshots[config_hash] = snapshot
                    else:
                        await self._arrived.wait()
        except TimeoutError:
            log.warning("a case's configuration did not arrive; the case is reported as failed", config=config_hash)

    # Reporting

    def _say_exhausted(self, recording: Recording) -> None:
        self.exhausted = True
        log.warning(
            "the shadow run's budget is exhausted; it executes no further calls",
            run=self._plan.run_id,
            spent_usd=str(self._cost_limit.spent),
            budget_usd=str(self._budget),
            first_case_left=recording.case_id,
        )

    def _stop_waiting(self) -> None:
        if self._stopping.is_set():
            raise asyncio.CancelledError

    async def _record(self, status: str) -> RunTotals:
        try:
            return await self._tables.write_run(status)
        except NewsproofError as exc:
            log.warning("the run's table row is written later", error=str(exc))
            return RunTotals()

    def _summary(self, status: str, totals: RunTotals) -> ShadowSummary:
        return ShadowSummary(
            run_id=self._plan.run_id,
            status=status,
            cases=totals.cases,
            replayed=totals.replayed,
            executed=totals.executed,
            reused=totals.reused,
            missed=totals.missed,
            spent_usd=self._cost_limit.spent,
            budget_usd=self._budget,
        )


async def shadow(
    invocation: Invocation,
    *,
    prompts: Sequence[str],
    budget_usd: float,
    run_id: str | None,
    on_miss: OnMiss,
    watch: Watch,
    as_json: bool,
) -> int:
    """Shadow live traffic until SIGTERM, Ctrl-C, the end of the budget or the stop rule; return the exit status.

    Raises:
        ConfigError: no pipeline runs, no model would read the prompt, it does not exist, another process works on this run, or a price is unknown.
    """
    plan = shadow_plan(candidate_prompts(invocation.settings(), prompts), run_id, on_miss, watch)
    refuse_offline(invocation.settings(), plan.prompts)
    async with log_and_tables(invocation) as (at, tables):
        if at.own:
            raise ConfigError(
                f"nothing runs in {at.settings.newsproof_data_dir}, so there is no live traffic: start `newsproof "
                "up` first, or set your servers (KAFKA_BOOTSTRAP_SERVERS, CLICKHOUSE_URL)"
            )
        refuse_unusable(at.settings)
        ports = model_ports(at.settings, tables)
        try:
            refuse_unpriced(ports)
            running = Shadow(at, tables, ports, plan, Decimal(str(budget_usd)))
            _stop_on_signals(running)
            say(f"Shadow run {plan.run_id}: {plan.label}, {mode_in_words(at.settings)}, at most {budget_usd:g} USD.")
            say(f"Watched by {watch.metric}; {_ends(watch)}. `newsproof backtest watch {plan.run_id}` shows its state.")
            summary = await running.run()
        finally:
            await ports.close()
    if as_json:
        json_line(summary)
    else:
        _print(summary)
    return exits.OK


def shadow_plan(prompts: dict[str, Prompt], run_id: str | None, on_miss: OnMiss, watch: Watch) -> RunPlan:
    """Return the plan of a shadow run. Without a ``run_id``, the same plan on the same code resumes the same run.

    Raises:
        ConfigError: no candidate is given, or the run id is invalid.
    """
    if not prompts:
        raise ConfigError("shadow compares a candidate with what is live: write --prompt NAME=VERSION or NAME=FILE")
    plan = RunPlan(run_id="", prompts=prompts, on_miss=on_miss, code_version=code_version(), watch=watch)
    if run_id is None:
        run_id = f"shadow-{change_name(plan.change)}-{content_hash(plan)[:8]}".lower()
    return replace(plan, run_id=run_id_of(run_id, plan.change, datetime.now(UTC)))


def refuse_unpriced(ports: Ports) -> None:
    """Refuse models of unknown price, since no budget can bound their calls.

    Raises:
        ConfigError: a price is unknown.
    """
    least = CallModel(
        task="", tier="light", prompt_name="", prompt_version="", prompt_hash="", system="", parts=(), max_output_tokens=1
    )  # fmt: skip
    for port in (*ports.models.values(), *(p for behind in ports.fallbacks.values() for p in behind)):
        if port.worst_case_usd(least) is None:
            name = f"{port.provider}:{getattr(port, 'model', '')}"
            raise ConfigError(
                f"the price of {name} is unknown, so --budget cannot be enforced: add it to infra/models/price_overrides.json"
            )


def _stop_on_signals(running: Shadow) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, running.stop)


def _ends(watch: Watch) -> str:
    side = "different, in either direction" if watch.stop_when == "either" else watch.stop_when
    return f"it ends when the candidate is {side}" if watch.stop_when else "it ends when you stop it"


def _print(summary: ShadowSummary) -> None:
    why = {"exhausted": "the budget is exhausted", "decided": "the stop rule holds"}.get(summary.status, "stopped")
    say_result(
        f"{summary.run_id}: {counted(summary.cases, 'case')}, {summary.replayed} of them judged by the candidate; {summary.executed} "
        f"calls executed, {summary.reused} reused, {summary.missed} missed; {summary.spent_usd:f} of "
        f"{summary.budget_usd:f} USD; {why}"
    )
    say_result(f"Compare with live: {command_name()} backtest watch {summary.run_id}")
