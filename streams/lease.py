"""The lease of work that one process does at a time: the one partition of a topic, which a consumer group assigns.

A process joins the group only while nobody is in it, so it never interrupts one that works. A holder that is killed or frozen
leaves the group when its session ends. Until it notices that, it works on beside its successor: work that must not be done twice
needs a fence besides, such as a transactional id (:class:`Fence`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from aiokafka import ConsumerRebalanceListener
from aiokafka.errors import KafkaError, ProducerFenced

from infra.kafka.topics import KafkaAddress, members_of
from infra.late_log import log_of
from streams.journal.retry import is_away, retry_while_unavailable

SESSION_S = 6.0
"""Time without heartbeats after which the lease of a process is free."""
LOOK_EVERY_S = 1.0
"""Interval at which a process that stands by asks whether the lease is free."""
ASSIGNED_WITHIN_S = 15.0
"""Time for the group to say who has the partition, after a join."""
TRANSACTION_TIMEOUT_MS = 10_000


class Lease(ConsumerRebalanceListener):  # type: ignore[misc]
    """Whether this process holds the one partition of ``topic``; nothing is read from it. No other work uses ``group``.

    ``known``: the group has said whether anybody holds it. ``lost`` is set when this process held it and does no longer.
    ``error``: why the group could last not be asked; "" where it could.
    """

    def __init__(self, address: KafkaAddress, group: str, topic: str, *, session_s: float | None = None) -> None:
        self._address, self._group, self._topic, self._session_s = address, group, topic, session_s
        self._consumer: Any = None
        self._polling: asyncio.Task[None] | None = None
        self._answered = asyncio.Event()
        self.held = self.known = False
        self.lost = asyncio.Event()
        self.error = ""

    async def take(self, *, waiting: Callable[[], None] = lambda: None) -> None:
        """Return when this process holds the lease. ``waiting`` is called when another process has it.

        Raises:
            KafkaError, TransientError: no broker answers.
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
                await asyncio.sleep(LOOK_EVERY_S)

    async def leave(self) -> None:
        """Release the lease, so that a successor gets it at once. Idempotent."""
        self.held = False
        polling, self._polling = self._polling, None
        consumer, self._consumer = self._consumer, None
        if polling is not None:
            polling.cancel()
            await asyncio.gather(polling, return_exceptions=True)
        if consumer is not None:
            await consumer.stop()

    async def lead(self, work: Callable[[], Coroutine[Any, Any, None]], stopped: asyncio.Event) -> None:
        """Stand by for the lease, and run ``work`` while holding it, until stopped. After a lost lease it stands by again."""
        try:
            while not stopped.is_set():
                taking = asyncio.create_task(self._taken(), name=f"taking {self._group}")
                await first_of(taking, stopped.wait())
                if self.held and not stopped.is_set():
                    await first_of(asyncio.create_task(work()), self.lost.wait(), stopped.wait())
                if self.lost.is_set():
                    log_of(__name__).warning("the lease is lost: standing by for it", group=self._group, why=self.error)
                await self.leave()
        finally:
            await self.leave()

    async def on_partitions_revoked(self, revoked: Any) -> None:
        # A group that makes a new assignment takes the partition from its holder first, which usually gets it back. Only a
        # member that the group has dropped has lost it.
        if self._consumer._coordinator.generation < 0:
            self._lose("the group went on without this process")

    async def on_partitions_assigned(self, assigned: Any) -> None:
        self.known = True
        if assigned:
            self._consumer.pause(*assigned)
            self.held = not self.lost.is_set()
        else:
            self._lose("the group gave the partition to another process")
        self._answered.set()

    async def _taken(self) -> None:
        await retry_while_unavailable(self.take, f"the lease {self._group}", unavailable=is_away)

    async def _join(self) -> None:
        session_s = self._session_s or SESSION_S
        consumer = self._consumer = self._address.consumer(
            group_id=self._group,
            session_timeout_ms=int(session_s * 1000),
            heartbeat_interval_ms=int(min(session_s / 4, 3.0) * 1000),
        )
        await consumer.start()
        self._answered.clear()
        consumer.subscribe([self._topic], listener=self)
        self._polling = asyncio.create_task(self._poll(consumer), name=self._group)
        with suppress(TimeoutError):
            async with asyncio.timeout(ASSIGNED_WITHIN_S):
                await self._answered.wait()

    async def _poll(self, consumer: Any) -> None:
        """Let the client speak to the group; when it no longer does, the lease is lost."""
        while not consumer._coordinator._coordination_task.done():
            try:
                await consumer.getmany(timeout_ms=1000)
                self.error = ""
            except KafkaError as exc:  # the client goes on once it is told, unless its task has ended
                self.error = repr(exc)
                log_of(__name__).warning("the group of a lease could not be asked", group=self._group, error=self.error)
                await asyncio.sleep(LOOK_EVERY_S)
        self._lose(self.error or "the client left the group")
        self._answered.set()

    def _lose(self, why: str) -> None:
        if self.held:
            self.held, self.error = False, why
            self.lost.set()


class Fence:
    """Proof that no successor has begun this work: of the processes with one transactional id, the last to start passes."""

    def __init__(self, address: KafkaAddress, transactional_id: str, topic: str) -> None:
        """``topic`` takes an empty record at each passing; nobody reads it."""
        self._address, self._id, self._topic = address, transactional_id, topic
        self._producer: Any = None
        self._is_fenced = False

    async def start(self) -> None:
        """Fence the predecessors."""
        self._producer = self._address.producer(
            transactional_id=self._id, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS, linger_ms=0
        )
        await self._producer.start()

    async def pass_through(self) -> None:
        """Return if no successor has started.

        Raises:
            ProducerFenced: one has.
        """
        if self._is_fenced:  # the client does not say it a second time
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
    """Return when one of them is done, and the others are cancelled and over.

    Raises:
        Exception: of one that failed.
    """
    tasks = [asyncio.ensure_future(w) for w in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
    for error in ended:
        if isinstance(error, Exception):
            raise error
