"""The worker: life cycle of a composed runtime, from start to clean shutdown, with its rebalances.

    news ─► gate ─► journal ─► projector ─► dispatcher ─► step agents ─► effects ─► append ─► journal …
                                   └────────► publisher (one active) ─► signals

One Faust app: an agent on ``news``, one on the journal, and one per step on an in-memory channel. The registry
determines the worker's flow; a flow without news, such as the research chat, has no gate.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import structlog
from faust.types import TP

from agents.core.case_core import CaseCore
from schemas.config import Snapshot
from schemas.errors import TransientError
from schemas.topics import Topics
from streams.effects.breakers import BreakerState
from streams.effects.bulkhead import EffectSlots
from streams.effects.host import EffectsHost
from streams.effects.meter import Meter
from streams.effects.spending import Budget
from streams.ending import Ending
from streams.faust.ledger import LedgerApp
from streams.intake.admission import Admission
from streams.intake.gate import Gate
from streams.intake.intake import Intake
from streams.journal.appender import Appender
from streams.journal.clock import utc_now
from streams.journal.configs import ConfigStore
from streams.runtime.dispatcher import Dispatcher
from streams.runtime.options import GRACE_ON_REVOKE_S, WorkerOptions
from streams.runtime.projector import Projector
from streams.runtime.watchdog import Watchdog
from streams.runtime.worker_slot import WorkerSlot

log = structlog.get_logger(__name__)

CLOSE_EACH_S = 15.0
CLOCK_JUMP_S = 10.0
"""Difference between the wall clock and the monotonic clock, within a second, that counts as a clock jump."""
KEEP_S = 60.0
"""Interval of saving tombstones to disk. After a kill, the next start reads at most this much of the log again."""
UNPINNED_END_S = 60.0
"""Time after which a case without its snapshot ends. Snapshots are in the log before a case pins them: it is lost."""


class Listeners:
    """Passes the projector's events to the gate, the meter and the dispatcher, in the order that each event needs."""

    def __init__(self, gate: Gate | None, meter: Meter, dispatcher: Dispatcher) -> None:
        self._gate, self._meter, self._dispatcher = gate, meter, dispatcher

    def on_folded(self, partition: int, case: Any) -> None:
        if self._gate is not None:
            self._gate.on_folded(partition, case)
        self._meter.folded(case)
        self._dispatcher.on_folded(partition, case)

    def on_closed(self, partition: int, case: Any) -> None:
        self._meter.closed(case)
        self._dispatcher.on_closed(partition, case)
        if self._gate is not None:
            self._gate.on_closed(case)

    def on_live(self, partition: int) -> None:
        self._dispatcher.on_live(partition)
        if self._gate is not None:
            self._gate.on_live(partition)

    def on_poison(self, record: Any, case: CaseCore | None, reason: str, why: str) -> None:
        self._dispatcher.on_poison(record, case, reason, why)


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """The components of a worker. ``gate`` is None if the flow has no news."""

    app: LedgerApp
    ending: Ending
    slot: WorkerSlot
    appender: Appender
    configs: ConfigStore
    budget: Budget
    effects: EffectsHost
    places: EffectSlots
    meter: Meter
    dispatcher: Dispatcher
    projector: Projector
    watchdog: Watchdog
    gate: Gate | None


class Worker:
    """The runtime of one worker process. ``run`` returns after :meth:`stop`, and raises fatal errors."""

    def __init__(self, topics: Topics, group: str, snapshot: Snapshot, options: WorkerOptions, parts: Parts) -> None:
        self.topics, self.group, self.snapshot, self.options = topics, group, snapshot, options
        self.app, self.ending, self._slot = parts.app, parts.ending, parts.slot
        self.appender, self.configs, self.budget = parts.appender, parts.configs, parts.budget
        self.effects, self.places, self.meter = parts.effects, parts.places, parts.meter
        self.dispatcher, self.projector, self._watchdog = parts.dispatcher, parts.projector, parts.watchdog
        self.gate = parts.gate
        self.topic = self.projector.topic
        self.assigned, self.repaid_at_rebalance = False, 0
        self.app.on_partitions_revoked.connect(self._on_revoked)
        self.app.on_partitions_assigned.connect(self._on_assigned)

    # Life cycle

    async def run(self) -> None:
        """Run until :meth:`stop`.

        Raises:
            NewsproofError: an error that a person must fix (a moved log, a newer schema, a slot in use).
        """
        await self.appender.start()
        await self.configs.start()
        await self.configs.adopt(self.snapshot, self.appender)
        await self.budget.start()
        own = [
            asyncio.create_task(self._sweep(), name="sweep"),
            asyncio.create_task(self._keep(), name="keep-tombstones"),
            *(() if self.gate is None else (asyncio.create_task(self.gate.looks.run(), name="second-looks"),)),
        ]
        for task in (*own, self.configs.following):
            self.ending.watch(task)
        await self.app.start()
        app_end = asyncio.ensure_future(self.app.wait_until_stopped())
        asked = asyncio.ensure_future(self.ending.wait())
        try:
            await asyncio.wait({asked, app_end}, return_when=asyncio.FIRST_COMPLETED)
            if self.ending.over:
                await asked
            else:
                raise TransientError(
                    f"the Kafka consumer ended: {self.app.crash_reason!r}; start the worker again", kind="unavailable"
                ) from self.app.crash_reason
        finally:
            for task in (*own, asked):
                task.cancel()
            await self._close(app_end)

    async def adopt(self, snapshot: Snapshot) -> str:
        """Make new cases pin this snapshot, and return its hash. Open cases keep theirs.

        The snapshot is in the log before any case pins it.

        Raises:
            ContractError, KafkaError: the snapshot could not be written; new cases keep the previous one.
        """
        config_hash = await self.configs.adopt(snapshot, self.appender)
        self.snapshot = snapshot
        return config_hash

    def stop(self) -> None:
        """Request a clean shutdown."""
        self.ending.stop()

    async def _close(self, app_end: asyncio.Future[Any]) -> None:
        if self.gate is not None:
            self.gate.intake.halt()
        app_end.cancel()
        parts: list[Callable[[], Awaitable[Any]]] = [
            lambda: self.dispatcher.drain(GRACE_ON_REVOKE_S),
            lambda: self.appender.flush(GRACE_ON_REVOKE_S),
            self.app.stop,
            self.dispatcher.stop,
            self.projector.stop,
            *(() if self.gate is None else (self.gate.remote_partitions.stop, self.gate.intake.close)),
            self.configs.stop,
            self.appender.stop,
            self.effects.close,
            self.budget.stop,
        ]
        for close in parts:
            # A component that does not close must not keep the others open: everything appended is in the log already.
            # Not ``wait_for``, which would wait for an effect that ignores its cancellation.
            closing = asyncio.ensure_future(close())
            await asyncio.wait([closing], timeout=CLOSE_EACH_S)
            if not closing.done() or closing.cancelled() or closing.exception() is not None:
                log.warning(
                    "a component did not close", part=getattr(close, "__qualname__", "?"), state=repr(closing)[:300]
                )
        self._slot.close()

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(KEEP_S)
            await self.projector.keep_tombstones()

    async def _sweep(self) -> None:
        time, wall = asyncio.get_running_loop().time, utc_now()
        began = time()
        while True:
            await asyncio.sleep(1.0)
            now = utc_now()
            jumped_s = (now - wall).total_seconds() - (time() - began)
            wall, began = now, time()
            if abs(jumped_s) > CLOCK_JUMP_S:
                log.warning(
                    "the clock jumped; open cases get a new grace. Check the time service of this machine",
                    by_seconds=round(jumped_s, 1),
                )
                self.dispatcher.on_clock_jump(now)
            self.dispatcher.sweep(now)
            if self.gate is not None:
                self.gate.admission.wake()
            self.budget.tend(elected=self.gate is not None and 0 in self.projector.partitions)
            for case in self.projector.without_configuration(UNPINNED_END_S):
                self.dispatcher.end_without_configuration(case)
            late_s = self.dispatcher.oldest_overdue_s(now)
            if (why := await self._watchdog.look(asyncio.get_running_loop().time(), late_s)) is not None:
                self.ending.fail(TransientError(why, kind="internal"))

    @property
    def folds(self) -> Path:
        """The directory in which this worker stores what it has folded of the log."""
        return self.options.fold_directory(self.topics)

    def breakers(self) -> Sequence[BreakerState]:
        """Snapshots of the breakers of every provider called so far."""
        return self.effects.states()

    @property
    def intake(self) -> Intake:
        """The intake. Only a worker with a gate has one."""
        assert self.gate is not None
        return self.gate.intake

    @property
    def admission(self) -> Admission:
        """The admission. Only a worker with a gate has one."""
        assert self.gate is not None
        return self.gate.admission

    @property
    def intake_paused(self) -> str | None:
        """Reason why news waits now; None if more cases may be opened, or if no news waits."""
        return None if self.gate is None else self.gate.paused_by(self.effects)

    @property
    def intake_loading(self) -> bool:
        """True while the index of opened news is loading for any partition of ``news``."""
        return self.gate is not None and self.gate.intake.loading

    def highwater(self, topic: str, partition: int) -> int | None:
        """Return the end offset of a partition as of the last fetch from it; None before the first one."""
        return self.app.highwater(topic, partition)

    def stalled_s(self, loop_time: float) -> dict[int, float]:
        """Return for how many seconds each journal partition has had unread records without any being read; else 0."""
        return self._watchdog.stalled_s(loop_time)

    # Faust

    async def _on_revoked(self, _app: Any, revoked: set[TP], **_: Any) -> None:
        self.assigned = False
        self.projector.revoke()
        if self.gate is not None:
            self.gate.admission.pause()
        dropped = bool(revoked) and self.app.consumer.is_dropped
        still = self.dispatcher.abandon() if dropped else await self.dispatcher.drain(GRACE_ON_REVOKE_S)
        self.repaid_at_rebalance += still
        await self.appender.flush(GRACE_ON_REVOKE_S)

    async def _on_assigned(self, app: Any, assigned: set[TP], **_: Any) -> None:
        cases = {tp.partition for tp in assigned if tp.topic == self.topic}
        news = {tp.partition for tp in assigned if tp.topic == self.topics.news}
        log.info("assigned", slot=self.options.slot, cases=sorted(cases), news=sorted(news))

        async def when_flowing() -> None:
            await app.flow_control.acquire()

        self._watchdog.assigned()
        gone = self.projector.assign(cases, when_flowing)
        self.dispatcher.let_go(gone)
        if self.gate is not None:
            self.gate.assign(cases, news)
        self.assigned = True
