"""The dispatcher: starts the step that a head leads to, once, and appends its result.

Everything is keyed by (case, head, request): dispatching a case again after a rebalance or a redelivery starts
nothing that already runs. A result is appended at the head for which it was computed, and the log decides whether it is
accepted.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

import structlog
from structlog.contextvars import bind_contextvars

from agents.core.case_core import CaseCore
from agents.core.failures import failed
from agents.core.registry import Registry
from agents.core.step import Step, StepFailure
from agents.core.step_turn import Missing, ask, attempt_of, failure_of, tell, with_calls
from schemas import events as ev
from schemas.calls import Call
from schemas.effects import Effect
from streams.effects.bulkhead import EffectSlots
from streams.effects.host import EffectsHost
from streams.failpoints import DRAINED, EFFECT_ANSWERED, EFFECT_BEFORE, hit
from streams.journal.clock import utc_now
from streams.runtime.crash_isolation import KILLED_ITS_WORKER, CrashIsolation
from streams.runtime.deadlines import Deadlines, cut_off
from streams.runtime.partition import Partitions
from streams.runtime.results import Results
from streams.runtime.running import Running
from streams.runtime.worker_slot import WorkerSlot

T = TypeVar("T")
log = structlog.get_logger(__name__)

HAND_BACK_S = 5.0
"""Maximum wait of a rebalance for the record that releases a suspect. Without it, the next owner assumes a crash."""
LONGEST_S = 0.01
"""After a longer turn of the loop, the next turn gets half as many computations."""
MOST = 256
"""Maximum number of computations in a turn."""


class Dispatcher:
    """Starts steps and appends their results. ``put`` sends (step, case) to the step's channel without waiting."""

    def __init__(
        self,
        registry: Registry,
        host: EffectsHost,
        results: Results,
        places: EffectSlots,
        slot: WorkerSlot,
        partitions: Partitions,
        put: Callable[[Step, CaseCore], None],
        *,
        suspect_after: int,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._registry = registry
        self._host = host
        self._results = results
        self._places = places
        self._slot = slot
        self._deadlines = Deadlines()
        self._crash_isolation = CrashIsolation(slot, suspect_after)
        self._put, self._now = put, now
        self.case_of, self.open_of = partitions.case_of, partitions.open_of
        self._running = Running(slot, is_head=self._is_head, on_end=self._on_end)
        self._queued: set[tuple[str, str, int]] = set()
        self._live_since: dict[int, datetime] = {}
        self._turns = Turns()
        self.steps_started = 0

    @property
    def running(self) -> int:
        """Number of running steps and effects."""
        return len(self._running)

    # Events of the log

    def on_folded(self, partition: int, case: CaseCore) -> None:
        """Dispatch a case that has a new head or reply.

        A head without a next step raises an error, and the projector quarantines the case.
        """
        self._registry.next_step(case)
        if case.seq == 0:
            self._deadlines.watch(partition, case)
        self._running.at_head(case.case_id, case.head_id)
        if isinstance(case.head, ev.COMMANDS):  # the results of running steps would be ignored
            self._running.leave_behind(case.case_id, case.head_id)
        if self._crash_isolation.is_over(case):
            self._next_suspect()
        if partition in self._live_since:
            self.dispatch(partition, case)

    def on_closed(self, partition: int, case: CaseCore) -> None:
        """Stop watching a case that ended."""
        self._running.forget(case.case_id)
        self._deadlines.forget(case.case_id)
        if self._crash_isolation.is_over(case):
            self._next_suspect()

    def on_live(self, partition: int) -> None:
        """Continue every open case of a partition that caught up, those nearest to their end first."""
        self._live_since[partition] = self._now()

        def nearest(case: CaseCore) -> int:
            step = self._registry.next_step(case)
            return self._registry.depth[step.name] if step else 0

        cases = self.open_of(partition)
        for case in cases:
            self._deadlines.watch(partition, case)
        for case in sorted(cases, key=nearest):
            if self._crash_isolation.is_orphan(case):
                # Its former worker is gone, and ran nothing else: this step killed it.
                self._append(case, failed(case, case.head.step, KILLED_ITS_WORKER, now=self._now()))
                continue
            self.dispatch(partition, case)

    def on_poison(self, record: Any, case: CaseCore | None, reason: str, why: str) -> None:
        """Quarantine the case of an unreadable journal record."""
        self._results.quarantine(record, case, reason, why)

    def end_without_configuration(self, case: CaseCore) -> None:
        """Close a case whose snapshot is not on the ``configs`` topic: no step can run without it."""
        reason = f"the configuration {case.config_hash[:40]!r} that it pins is not on the configs topic"
        self._results.append_aside(case, ev.CaseFailed(reason=reason, failed_step="journal", attempts=0))

    # Routing

    def dispatch(self, partition: int, case: CaseCore) -> None:
        """Send the case to the step that its head leads to, unless that step already runs."""
        if case.pinned is None or (step := self._registry.next_step(case)) is None:
            return
        head = case.head
        due = head.retry_at if isinstance(head, ev.StepFailed) else None
        if due is not None and (wait := (due - self._now()).total_seconds()) > 0:
            asyncio.get_running_loop().call_later(wait, self._due, partition, case.case_id, case.head_id)
            return
        if self._crash_isolation.line_up(partition, case):
            self._next_suspect()
            return
        self._crash_isolation.runs(case)
        mark = (case.case_id, case.head_id, len(case.replies.calls))
        if mark not in self._queued:
            self._queued.add(mark)
            self._put(step, case)

    def start(self, step: Step, case: CaseCore) -> None:
        """Run the step and start the effects that it requests. Called by the step's agent."""
        if case.is_backlog:
            self._turns.add(partial(self._start, step, case))
        else:
            self._start(step, case)

    def _start(self, step: Step, case: CaseCore) -> None:
        self._queued.discard((case.case_id, case.head_id, len(case.replies.calls)))
        partition = self._results.partition_of(case.case_id)
        if partition not in self._live_since or self.case_of(partition, case.case_id) is not case:
            return  # revoked, or moved on while it was queued: its newer state is dispatched separately
        if self._crash_isolation.hold_back(partition, case):
            return
        self.steps_started += 1
        asked = self._guarded(step, case, partial(ask, step, case))
        if isinstance(asked, ev.Event):
            self._append(case, asked)
            return
        for wanted, effect in asked.effects.items():
            self._running.spawn((case.case_id, case.head_id, wanted), self._answer(step, case, asked, wanted, effect))

    async def drain(self, timeout_s: float) -> int:
        """Start nothing new; wait up to ``timeout_s`` for running effects; return the number of those still running."""
        self._start_nothing()
        still = await self._running.wait(timeout_s)
        hit(DRAINED)
        await self._hand_back_suspect()
        return still

    def abandon(self) -> int:
        """Start nothing new and cancel everything that runs, without a result; return the number cancelled.

        For a worker without which its group has continued. Its late results would precede those of the new owners,
        whose calls would be paid for nothing.
        """
        self._start_nothing()
        running = len(self._running)
        self._running.cancel(lambda _case_id: True)
        hit(DRAINED)
        return running

    def _start_nothing(self) -> None:
        self._live_since.clear()
        self._queued.clear()
        self._crash_isolation.clear()

    async def _hand_back_suspect(self) -> None:
        # Before the partitions are released: otherwise their next owner would assume a crash.
        if (handed := self._crash_isolation.hand_back()) is not None:
            case, event = handed
            appending = asyncio.create_task(self._results.append(case, event))
            await asyncio.wait([appending], timeout=HAND_BACK_S)
            self._running.cancel(lambda case_id: case_id == case.case_id)

    def let_go(self, partitions: list[int]) -> None:
        """Cancel everything that runs for partitions that another worker owns now."""
        gone = set(partitions)
        self._live_since = {n: since for n, since in self._live_since.items() if n not in gone}
        self._running.cancel(lambda case_id: self._results.partition_of(case_id) in gone)

    async def stop(self) -> None:
        """Cancel everything that runs."""
        await self._running.stop()
        await self._results.stop()

    # Deadlines

    def sweep(self, now: datetime) -> None:
        """End work that is past its deadline: the deep path first, later the case. Called about once a second."""
        for partition, case_id, last in self._deadlines.passed(now):
            case, live = self.case_of(partition, case_id), self._live_since.get(partition)
            if case is None or live is None or case.pinned is None:
                continue
            if not self._deadlines.put_off(case, partition, last, live, now):
                self._deadlines.look_again(partition, case_id, last, now)
                self._overdue(case, last, now)

    def _overdue(self, case: CaseCore, last: bool, now: datetime) -> None:
        step = self._registry.next_step(case)
        if step is None or (not last and case.is_last_resort(step.name)):
            return
        self._running.cancel(lambda case_id: case_id == case.case_id)
        self._results.append_aside(case, cut_off(case, step.name, last=last, now=now))

    def on_clock_jump(self, now: datetime) -> None:
        """Give every open case the extra time of a start: its deadline may have passed only by the wrong clock."""
        self._live_since = dict.fromkeys(self._live_since, now)
        self._deadlines.restart_overdue()

    def oldest_overdue_s(self, now: datetime) -> float:
        """Return for how many seconds the longest overdue case has been past its deadline and extra time; 0 if none is.

        For the watchdog.
        """
        cases = ((case, live) for n, live in self._live_since.items() for case in self.open_of(n))
        return self._deadlines.longest_overdue_s(cases, now)

    # Running

    async def _answer(self, step: Step, case: CaseCore, asked: Missing, wanted: str, effect: Effect) -> None:
        bind_contextvars(
            case=case.case_id
        )  # logs of adapters and libraries then name the case; a task has its own context
        calls = await self._running.asking(self._perform(step, case, effect))
        if case.is_backlog:
            await self._turns.wait()
        event = self._guarded(step, case, partial(tell, step, case, asked, wanted, calls), calls)
        await self._results.append(case, event)

    async def _perform(self, step: Step, case: CaseCore, effect: Effect) -> tuple[Call, ...]:
        attempt = attempt_of(case, step.name)
        suspect = isinstance(case.head, ev.StepStarted)
        depth = self._registry.depth[step.name]
        if case.is_backlog:
            await self._turns.wait()  # an offline adapter computes its reply in this turn
        place = self._places.alone() if suspect else self._places.one(step.name, depth, is_backlog=case.is_backlog)
        async with place:
            hit(EFFECT_BEFORE)
            calls = await self._host.perform(
                effect,
                case_id=case.case_id,
                head_id=case.head_id,
                attempt=attempt,
                claim_kinds=case.claim_kinds,
                source_group=case.source_group,
            )
            hit(EFFECT_ANSWERED)
            return calls

    def _guarded(self, step: Step, case: CaseCore, code: Callable[[], T], calls: tuple[Call, ...] = ()) -> T | ev.Event:
        """Run a step's code. An exception becomes the event that logs the failure, with the given calls."""
        try:
            with self._slot.executing(case.head_id):
                return code()
        except Exception as exc:
            if not isinstance(exc, StepFailure):
                log.exception("a step raised", step=step.name, case=case.case_id)
            return with_calls(failed(case, step.name, failure_of(exc), now=self._now()), calls)

    def _append(self, case: CaseCore, event: ev.Event) -> None:
        self._running.spawn((case.case_id, case.head_id, ""), self._results.append(case, event))

    def _is_head(self, case_id: str, head_id: str) -> bool:
        case = self.case_of(self._results.partition_of(case_id), case_id)
        return case is not None and case.head_id == head_id

    def _on_end(self) -> None:
        if not self._running and self._crash_isolation.waiting:
            self._next_suspect()

    def _due(self, partition: int, case_id: str, head_id: str) -> None:
        case = self.case_of(partition, case_id)
        if case is not None and case.head_id == head_id and partition in self._live_since:
            self.dispatch(partition, case)

    @property
    def suspects(self) -> int:
        """Number of suspects found since startup."""
        return self._crash_isolation.found

    def _next_suspect(self) -> None:
        for partition, case_id, head_id in self._crash_isolation.due(busy=bool(self._running)):
            case = self.case_of(partition, case_id)
            step = None if case is None or case.head_id != head_id else self._registry.next_step(case)
            if case is not None and step is not None and partition in self._live_since:
                started = self._crash_isolation.isolate(case, step.name)
                log.warning("a step crashed its worker repeatedly; it now runs alone", step=step.name, case=case_id)
                self._results.append_aside(case, started)
                return
        for case_id, partition in self._crash_isolation.released().items():
            if (case := self.case_of(partition, case_id)) is not None and partition in self._live_since:
                self.dispatch(partition, case)


class Turns:
    """A queue of computations for the backlog. Each turn of the event loop runs a few of them.

    Without it, one turn runs every computation that is ready: hundreds, of some milliseconds each, before one for fresh
    news. The number in a turn adapts: one more after a short turn, half as many after a long one.
    """

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()
        self._admitted = 1
        self._began: float | None = None

    def add(self, compute: Callable[[], None]) -> None:
        """Add a computation, which runs in one of the next turns."""
        self._waiting.append(compute)
        if self._began is None:
            self._schedule()

    async def wait(self) -> None:
        """Wait for one of the next turns."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.add(lambda: None if turn.done() else turn.set_result(None))
        await turn

    def _schedule(self) -> None:
        loop = asyncio.get_running_loop()
        self._began = loop.time()
        loop.call_soon(self._next)

    def _next(self) -> None:
        assert self._began is not None
        took = asyncio.get_running_loop().time() - self._began
        self._admitted = max(1, self._admitted // 2) if took > LONGEST_S else min(MOST, self._admitted + 1)
        turn = [self._waiting.popleft() for _ in range(min(self._admitted, len(self._waiting)))]
        if turn:
            self._schedule()  # even if none waits now, to measure the length of this turn
        else:
            self._began = None
        for compute in turn:
            compute()
