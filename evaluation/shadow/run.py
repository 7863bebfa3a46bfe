"""A shadow run: replays cases with the candidate as they get their signals, and records the results."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import msgspec
import structlog
from aiokafka.errors import KafkaError

from agents.graphs import verification
from evaluation.backtest.deciding import Deciding
from evaluation.backtest.memory import AsOfMemory
from evaluation.backtest.run.cost_limit import CostLimit, CostLimitReached
from evaluation.backtest.run.lease import RunLease
from evaluation.backtest.run.performer import Performer
from evaluation.backtest.run.plan import RunPlan
from evaluation.backtest.run.rows import case_row, unreplayable
from evaluation.backtest.run.topic import CaseReplayed, Held, RunEnded, RunTopic
from evaluation.compare.watch import describe_watch, look_at_run
from evaluation.shadow.live import LiveCases
from evaluation.shadow.stories import add_case, recent_stories
from evaluation.shadow.tables import ShadowTables, Totals
from infra.clickhouse.client import ClickHouse
from infra.ports import Ports
from newsproof.app.data_access import LogAccess
from schemas.config import Snapshot
from schemas.errors import ConfigError, NewsproofError, TransientError
from schemas.events import CaseDropped, CaseFailed
from streams.journal.configs import ConfigStore
from streams.journal.log import KafkaLog
from streams.replay import Recording, Replayed

log = structlog.get_logger(__name__)

AT_ONCE = 8
"""Concurrent cases. Kept low because live traffic has priority at the providers."""
GRACE_S = 8.0
"""How long running calls may continue after a stop request. A call cut off after this may be paid for again."""
SNAPSHOT_WITHIN_S = 30.0
TELL_EVERY_S = 30.0


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
        self._deciding = Deciding(verification(), self._snapshots, plan.change)
        self._stopping = asyncio.Event()
        self._arrived = asyncio.Event()
        self._configs.subscribe(lambda _hash: self._arrived.set())
        self.following = asyncio.Event()
        self.exhausted = False
        self.decided = False
        self._looked_on: date | None = None
        self._held: Held
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
            NewsproofError: no model can be asked; paid calls are kept.
        """
        try:
            await self._lease.take_in_time()
            self._held = await self._topic.open(self._plan, replication=self._at.settings.topic_replication)
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
            totals = await self._told("finished" if status in ("exhausted", "decided") else status)
            await self._live.stop()
            await self._configs.stop()
            await self._topic.close()
        return self._summary(status, totals)

    async def _start(self) -> None:
        begun = self._held.started_at or datetime.now(UTC)
        self._tables = ShadowTables(self._client, self._plan, begun, self._stop_waiting, self._snapshots)
        self._cost_limit = CostLimit(self._budget, spent=self._held.spent)
        memory = AsOfMemory(self._client, mode=self._at.settings.mode)
        self._performer = Performer(
            self._ports, self._cost_limit, self._held, self._topic, on_miss=self._plan.on_miss, memory=memory
        )
        await self._configs.start()
        self._stories = await recent_stories(KafkaLog(self._at.address), self._at.topics)
        await self._live.start()
        await self._told("running")
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
        told_at = loop.time()
        while not self._over:
            batch = await self._live.next()
            for recording in batch:
                add_case(self._stories, recording)
            if wanted := [r for r in batch if self._wanted(r)]:
                await self._judge_all(wanted)
                await self._look(max(r.records[0].at.date() for r in wanted))
            if self._over:
                return  # without a commit, a restart repeats this batch
            try:
                await self._live.commit()
            except KafkaError as exc:
                log.warning("the place in the journal is noted later", error=repr(exc))
            if loop.time() - told_at > TELL_EVERY_S:
                await self._told("running")
                told_at = loop.time()

    @property
    def _over(self) -> bool:
        if self._lease.lost.is_set():
            raise ConfigError(f"another process took over the run {self._plan.run_id}: this one ends")
        return self._stopping.is_set() or self.exhausted or self.decided

    async def _look(self, day: date | None = None) -> None:
        """Decide by the stop rule when a new UTC day begins: only then a block can have closed, and days come in order."""
        watch = self._plan.watch
        if watch is None or not watch.stop_when or (day is not None and self._looked_on == day):
            return
        try:
            seen = await look_at_run(self._client, self._plan.run_id, watch, self._at.settings.profit_cap)
        except ConfigError:
            return  # no case worked in both yet
        except TransientError as exc:
            log.warning("the stop rule is looked at again with the next case", error=str(exc))
            return
        self._looked_on, self.decided = day, seen.stop
        said = {"metric": seen.metric, "found": describe_watch(seen), "code_change": seen.code_change}
        log.info("looked at the stop rule", run=self._plan.run_id, **said)

    def _wanted(self, recording: Recording) -> bool:
        if (recording.case_id, 0) in self._held.done or isinstance(recording.end, CaseFailed):
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
        tasks = [asyncio.create_task(one) for one in work]
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
                row = unreplayable(recording, run_id=run_id, repeat=0, at=now, story_id=story)
            else:
                row = case_row(replayed, run_id=run_id, repeat=0, at=now, story_id=story)
            await self._tables.add(row, replayed)
            await self._topic.write(CaseReplayed(row), key=case_id)
            self._held.done.add((case_id, 0))

    async def _replayed(self, recording: Recording) -> Replayed:
        await self._snapshot(recording.received.config_hash)
        asking, asked = self._deciding.replay(recording).run(), Counter[str]()
        try:
            need = next(asking)
            while True:
                occurrence = asked[need.request_hash]
                asked[need.request_hash] += 1
                need = asking.send(await self._performer.answer(need, 0, occurrence))
        except StopIteration as stop:
            end: Replayed = stop.value
            return end

    async def _snapshot(self, config_hash: str) -> None:
        try:
            async with asyncio.timeout(SNAPSHOT_WITHIN_S):
                while config_hash not in self._snapshots:
                    self._arrived.clear()
                    if (found := self._configs.get(config_hash)) is not None:
                        self._snapshots[config_hash] = found
                    else:
                        await self._arrived.wait()
        except TimeoutError:
            log.warning("a case's configuration did not arrive; its case is reported as failed", config=config_hash)

    # Reporting

    def _say_exhausted(self, recording: Recording) -> None:
        self.exhausted = True
        log.warning(
            "the shadow's budget is exhausted: nothing more is executed",
            run=self._plan.run_id,
            spent_usd=str(self._cost_limit.spent),
            budget_usd=str(self._budget),
            first_case_left=recording.case_id,
        )

    def _stop_waiting(self) -> None:
        if self._stopping.is_set():
            raise asyncio.CancelledError

    async def _told(self, status: str) -> Totals:
        try:
            return await self._tables.write_run(status)
        except NewsproofError as exc:
            log.warning("the run's row is written later", error=str(exc))
            return Totals(cases=0, replayed=0, executed=0, reused=0, missed=0)

    def _summary(self, status: str, totals: Totals) -> ShadowSummary:
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
