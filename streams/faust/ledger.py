"""The ledger: which offsets may be committed. It replaces Faust's acknowledgements, which lose records.

Measured on Faust 0.15.3 (``faust/transport/consumer.py``): ``_new_offset`` compares with ``> 1``, has no guard for a
fresh group, drops its ledger on revoke, and counts failed commits as done. Here the runtime reports the safe offset of
each partition, and the consumer commits exactly that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import faust
from aiokafka import AIOKafkaConsumer
from aiokafka.errors import RebalanceInProgressError
from faust.sensors.monitor import Monitor
from faust.tables.manager import TableManager
from faust.transport.drivers.aiokafka import AIOKafkaConsumerThread
from faust.transport.drivers.aiokafka import Consumer as FaustConsumer
from faust.transport.drivers.aiokafka import Transport as FaustTransport
from faust.types import TP
from mode.utils.futures import maybe_async

from infra.kafka.fetch_waits import lengthen_when_quiet
from infra.kafka.positions import skip_to
from streams.failpoints import COMMIT_BEFORE, hit

CHUNK = 50
"""Records passed to a stream as one item, and folded in one turn of the event loop.

A hop through Faust's stream was measured at 30 us a record; a chunk shares it.
"""


class Reader(Protocol):
    """Consumer of a topic's records that reports how far they are processed."""

    def on_record(self, record: Any) -> None: ...

    def safe_offset(self, partition: int) -> int | None:
        """Return the offset that may be committed now; None while nothing is known of that partition."""
        ...


FETCH_MAX_WAIT_MS = 25
"""Maximum wait of a fetch at the broker.

aiokafka runs one fetch per broker, without the partitions that still have unread records: while the fetch waits for
other partitions, those are not read. Faust's fixed 1,500 ms was measured to stall the journal for over a second at a
time under load. At 25 ms a worker sends 40 small requests a second, until no record has come for a while
(:mod:`infra.kafka.fetch_waits`).
"""


class LedgerConsumerThread(AIOKafkaConsumerThread):  # type: ignore[misc]
    """Faust's consumer "thread" without the thread, and with short waits at the broker.

    Two busy threads pass the interpreter lock to each other at every system call: sends on the worker's own sockets
    were measured at 0.7 ms each that way. Here the consumer runs on the worker's loop and calls are plain awaits. The
    price is that heartbeats share the loop: a step must never block it (the session timeout is 10 s).
    """

    def _create_worker_consumer(self, transport: Any) -> Any:
        consumer = super()._create_worker_consumer(transport)
        consumer._fetch_max_wait_ms = FETCH_MAX_WAIT_MS
        return consumer

    async def start(self) -> None:
        self._thread_started.set()
        self._started.set()
        await self.on_start()
        refuse_commits_while_joining(self._consumer)
        lengthen_when_quiet(self._consumer)
        for task in (self._consumer._coordinator._coordination_task, self._consumer._fetcher._fetch_task):
            task.add_done_callback(self._task_ended)

    def _task_ended(self, task: asyncio.Task[Any]) -> None:
        # aiokafka reports a failed coordination only at the next commit, which an idle worker does not make, and never
        # reports a failed fetch. Faust checks neither.
        if not self._stopped.is_set() and not task.cancelled() and (failed := task.exception()) is not None:
            self.add_future(self.crash(failed))

    async def stop(self) -> None:
        if self._thread_started.is_set() and not self._stopped.is_set():
            self._stopped.set()
            if self._consumer is not None:
                self._leave_with_the_consumer()
                await self._consumer.stop()
            self._shutdown.set()

    def _leave_with_the_consumer(self) -> None:
        # A static member stays in its group until its session times out, which is right for one that was killed and
        # comes back. One that shuts down cleanly should release its partitions now, but aiokafka leaves the group on
        # close only for members without an instance id.
        if (coordinator := self._consumer._coordinator) is not None:
            coordinator._group_instance_id = None

    async def call_thread(self, fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return await maybe_async(fun(*args, **kwargs))

    async def cast_thread(self, fun: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        await maybe_async(fun(*args, **kwargs))

    async def on_partitions_revoked(self, revoked: set[TP]) -> None:
        await self.consumer.on_partitions_revoked(revoked)

    async def on_partitions_assigned(self, assigned: set[TP], generation_id: int = 0) -> None:
        await self.consumer.on_partitions_assigned(assigned, generation_id)


class LedgerConsumer(FaustConsumer):  # type: ignore[misc]
    """Commits the offsets that the app's ``safe_offset`` returns, and ignores Faust's acknowledgements."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._pressure: dict[Any, tuple[Callable[[], None], Callable[[], None]]] = {}
        super().__init__(*args, **kwargs)

    @property
    def is_dropped(self) -> bool:
        """True if the group has continued without this member, so that others own its partitions already."""
        return bool(self._thread._consumer._coordinator.generation < 0)

    def skip_to(self, tp: TP, offset: int) -> None:
        """Continue reading at this offset, if the position is before it."""
        skip_to(self._thread._consumer, tp, offset)

    def _new_consumer_thread(self) -> LedgerConsumerThread:
        return LedgerConsumerThread(self, loop=self.loop, thread_loop=self.loop, beacon=self.beacon)

    async def _drain_messages(self, fetcher: Any) -> None:
        """Pass fetched records to their streams, in order, until stopped.

        Faust's own loop starts two tasks and a wait for every record, so that a suspended flow can interrupt a full
        queue, and its conductor decodes raw bytes. Both together were measured at a third of the worker's time.
        Here each record is preceded by a check for a suspended flow, and when Faust clears the queues, a waiting put
        wakes up. No record is skipped: one that did not reach its stream is read again or reported as a gap.
        """
        stopping, fetcher_stopping = self._stopped.is_set, fetcher._stopped.is_set
        try:
            while not (stopping() or fetcher_stopping()):
                records, active = await self._wait_next_records(timeout=1.0)
                await asyncio.sleep(0)
                if records is None or self.should_stop:
                    continue
                if not self.flow_active:
                    await self._seek_back()
                    continue
                await self._hand_on(records, active)
        except self.consumer_stopped_errors:
            if not self.transport.app.should_stop:
                raise

    async def _hand_on(self, records: Any, active: Any) -> None:
        generation = self.app.consumer_generation_id
        for tp, of_partition in records.items():
            for first in range(0, len(of_partition), CHUNK):
                if not self.flow_active or self.app.consumer_generation_id != generation:
                    return
                if not (active is None or tp in active or tp in self._buffered_partitions):
                    break
                chunk = of_partition[first : first + CHUNK]
                last = self._read_offset[tp]
                if last is not None and chunk[0].offset < last:
                    chunk = [r for r in chunk if r.offset >= last]
                if chunk:
                    await self._put(tp, chunk)
                    self._read_offset[tp] = chunk[-1].offset
                    await asyncio.sleep(0)  # let the streams fold what they received

    async def _put(self, tp: Any, chunk: Sequence[Any]) -> None:
        # One event per chunk: its value is the list of records, its message the last record's.
        message = self._to_message(tp, chunk[-1])
        event = self.app.create_event(message.key, chunk, message.headers, message)
        on_high, on_drop = self._pressure_of(tp)
        for stream in self.app.topics._tp_index[tp]:
            if stream.queue.full():
                await stream.queue.put(event)
            else:
                stream.queue.put_nowait_enhanced(event, on_pressure_high=on_high, on_pressure_drop=on_drop)

    def _pressure_of(self, tp: Any) -> tuple[Callable[[], None], Callable[[], None]]:
        callbacks = self._pressure.get(tp)
        if callbacks is None:
            own = TP(tp.topic, tp.partition)  # equal to aiokafka's, but Faust asserts its own type
            callbacks = self._pressure[tp] = (lambda: self.on_buffer_full(own), lambda: self.on_buffer_drop(own))
        return callbacks

    async def _seek_back(self) -> None:
        # As in Faust: records fetched while the flow was suspended are dropped, so they are read again from the commit.
        try:
            await self.perform_seek()
        except Exception as exc:
            self.log.warning("could not seek while the flow was suspended: %r", exc)

    def _filter_tps_with_pending_acks(self, topics: Any = None) -> Iterator[TP]:
        return (tp for tp in list(self.assignment()) if topics is None or tp in topics or tp.topic in topics)

    def _new_offset(self, tp: TP) -> int | None:
        hit(COMMIT_BEFORE)
        return self.app.safe_offset(tp.topic, tp.partition)  # type: ignore[no-any-return]

    def _should_commit(self, tp: TP, offset: int) -> bool:
        committed = self._committed_offset[tp]
        return offset > 0 if committed is None else offset > committed


class QuietMonitor(Monitor):  # type: ignore[misc]
    """Faust's sensor without per-record bookkeeping; the worker has its own counters."""

    def on_message_in(self, *_: Any) -> None: ...
    def on_message_out(self, *_: Any) -> None: ...
    def on_stream_event_in(self, *_: Any) -> None: ...
    def on_stream_event_out(self, *_: Any) -> None: ...
    def track_tp_end_offset(self, *_: Any) -> None: ...


class NoTables(TableManager):  # type: ignore[misc]
    """Faust's table manager without its wait at the start.

    Faust waits a second for tables that are declared late, and subscribes to the topics only after it. A worker has no
    tables: it joins its group at once, and a successor works a second earlier.
    """

    async def on_start(self) -> None:
        """Let the conductor subscribe."""
        await self._update_channels()
        await self.recovery.start()


class LedgerTransport(FaustTransport):  # type: ignore[misc]
    """The aiokafka transport with :class:`LedgerConsumer`."""

    Consumer = LedgerConsumer


class LedgerApp(faust.App):  # type: ignore[misc]
    """A Faust app that commits only the offsets that each topic's reader reports as safe."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.readers: dict[str, Reader] = {}

    def safe_offset(self, topic: str, partition: int) -> int | None:
        """Return the offset that may be committed now; None while nothing is known of that partition."""
        return self.readers[topic].safe_offset(partition)

    def highwater(self, topic: str, partition: int) -> int | None:
        """Return the end of a partition at the last fetch from it; None before the first one."""
        tp = TP(topic, partition)  # the consumer fails on a lost partition, which we may hold in a rebalance
        return self.consumer.highwater(tp) if tp in self.consumer.assignment() else None

    def skip_to(self, topic: str, partition: int, offset: int) -> None:
        """Do not read records before this offset: they are processed already."""
        self.consumer.skip_to(TP(topic, partition), offset)

    def _new_transport(self) -> Any:
        return LedgerTransport(self.conf.broker_consumer, self)


def refuse_commits_while_joining(consumer: AIOKafkaConsumer) -> None:
    """Make a started group consumer refuse commits between its revocation and its next assignment.

    Such a commit raises ``CommitFailedError`` at once, like one that the broker refuses. Nothing is sent, so the member
    keeps the state that the join gives it. Commits during the revocation itself precede the join, and are sent.

    Measured on aiokafka 0.14: a commit sent during a join carries no valid generation. Its error makes the consumer
    request another join after the present one, and all members are revoked again: 44 rebalances in 50 s after a single
    worker had been frozen, without any load.
    """
    coordinator: Any = consumer._coordinator
    send = coordinator._do_commit_offsets

    async def send_outside_joins(assignment: Any, offsets: Any) -> None:
        # The flag is set from the end of the revocation to the successful sync; the generation is -1 before the first
        # join and after the broker has dropped this member.
        if coordinator._performed_join_prepare or coordinator.generation < 0:
            raise RebalanceInProgressError(coordinator.group_id)
        await send(assignment, offsets)

    coordinator._do_commit_offsets = send_outside_joins
