"""The worker: the one place where the runtime is put together, and its life from start to a clean end.

    news ─► gate ─► journal ─► projector ─► dispatcher ─► step agents ─► effects ─► append ─► journal …
                                   └────────► publisher (one active) ─► signals

One Faust app: an agent on ``news``, one on the journal, and one per step on an in-memory channel. The registry says whose
worker it is: that of a flow without news, such as the research chat, has no gate.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import structlog
from faust.types import TP

from agents.core.case_core import CaseCore
from agents.core.registry import Registry
from agents.graphs import NEWS
from infra.kafka.topics import KafkaAddress
from infra.ports import Ports
from schemas.config import Snapshot
from schemas.errors import TransientError
from schemas.topics import Topics
from streams.effects.breakers import Breakers, BreakerState
from streams.effects.bulkhead import EffectSlots
from streams.effects.host import EffectsHost
from streams.effects.meter import Meter
from streams.effects.search_cache import SearchCache
from streams.effects.spending import Budget, Unlimited
from streams.faust.app import add_agents, faust_app
from streams.faust.ledger import LedgerApp, QuietMonitor
from streams.intake.admission import Admission
from streams.intake.gate import Gate
from streams.intake.intake import Intake
from streams.journal.appender import Appender
from streams.journal.clock import utc_now
from streams.journal.configs import ConfigStore
from streams.runtime.dispatcher import Dispatcher
from streams.runtime.options import GRACE_ON_REVOKE_S, WorkerOptions
from streams.runtime.projector import Projector
from streams.runtime.results import Results
from streams.runtime.watchdog import Watchdog
from streams.runtime.worker_slot import WorkerSlot

log = structlog.get_logger(__name__)

CLOSE_EACH_S = 15.0
UNPINNED_END_S = 60.0
"""A snapshot is read back before a case pins it; one that has not come by then is not there, and the case ends."""


class Worker:
    """One worker process's runtime. ``run`` returns when it was stopped, and raises what it cannot go on from."""

    def __init__(
        self,
        address: KafkaAddress,
        topics: Topics,
        registry: Registry,
        ports: Ports,
        snapshot: Snapshot,
        options: WorkerOptions,
        *,
        spending: Budget | None = None,
        searches: SearchCache | None = None,
    ) -> None:
        self.topics, self.options, self.snapshot = topics, options, snapshot
        self._address = address
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        flow = registry.flow
        self.topic = topics.journal(flow.name)
        self.group = topics.group("worker" if flow is NEWS else flow.name)
        self._slot = WorkerSlot(options.slot_dir, options.slot)
        self.appender = Appender(address)
        self.configs = ConfigStore(address, topics)
        self.budget = spending or Unlimited()
        self.effects = EffectsHost(ports, spending=self.budget, breakers=Breakers(options.breakers), searches=searches)
        self.places = EffectSlots(options.effects_in_flight, options.step_concurrency)
        results = Results(registry, self.appender, topics, options.partitions)
        self.meter = Meter(registry)
        results.on_appending = self.meter.appending
        self.dispatcher = Dispatcher(
            registry, self.effects, results, self.places, self._slot, suspect_after=options.crash_suspect_after
        )
        self.projector = Projector(address, self.topic, self.group, flow, self.configs, self)
        self.dispatcher.case_of = lambda n, case: (
            p.cases.get(case) if (p := self.projector.partitions.get(n)) is not None else None
        )
        self.dispatcher.open_of = lambda n: list(self.projector.partitions[n].cases.values())
        self._config_hash = ""
        self.projector.on_fatal = self.budget.on_fatal = self.fail
        self.projector.on_calls = self.budget.on_calls
        self.budget.elected = lambda: flow is NEWS and 0 in self.projector.partitions
        self.gate = self._gated(address) if flow is NEWS else None
        self._watchdog = Watchdog(self.projector, lambda n: self.highwater(self.topic, n) or 0)
        self.app = self._app(registry)
        self.assigned, self.repaid_at_rebalance = False, 0

    def _gated(self, address: KafkaAddress) -> Gate:
        gate = Gate(
            address, self.topics, self.group, self.appender, self.projector, self.options,
            config_hash=lambda: self._config_hash,
        )  # fmt: skip
        gate.intake.on_fatal = self.fail
        self.budget.on_move = self.effects.breakers.on_change = gate.admission.wake
        gate.admission.budget_says = lambda n: self.effects.may_admit(n) or self.budget.may_admit(n)
        return gate

    def _app(self, registry: Registry) -> LedgerApp:
        app = faust_app(self.group, self._address, self.options, QuietMonitor)
        app.safe_offset = self._safe_offset
        app.on_partitions_revoked.connect(self._on_revoked)
        app.on_partitions_assigned.connect(self._on_assigned)
        add_agents(
            app, self.topics, registry, self.projector, self.dispatcher, None if self.gate is None else self.gate.intake
        )
        app.finalize()
        return app

    # Life

    async def run(self) -> None:
        """Run until :meth:`stop`.

        Raises:
            NewsproofError: what a person must mend (a moved log, a newer schema, a taken slot).
        """
        await self.appender.start()
        await self.configs.start()
        self._config_hash = await self.configs.publish(self.snapshot, self.appender)
        await self.budget.start()
        sweeping = asyncio.create_task(self._sweep(), name="sweep")
        sweeping.add_done_callback(lambda t: None if t.cancelled() else self.fail(t.exception() or AssertionError()))
        await self.app.start()
        app_end = asyncio.ensure_future(self.app.wait_until_stopped())
        try:
            await asyncio.wait({self._ended, app_end}, return_when=asyncio.FIRST_COMPLETED)
            if self._ended.done():
                self._ended.result()
            else:
                raise TransientError(
                    f"the Kafka consumer ended: {self.app.crash_reason!r}; start the worker again", kind="unavailable"
                ) from self.app.crash_reason
        finally:
            sweeping.cancel()
            await self._close(app_end)

    async def adopt(self, snapshot: Snapshot) -> str:
        """Let new cases pin this snapshot, and return its hash; open cases keep theirs. It is on the log before any pins it.

        Raises:
            ContractError, KafkaError: the snapshot could not be written; new cases go on with the one before.
        """
        config_hash = await self.configs.publish(snapshot, self.appender)
        self.snapshot, self._config_hash = snapshot, config_hash
        return config_hash

    def stop(self) -> None:
        """Ask for a clean end."""
        if not self._ended.done():
            self._ended.set_result(None)

    def fail(self, exc: BaseException) -> None:
        """End with this error."""
        if not self._ended.done():
            self._ended.set_exception(exc)

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
            *(() if self.gate is None else (self.gate.remote_partitions.stop,)),
            self.configs.stop,
            self.appender.stop,
            self.effects.close,
            self.budget.stop,
        ]
        for close in parts:
            # A part that cannot close must not keep the others open: what was appended is in the log already. Not
            # ``wait_for``: it would wait for an effect that does not heed its cancellation.
            closing = asyncio.ensure_future(close())
            await asyncio.wait([closing], timeout=CLOSE_EACH_S)
            if not closing.done() or closing.cancelled() or closing.exception() is not None:
                log.warning("a part did not close", part=getattr(close, "__qualname__", "?"), state=repr(closing)[:300])
        self._slot.close()

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            now = utc_now()
            self.dispatcher.sweep(now)
            if self.gate is not None:
                self.gate.admission.wake()
            self.budget.tend()
            for case in self.projector.without_configuration(UNPINNED_END_S):
                self.dispatcher.end_without_configuration(case)
            late_s = self.dispatcher.oldest_overdue_s(now)
            if (why := await self._watchdog.look(asyncio.get_running_loop().time(), late_s)) is not None:
                self.fail(TransientError(why, kind="internal"))

    def breakers(self) -> Sequence[BreakerState]:
        """Return the breakers of every provider that was asked so far."""
        return self.effects.states()

    @property
    def intake(self) -> Intake:
        """Where news comes in; only of a worker with a gate."""
        assert self.gate is not None
        return self.gate.intake

    @property
    def admission(self) -> Admission:
        """Who holds news back; only of a worker with a gate."""
        assert self.gate is not None
        return self.gate.admission

    @property
    def intake_paused(self) -> str | None:
        """Why news waits now; None while there is room for more cases, or nothing waits."""
        return None if self.gate is None else self.gate.paused_by(self.effects)

    @property
    def intake_loading(self) -> bool:
        """Whether the index of what was opened before is still being read for some news partition."""
        return self.gate is not None and self.gate.intake.loading

    def highwater(self, topic: str, partition: int) -> int | None:
        """The end of a partition as the last fetch from it saw it; None before the first one."""
        tp = TP(topic, partition)  # in a rebalance it may be in our hands still and out of the consumer's, who asserts
        return self.app.consumer.highwater(tp) if tp in self.app.consumer.assignment() else None

    def stalled_s(self, loop_time: float) -> dict[int, float]:
        """Seconds for which nothing was read of a journal partition although there is more; 0 for the others."""
        return self._watchdog.stalled_s(loop_time)

    # What the projector says

    def on_folded(self, partition: int, case: Any) -> None:
        """Pass on."""
        if self.gate is not None:
            self.gate.on_folded(partition, case)
        self.meter.folded(case)
        self.dispatcher.on_folded(partition, case)

    def on_closed(self, partition: int, case: Any) -> None:
        """Pass on."""
        self.meter.closed(case)
        self.dispatcher.on_closed(partition, case)
        if self.gate is not None:
            self.gate.on_closed(case)

    def on_live(self, partition: int) -> None:
        """Pass on."""
        self.dispatcher.on_live(partition)
        if self.gate is not None:
            self.gate.on_live(partition)

    def on_poison(self, record: Any, case: CaseCore | None, reason: str, why: str) -> None:
        """Pass on."""
        self.dispatcher.on_poison(record, case, reason, why)

    # Faust

    def _safe_offset(self, topic: str, partition: int) -> int | None:
        if topic == self.topic:
            return self.projector.safe_offset(partition)
        return self.intake.safe_offset(partition)

    async def _on_revoked(self, _app: Any, revoked: set[TP], **_: Any) -> None:
        self.assigned = False
        self.projector.revoke()
        if self.gate is not None:
            self.gate.admission.pause()
        still = await self.dispatcher.drain(GRACE_ON_REVOKE_S)
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
