"""The worker: the one place where the runtime is put together, and its life from start to a clean end.

    news ─► intake ─► journal ─► projector ─► dispatcher ─► step agents ─► effects ─► append ─► journal …
                                     └────────► publisher (one active) ─► signals

One Faust app: an agent on ``news``, one on the journal, and one per step on an in-memory channel.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import faust
import msgspec
import structlog
from faust.types import TP

from agents.case import Case
from agents.registry import Registry
from agents.step import Step
from infra.kafka import KafkaAddress
from infra.ports import Ports
from schemas.config import Snapshot
from schemas.errors import ConfigError, TransientError
from schemas.ids import LIVE_RUN
from schemas.topics import Topics
from streams.append import Appender
from streams.bulkhead import Places
from streams.configs import ConfigStore
from streams.dispatcher import Dispatcher
from streams.effects import EffectsHost
from streams.intake import Intake
from streams.ledger import LedgerApp, QuietMonitor
from streams.projector import Projector, utc_now
from streams.slot_file import SlotFile

log = structlog.get_logger(__name__)

GRACE_ON_REVOKE_S = 5.0
"""What running effects get when partitions are revoked; what is still running then may be paid twice, and is counted."""
CLOSE_EACH_S = 15.0
OVERDUE_EXIT_S = 60.0
STALL_EXIT_S = 60.0


class WorkerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a worker runs. Times in seconds; see the settings of the same names."""

    slot: str = "0"
    slot_dir: Path = Path(".data/slots")
    partitions: int = 4
    max_open_cases: int = 2000
    step_concurrency: int = 64
    effects_in_flight: int = 256
    dedup_days: int = 30
    crash_suspect_after: int = 3
    session_timeout_s: float = 10.0
    heartbeat_s: float = 2.0
    commit_interval_s: float = 1.0


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
    ) -> None:
        self.topics, self.options, self.snapshot = topics, options, snapshot
        self._address = address
        self._registry = registry
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.group = topics.group("worker")
        self._slot = SlotFile(options.slot_dir, options.slot)
        self.appender = Appender(address)
        self.configs = ConfigStore(address, topics)
        self._host = EffectsHost(ports)
        self.places = Places(options.effects_in_flight, options.step_concurrency)
        self.dispatcher = Dispatcher(
            registry,
            self._host,
            self.appender,
            self.places,
            self._slot,
            topic=topics.cases,
            partitions=options.partitions,
            dead_letters=topics.dead_letters,
            suspect_after=options.crash_suspect_after,
        )
        self.projector = Projector(address, topics.cases, self.group, self.configs, self, run_id=LIVE_RUN)
        self.dispatcher.case_of = lambda n, case: (
            p.cases.get(case) if (p := self.projector.partitions.get(n)) is not None else None
        )
        self.dispatcher.open_of = lambda n: list(self.projector.partitions[n].cases.values())
        self.intake = Intake(
            address,
            topics,
            self.group,
            self.appender,
            partitions=options.partitions,
            max_open_cases=options.max_open_cases,
            dedup_days=options.dedup_days,
            open_cases=lambda: self.projector.open_cases,
            owns_journal=lambda n: n in self.projector.partitions,
            config_hash=lambda: self._config_hash,
        )
        self._config_hash = ""
        self.projector.on_fatal = self.intake.on_fatal = self.fail
        self.app = self._faust_app()
        self.repaid_at_rebalance = 0

    # Life

    async def run(self) -> None:
        """Run until :meth:`stop`.

        Raises:
            NewsproofError: what a person must mend (a moved log, a newer schema, a taken slot).
        """
        await self.appender.start()
        await self.configs.start()
        self._config_hash = await self.configs.publish(self.snapshot, self.appender)
        sweeping = asyncio.create_task(self._sweep(), name="sweep")
        await self.app.start()
        app_end = asyncio.ensure_future(self.app.wait_until_stopped())
        try:
            await asyncio.wait({self._ended, app_end}, return_when=asyncio.FIRST_COMPLETED)
            if self._ended.done():
                self._ended.result()
            elif self.app.crashed:
                raise TransientError(
                    f"the Kafka consumer ended: {self.app.crash_reason!r}; start the worker again", kind="unavailable"
                ) from self.app.crash_reason
        finally:
            sweeping.cancel()
            await self._close(app_end)

    def stop(self) -> None:
        """Ask for a clean end."""
        if not self._ended.done():
            self._ended.set_result(None)

    def fail(self, exc: BaseException) -> None:
        """End with this error."""
        if not self._ended.done():
            self._ended.set_exception(exc)

    async def _close(self, app_end: asyncio.Future[Any]) -> None:
        self.intake.revoke()
        app_end.cancel()
        parts: list[Callable[[], Awaitable[Any]]] = [
            lambda: self.dispatcher.drain(GRACE_ON_REVOKE_S),
            lambda: self.appender.flush(GRACE_ON_REVOKE_S),
            self.app.stop,
            self.dispatcher.stop,
            self.projector.stop,
            self.configs.stop,
            self.appender.stop,
            self._host.close,
        ]
        for close in parts:
            # A part that cannot close must not keep the others open: what was appended is in the log already.
            try:
                await asyncio.wait_for(close(), CLOSE_EACH_S)
            except Exception as exc:
                log.warning("a part did not close", part=getattr(close, "__qualname__", "?"), error=repr(exc))
        self._slot.close()

    async def _sweep(self) -> None:
        previous: dict[int, tuple[int, float]] = {}
        while True:
            await asyncio.sleep(1.0)
            now = utc_now()
            self.dispatcher.sweep(now)
            if self.dispatcher.oldest_overdue_s(now) > OVERDUE_EXIT_S:
                self.fail(
                    TransientError("a case is open a minute past its deadline: the worker restarts", kind="internal")
                )
            await self._watch_stall(previous)

    async def _watch_stall(self, previous: dict[int, tuple[int, float]]) -> None:
        # Faust's own check compares a monotonic clock with an epoch one and never fires.
        loop_time = asyncio.get_running_loop().time()
        for number, p in self.projector.partitions.items():
            position, since = previous.get(number, (-1, loop_time))
            end = self.app.consumer.highwater(TP(self.topics.cases, number)) or 0
            if p.accepted.position != position or end <= p.accepted.position:
                previous[number] = (p.accepted.position, loop_time)
            elif loop_time - since > STALL_EXIT_S:
                self.fail(
                    TransientError(
                        f"nothing was read from {self.topics.cases}-{number} for a minute although "
                        "there is more: the worker restarts",
                        kind="internal",
                    )
                )

    # What the projector says

    def on_folded(self, partition: int, case: Case) -> None:
        """Pass on to the dispatcher; tell intake that an opening arrived."""
        if case.seq == 0:
            self.intake.on_case_seen(case.case_id)
        self.dispatcher.on_folded(partition, case)

    def on_closed(self, partition: int, case: Case) -> None:
        """Pass on; there is room for one more."""
        self.dispatcher.on_closed(partition, case)
        self.intake.on_case_seen(case.case_id)

    def on_live(self, partition: int) -> None:
        """Pass on."""
        self.dispatcher.on_live(partition)

    def on_poison(self, record: Any, case: Case | None, reason: str, why: str) -> None:
        """Pass on."""
        self.dispatcher.on_poison(record, case, reason, why)

    # Faust

    def _faust_app(self) -> LedgerApp:
        o = self.options
        app = LedgerApp(
            self.group,
            broker=f"kafka://{self._address.bootstrap.replace(',', ';kafka://')}",
            broker_credentials=self._credentials(),
            key_serializer="raw",
            value_serializer="raw",
            store="memory://",
            datadir=str(o.slot_dir / f"faust-{o.slot}"),
            Monitor=QuietMonitor,
            web_enabled=False,
            web_bind="127.0.0.1",
            processing_guarantee="at_least_once",
            topic_disable_leader=True,
            topic_allow_declare=False,
            stream_wait_empty=False,
            stream_buffer_maxsize=16_384,
            broker_max_poll_records=3000,
            broker_session_timeout=o.session_timeout_s,
            broker_heartbeat_interval=min(o.heartbeat_s, o.session_timeout_s / 4),
            broker_rebalance_timeout=max(15.0, GRACE_ON_REVOKE_S + o.session_timeout_s),
            broker_commit_interval=o.commit_interval_s,
            consumer_group_instance_id=f"{self.group}-{o.slot}",
            consumer_auto_offset_reset="earliest",
            consumer_max_fetch_size=8 * 1024 * 1024,
            producer_linger=0,
            producer_compression_type="lz4",
        )
        app.safe_offset = self._safe_offset
        app.on_partitions_revoked.connect(self._on_revoked)
        app.on_partitions_assigned.connect(self._on_assigned)
        self._add_agents(app)
        app.finalize()
        return app

    def _add_agents(self, app: LedgerApp) -> None:
        raw = {
            "key_type": bytes,
            "value_type": bytes,
            "key_serializer": "raw",
            "value_serializer": "raw",
            "acks": False,
        }
        cases = app.topic(self.topics.cases, **raw)
        news = app.topic(self.topics.news, **raw)

        async def project(stream: Any) -> None:
            on_record = self.projector.on_record
            async for event in stream.noack().events():
                on_record(event.message)

        async def take_in(stream: Any) -> None:
            on_record = self.intake.on_record
            async for event in stream.noack().events():
                on_record(event.message)

        app.agent(cases, name="projector")(project)
        app.agent(news, name="intake")(take_in)
        channels = {name: self._add_step_agent(app, step) for name, step in self._registry.steps.items()}

        def put(step: Step, case: Case) -> None:
            for subscriber in channels[step.name]._subscribers:
                subscriber.queue.put_nowait(case)  # without waiting: ``put`` hangs while the flow is suspended

        self.dispatcher.put = put
        self.intake.hold = lambda n: app.consumer.on_buffer_full(TP(self.topics.news, n))
        self.intake.release = lambda n: app.consumer.on_buffer_drop(TP(self.topics.news, n))

    def _add_step_agent(self, app: LedgerApp, step: Step) -> Any:
        channel = app.channel(maxsize=0)

        async def run_step(stream: Any) -> None:
            start = self.dispatcher.start
            async for case in stream.noack():
                start(step, case)

        app.agent(channel, name=f"step-{step.name}")(run_step)
        return channel

    def _credentials(self) -> Any:
        a = self._address
        if a.sasl_mechanism:
            return faust.SASLCredentials(
                mechanism=a.sasl_mechanism,
                username=a.username,
                password=a.password,
                ssl_context=a.client_args()["ssl_context"],
            )
        return faust.SSLCredentials(a.client_args()["ssl_context"]) if a.security_protocol == "SSL" else None

    def _safe_offset(self, topic: str, partition: int) -> int | None:
        if topic == self.topics.cases:
            return self.projector.safe_offset(partition)
        return self.intake.safe_offset(partition)

    async def _on_revoked(self, _app: Any, revoked: set[TP], **_: Any) -> None:
        self.projector.revoke()
        still = await self.dispatcher.drain(GRACE_ON_REVOKE_S)
        self.repaid_at_rebalance += still
        await self.appender.flush(GRACE_ON_REVOKE_S)

    async def _on_assigned(self, app: Any, assigned: set[TP], **_: Any) -> None:
        cases = {tp.partition for tp in assigned if tp.topic == self.topics.cases}
        news = {tp.partition for tp in assigned if tp.topic == self.topics.news}
        log.info("assigned", slot=self.options.slot, cases=sorted(cases), news=sorted(news))

        async def when_flowing() -> None:
            await app.flow_control.acquire()

        gone = self.projector.assign(cases, when_flowing)
        self.dispatcher.let_go(gone)
        self.intake.assign(news)


async def refuse_taken_slot(address: KafkaAddress, group: str, slot: str) -> None:
    """Refuse to start while a live worker elsewhere holds this slot's static membership.

    Raises:
        ConfigError: names the slot and what to change.
    """
    async with address.admin() as admin:
        described = await admin.describe_consumer_groups([group])
    # The broker names a static member after its instance id: "<instance id>-<UUID>".
    holder = re.compile(re.escape(f"{group}-{slot}-") + "[0-9a-f-]{36}")
    if any(holder.fullmatch(m[0]) for response in described for g in response.groups for m in g[5]):
        raise ConfigError(f"a worker with WORKER_SLOT={slot!r} is in the group {group}: give this one its own slot")
