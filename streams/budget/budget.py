"""The exact budget: reservations are appended, read back, and granted or denied by the fold that all workers share.

    reserve ─► budget topic ─► fold (streams.budget.rule) ─► granted: call ─► settle ─► budget topic
                                                         └─► denied: a Failure that names the limit

Free and unmetered calls need no reservation. All reservations made in one turn of the event loop are sent as one batch.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Coroutine, Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

import structlog
from aiokafka import ConsumerRecord, TopicPartition
from msgspec.structs import replace

from infra.kafka.topics import KafkaAddress, read_range
from infra.ports import Port
from schemas import budget
from schemas.budget import MAX_USD, BudgetRecord, ClaimKind, LimitsSet, PassedBy, Reserved, Settled, decode, encode
from schemas.calls import Call
from schemas.effects import CallModel, Effect, Failure
from schemas.errors import ContractError
from schemas.topics import NewerRecordError, Topics
from streams.budget import rule
from streams.budget.rule import BudgetState, Decision, KeptBudget
from streams.effects.spending import Budget, Grant
from streams.ending import Ending
from streams.journal.appender import Appender
from streams.journal.clock import utc_now
from streams.journal.log import KafkaLog
from streams.journal.stored_states import StateAt, StoredStates
from streams.wake import Wake

log = structlog.get_logger(__name__)

TRIAGE = "triage"
"""The task whose model calls may be paid from the reserve for triage."""
REFRESH_DAYS = 21
"""Limits are written again at this age, long before the topic's retention (63 days) removes them."""
CLOSE_WITHIN_S = 5.0
FILE = "budget.sqlite"
KEEP_S = 60.0
"""Interval of saving the state to disk. After a kill, the next start reads at most this much of the log again."""
_LETTERS_AT_ONCE = 500
_FOLD_AT_ONCE = 500
"""Records folded per turn of the event loop, about 10 ms, so that other tasks can send their heartbeats."""


class BudgetLedger(Budget):
    """One worker's access to the budget. ``state`` is the fold so far.

    ``limits`` are this worker's settings. They are written at startup if the topic holds others; the latest ones in log
    order apply to all workers. ``wake`` is called when capacity may be free again. ``ending`` receives fatal errors.
    ``directory``: the worker slot's directory. The state is stored there, so that the next start reads only newer
    records.
    """

    def __init__(
        self,
        address: KafkaAddress,
        topics: Topics,
        limits: LimitsSet,
        ending: Ending,
        wake: Wake,
        directory: Path | None = None,
        *,
        incarnation: str | None = None,
    ) -> None:
        self.ending, self.wake = ending, wake
        self.state = BudgetState()
        self.incarnation = incarnation or uuid.uuid4().hex[:16]
        self.position = 0
        self.reserved = self.denied = 0
        self._address, self._topics, self._limits = address, topics, limits
        self._tp = TopicPartition(topics.budget, 0)
        # A separate producer, so that a reservation does not queue behind the journal's batches.
        self._appender = Appender(address, client_id="newsproof-budget")
        self._consumer = address.consumer(client_id="newsproof-budget")
        self._waiting: dict[str, asyncio.Future[Decision]] = {}
        self._moved = asyncio.Condition()
        self._following: asyncio.Task[None] | None = None
        self._asides: set[asyncio.Task[Any]] = set()
        self._found: list[Call] = []
        self._tending: asyncio.Task[None] | None = None
        self._caught_up = False
        self._directory = directory
        self._kept: StoredStates[KeptBudget] | None = None
        self._kept_at = 0.0
        self._last: ConsumerRecord[Any, bytes] | None = None

    # Life cycle

    async def start(self) -> None:
        """Read the topic to its end and publish this worker's limits if needed. Ready when it returns.

        Raises:
            ConfigError: another process has the stored state open.
            NewerRecordError: the topic holds a record of a newer version.
        """
        try:
            await self._start()
        except BaseException:
            await self.stop()
            raise

    async def _start(self) -> None:
        await self._appender.start()
        await self._consumer.start()
        self._consumer.assign([self._tp])
        first = (await self._consumer.beginning_offsets([self._tp]))[self._tp]
        end = (await self._consumer.end_offsets([self._tp]))[self._tp]
        self.position = first
        if self._directory is not None:
            sources = (rule.__file__, budget.__file__)
            self._kept = StoredStates(self._directory, FILE, self._topics.budget, KeptBudget, *sources)
            if (kept := (await self._kept.load(KafkaLog(self._address))).get(self._tp)) is not None:
                self.position, self.state = kept.position, BudgetState.of(kept.state)
        self._consumer.seek(self._tp, self.position)
        self._following = asyncio.create_task(self._follow(), name="budget")
        self.ending.watch(self._following)
        self._following.add_done_callback(self._ended)
        await self._until(end)
        self._caught_up = True
        self._keep()
        held = self.state.limits
        if held is None or replace(held, by=self._limits.by) != self._limits:
            if held is not None:
                log.warning("the limits of this worker's settings replace those of another", was=held, now=self._limits)
            _, offset = await self._append(self._limits)
            await self._until(offset + 1)

    async def stop(self) -> None:
        """Flush pending records, then close."""
        if self._asides:
            await asyncio.wait(list(self._asides), timeout=CLOSE_WITHIN_S)
        for task in (self._following, self._tending, *self._asides):
            if task is not None:
                task.cancel()
        self._keep()
        if self._kept is not None:
            self._kept.close()
        await self._consumer.stop()
        await self._appender.stop()

    # Spending

    async def reserve(
        self,
        effect: Effect,
        port: Port,
        *,
        case_id: str,
        head_id: str,
        claim_kinds: tuple[ClaimKind, ...] = (),
        source_group: str = "",
    ) -> Grant | Failure | None:
        """Return a grant for one call, the denial, or None if the call is free and unmetered."""
        usd, units = port.worst_case_usd(effect), port.quota_units(effect)
        if units == 0 and usd is not None and usd == 0:
            return None
        self.reserved += 1
        record = Reserved(
            id=f"{self.incarnation}-{self.reserved}",
            effect=str(effect.__struct_config__.tag),
            provider=port.provider,
            usd=None if usd is None else min(usd, MAX_USD),
            units=units,
            for_triage=isinstance(effect, CallModel) and effect.task == TRIAGE,
            case_id=case_id,
            head_id=head_id,
            claim_kinds=claim_kinds,
            group=source_group,
        )
        decision = await self._decided(record)
        if not decision.denied:
            return Grant(record.id)
        self.denied += 1
        return Failure(kind="budget", message=decision.denied, retryable=False)

    def settle(self, grant: Grant, call: Call) -> None:
        """Record the cost of the call without waiting. A call of unknown cost keeps its whole reservation."""
        self._settle(grant.id, call.cost_usd)

    def on_calls(self, calls: Iterable[Call]) -> None:
        """Settle calls found in the journal that their worker could not settle."""
        if unsettled := [c for c in calls if c.grant is not None and not c.grant.startswith(self.incarnation)]:
            if not self._found:
                self._aside(self._settle_found())
            self._found.extend(unsettled)

    def may_admit(self, cases: int) -> str | None:
        """Return why no further case should be opened beside this many untriaged ones; None if one may."""
        return self.state.why_not_admit(cases, utc_now())

    def tend(self, *, elected: bool) -> None:
        """Do periodic work: refresh aging limits, write dead letters. Called about once a second; never waits.

        ``elected``: True if this worker writes the dead letters for the topic's malformed records.
        """
        busy = self._tending is not None and not self._tending.done()
        if self._following is not None and not busy:
            self._tending = asyncio.create_task(self._tend(elected), name="budget-tend")
            self._tending.add_done_callback(_say_why)

    async def _decided(self, record: Reserved) -> Decision:
        decided: asyncio.Future[Decision] = asyncio.get_running_loop().create_future()
        self._waiting[record.id] = decided
        sending = self._aside(self._append(record))
        try:
            return await decided
        except asyncio.CancelledError:
            # The call is certainly not made: return its grant, in a record that follows the reservation in the log.
            self._aside(self._give_back(record.id, sending))
            raise
        finally:
            self._waiting.pop(record.id, None)

    async def _give_back(self, id: str, sending: asyncio.Task[Any]) -> None:
        await asyncio.wait([sending])
        await self._append(Settled(id=id, usd=Decimal(0), by=self._limits.by, unused=True))

    def _settle(self, id: str, usd: Decimal | None) -> None:
        known = None if usd is None or not usd.is_finite() else max(Decimal(0), min(usd, MAX_USD))
        self._aside(self._append(Settled(id=id, usd=known, by=self._limits.by)))

    async def _settle_found(self) -> None:
        # These calls are in the journal, so their reservations are in the log by now: read that far before looking them
        # up.
        end = (await self._consumer.end_offsets([self._tp]))[self._tp]
        unsettled, self._found = self._found, []
        await self._until(end)
        for call in unsettled:
            if call.grant in self.state.held:
                self._settle(call.grant, call.cost_usd)

    # The log

    async def _append(self, record: BudgetRecord) -> tuple[int, int]:
        headers = [("content-type", b"application/json")]
        return await self._appender.append(
            self._topics.budget, encode(record), key=None, partition=self._tp.partition, headers=headers
        )

    async def _follow(self) -> None:
        while True:
            got = await self._consumer.getmany(self._tp, timeout_ms=1000, max_records=_FOLD_AT_ONCE)
            for records in got.values():
                for record in records:
                    self._fold(record)
                    self._last = record
            position = await self._consumer.position(self._tp)
            if position != self.position:
                self.position = position
                async with self._moved:
                    self._moved.notify_all()
                self.wake()

    def _fold(self, record: ConsumerRecord[Any, bytes]) -> None:
        alerted = self.state.alerted
        try:
            change = decode(record.value)
        except ContractError as exc:
            if isinstance(exc, NewerRecordError):
                raise
            self.state.ignore(record.offset, record.timestamp, str(exc))
            log.warning("ignored a record that is not a budget record", offset=record.offset, why=str(exc))
            return
        decision = self.state.fold(record.offset, record.timestamp, change)
        if decision is not None and (waiting := self._waiting.get(decision.id)) is not None and not waiting.done():
            waiting.set_result(decision)
        new = (self.state.alerted - alerted) if self._caught_up else 0
        for alert in self.state.alerts[len(self.state.alerts) - new :]:
            log.warning("budget alert", day=str(alert.at), what=alert.kind, text=alert.text)

    async def _until(self, offset: int) -> None:
        async with self._moved:
            while self.position < offset:
                if self._following is not None and self._following.done():
                    self._following.result()
                await self._moved.wait()

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            self._aside(self._notify())

    async def _notify(self) -> None:
        async with self._moved:
            self._moved.notify_all()

    # Periodic work

    async def _tend(self, elected: bool) -> None:
        held = self.state.limits
        if held is not None and (self.state.day - self.state.limits_day).days >= REFRESH_DAYS:
            await self._append(held)
        if self.state.unreported and elected:
            await self._report_garbage()
        if asyncio.get_running_loop().time() - self._kept_at > KEEP_S:
            self._keep()

    def _keep(self) -> None:
        if self._kept is None or not self._caught_up:
            return
        if (last := self._last) is not None and not self._kept.reaches(self._tp, last.offset + 1):
            self._kept.store({self._tp: StateAt(last.offset + 1, self.state.kept())}, {self._tp: last})
        self._kept_at = asyncio.get_running_loop().time()

    async def _report_garbage(self) -> None:
        wanted = sorted(self.state.unreported)[:_LETTERS_AT_ONCE]
        done = []
        async for _, records in read_range(self._address, {self._tp: (wanted[0], wanted[-1] + 1)}):
            for record in records:
                if (why := self.state.unreported.get(record.offset)) is not None:
                    topic = self._topics.dead_letters
                    await self._appender.dead_letter(
                        topic, record, reason="bad_budget_record", why=why, consumer="budget"
                    )
                    done.append(record.offset)
        # Records that retention has removed since can no longer become dead letters.
        _, offset = await self._append(PassedBy(offsets=tuple(dict.fromkeys((*done, *wanted)))))
        await self._until(offset + 1)

    def _aside(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.create_task(work)
        self._asides.add(task)
        task.add_done_callback(self._aside_ended)
        return task

    def _aside_ended(self, task: asyncio.Task[Any]) -> None:
        self._asides.discard(task)
        if not task.cancelled() and (exc := task.exception()) is not None:
            log.error("a budget record could not be written", error=repr(exc))
            self.ending.fail(exc)


def _say_why(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (exc := task.exception()) is not None:
        log.warning("the budget could not be updated; the worker retries", error=repr(exc))
