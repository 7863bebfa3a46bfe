"""A lease for work that one process does at a time: the only partition of a topic, assigned by a consumer group.

A process joins the group only while it has no members, so it never interrupts a working one. A holder that is killed or
frozen leaves the group when its session ends. Until the holder notices that, it works beside its successor. Work that
must never be done twice therefore also needs a fence, such as a transactional id (:class:`Fence`).
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from aiokafka import ConsumerRebalanceListener
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import KafkaError, ProducerFenced

from infra.kafka.topics import KafkaAddress, members_of
from infra.late_log import log_of
from streams.journal.retry import is_away, retry_while_unavailable

SESSION_S = 6.0
"""Time without heartbeats after which another process can take the lease."""
LOOK_EVERY_S = 1.0
"""Interval at which a standby process checks whether the lease is free."""
ASSIGNED_WITHIN_S = 15.0
"""Maximum time from joining the group to its assignment."""
LEFT_WITHIN_S = 5.0
"""Maximum time to tell the group that this process leaves. After it, the group notices when the session ends."""
HUNG_S = 60.0
"""Time for which the event loop may hang before the process leaves the group."""
TRANSACTION_TIMEOUT_MS = 10_000


class Lease:
    """One process's lease: the only partition of ``topic``, from which nothing is read. No other work uses ``group``.

    The group member runs in a separate thread, so that heartbeats continue while the process's event loop is busy. A
    process whose event loop hangs for ``HUNG_S`` leaves the group.

    ``held``: this process has the lease. ``known``: the group has reported whether any process has it. ``lost`` is set
    when this process loses the lease. ``error``: why the last request to the group failed; "" if it succeeded.
    """

    def __init__(self, address: KafkaAddress, group: str, topic: str, *, session_s: float | None = None) -> None:
        self._address, self._group, self._topic, self._session_s = address, group, topic, session_s
        self._member: _Member | None = None
        self._answered = asyncio.Event()
        self._failure: Exception | None = None
        self.held = self.known = False
        self.lost = asyncio.Event()
        self.error = ""

    async def take(self, *, waiting: Callable[[], None] = lambda: None) -> None:
        """Return when this process holds the lease. Calls ``waiting`` at every check that finds another holder.

        Raises:
            KafkaError, TransientError: no broker responds.
        """
        self.lost.clear()
        while not self.held:
            while await members_of(self._address, self._group):
                self.known = True
                waiting()
                await asyncio.sleep(LOOK_EVERY_S)
            await self._join()
            if not self.held:  # another process was faster, or the group could not be joined
                await self.leave()
                self._raise_failure()
                await asyncio.sleep(LOOK_EVERY_S)

    async def leave(self) -> None:
        """Release the lease, so that a successor gets it at once. Idempotent."""
        self.held = False
        member, self._member = self._member, None
        if member is not None:
            await member.leave()

    async def lead(self, work: Callable[[], Coroutine[Any, Any, None]], stopped: asyncio.Event) -> None:
        """Until ``stopped``, wait for the lease and run ``work`` while holding it. After losing it, wait for it again.

        Raises:
            Exception: raised by the work or by the group's client, unless no broker responds.
        """
        try:
            while not stopped.is_set():
                taking = asyncio.create_task(self._acquire(), name=f"taking {self._group}")
                await first_of(taking, stopped.wait())
                if self.held and not stopped.is_set():
                    await first_of(asyncio.create_task(work()), self.lost.wait(), stopped.wait())
                if self.lost.is_set():
                    log_of(__name__).warning("the lease is lost; waiting for it", group=self._group, why=self.error)
                await self.leave()
                if self._failure is not None and not is_away(self._failure):
                    self._raise_failure()
        finally:
            await self.leave()

    async def _acquire(self) -> None:
        await retry_while_unavailable(self.take, f"the lease {self._group}", unavailable=is_away)

    async def _join(self) -> None:
        self._answered.clear()
        self._failure = None
        session_s = self._session_s or SESSION_S
        self._member = _Member(self._address, self._group, self._topic, session_s, self._hear)
        self._member.start()
        with suppress(TimeoutError):
            async with asyncio.timeout(ASSIGNED_WITHIN_S):
                await self._answered.wait()

    def _hear(self, member: _Member, is_holder: bool | None, why: str, failure: Exception | None) -> None:
        """Take a report of the member. ``is_holder`` None: unchanged; ``failure``: the error that ended the member."""
        if member is not self._member:
            return  # this process has left it
        if is_holder is None:
            self.error = why
            return
        if failure is None:
            self.known = True
        self._failure = failure
        if is_holder:
            self.held = not self.lost.is_set()
        elif self.held:
            self.held, self.error = False, why
            self.lost.set()
        self._answered.set()

    def _raise_failure(self) -> None:
        if (failure := self._failure) is not None:
            self._failure = None
            raise failure


class _Member(ConsumerRebalanceListener):  # type: ignore[misc]
    """A member of the group, in a thread with its own event loop. Calls ``hear`` on its creator's loop with changes."""

    def __init__(
        self,
        address: KafkaAddress,
        group: str,
        topic: str,
        session_s: float,
        hear: Callable[[_Member, bool | None, str, Exception | None], None],
    ) -> None:
        self._address, self._group, self._topic, self._session_s = address, group, topic, session_s
        self._hear, self._main = hear, asyncio.get_running_loop()
        self._consumer: Any = None
        self._loop = asyncio.new_event_loop()
        self._left = asyncio.Event()
        self._over = asyncio.Event()
        """Set when the thread has ended. Belongs to the creator's loop."""
        self._main_answered = time.monotonic()
        self._error = ""

    def start(self) -> None:
        """Join the group."""
        threading.Thread(target=self._run, name=self._group, daemon=True).start()

    async def leave(self) -> None:
        """Leave the group. Returns when that is done, at most ``LEFT_WITHIN_S`` later. Idempotent."""
        with suppress(RuntimeError):  # the thread has ended
            self._loop.call_soon_threadsafe(self._left.set)
        await self._over.wait()

    # In the thread

    async def on_partitions_revoked(self, revoked: Any) -> None:
        # Before a new assignment, the group revokes the partition from its holder, which usually gets it back. The
        # lease is lost only if the group has dropped this member.
        if revoked and self._consumer._coordinator.generation < 0:
            self._tell(False, "the group continued without this process")

    async def on_partitions_assigned(self, assigned: Any) -> None:
        if assigned:
            self._consumer.pause(*assigned)
        self._tell(bool(assigned), "" if assigned else "the group gave the partition to another process")

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self._live())
        except Exception as exc:
            self._tell(False, repr(exc), exc)
        finally:
            with suppress(RuntimeError):  # the creator's loop is closed
                self._main.call_soon_threadsafe(self._over.set)

    async def _live(self) -> None:
        self._consumer = self._address.consumer(
            group_id=self._group,
            session_timeout_ms=int(self._session_s * 1000),
            heartbeat_interval_ms=int(min(self._session_s / 4, 3.0) * 1000),
            # The holder keeps the partition if others join at the same moment. The assignor keeps its state in its
            # class, so each member gets a class of its own.
            partition_assignment_strategy=(type("Sticky", (StickyPartitionAssignor,), {}), RoundRobinPartitionAssignor),
        )
        try:
            await first_of(self._poll(), self._left.wait())
        finally:
            with suppress(TimeoutError):
                async with asyncio.timeout(LEFT_WITHIN_S):
                    await self._consumer.stop()

    async def _poll(self) -> None:
        """Let the client communicate with the group. When the client ends, the lease is lost."""
        await self._consumer.start()
        self._consumer.subscribe([self._topic], listener=self)
        coordinating = self._consumer._coordinator._coordination_task
        while not coordinating.done():
            if time.monotonic() - self._main_answered > HUNG_S:
                return self._tell(False, f"the process has not answered for {HUNG_S:g} s")
            self._main.call_soon_threadsafe(self._main_answers)
            try:
                await self._consumer.getmany(timeout_ms=1000)
                self._is_asked("")
            except KafkaError as exc:  # the client continues after raising this, unless its task has ended
                self._is_asked(repr(exc))
                log_of(__name__).warning("the group of a lease could not be read", group=self._group, error=repr(exc))
                await asyncio.sleep(LOOK_EVERY_S)
        failed = None if coordinating.cancelled() else coordinating.exception()
        self._tell(False, repr(failed) if failed else "the client left the group")

    def _is_asked(self, error: str) -> None:
        if error != self._error:
            self._error = error
            self._tell(None, error)

    def _tell(self, is_holder: bool | None, why: str, failure: Exception | None = None) -> None:
        with suppress(RuntimeError):  # the creator's loop is closed
            self._main.call_soon_threadsafe(self._hear, self, is_holder, why, failure)

    # On the creator's loop

    def _main_answers(self) -> None:
        self._main_answered = time.monotonic()


class Fence:
    """Proof that no successor has started: of the processes with one transactional id, the last to start passes."""

    def __init__(self, address: KafkaAddress, transactional_id: str, topic: str) -> None:
        """``topic`` gets an empty record at each pass. Nothing reads it."""
        self._address, self._id, self._topic = address, transactional_id, topic
        self._producer: Any = None
        self._is_fenced = False

    async def start(self) -> None:
        """Fence all predecessors."""
        self._producer = self._address.producer(
            transactional_id=self._id, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS, linger_ms=0
        )
        await self._producer.start()

    async def pass_through(self) -> None:
        """Return if no successor has started.

        Raises:
            ProducerFenced: a successor has started.
        """
        if self._is_fenced:  # the client raises this only once
            raise ProducerFenced
        try:
            async with self._producer.transaction():
                await self._producer.send_and_wait(self._topic, b"")
        except ProducerFenced:
            self._is_fenced = True
            raise

    async def stop(self) -> None:
        """Close the client. Idempotent."""
        if self._producer is not None:
            await self._producer.stop()


async def first_of(*waits: Any) -> None:
    """Return when the first of these is done. The others are cancelled, and have ended by then.

    Raises:
        BaseException: the error of one that failed, including errors that are no ``Exception``, such as ``SystemExit``.
    """
    tasks = [asyncio.ensure_future(w) for w in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
    for error in ended:
        if isinstance(error, BaseException) and not isinstance(error, asyncio.CancelledError):
            raise error
