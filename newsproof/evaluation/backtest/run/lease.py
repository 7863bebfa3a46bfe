"""The lease of a run: one process per run across all data directories, since two would pay for everything twice."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import structlog
from aiokafka import ConsumerRebalanceListener
from aiokafka.errors import KafkaError

from infra.kafka.topics import KafkaAddress, members_of
from newsproof.app.servers import say_on_stderr
from schemas.errors import ConfigError, TransientError

log = structlog.get_logger(__name__)

SESSION_S = 30.0
"""Session timeout: the lease of a killed process, or of one too busy to send heartbeats, expires after this time."""
PATIENCE_S = 15.0
"""Additional time for joining the group."""
LOOK_EVERY_S = 0.5


class RunLease(ConsumerRebalanceListener):  # type: ignore[misc]
    """The lease of a run: the one partition of a topic, assigned to the one member of the run's own consumer group.

    Nothing is read from the topic. A new process joins only a group without members, so it never takes the lease from
    one that works.
    """

    def __init__(
        self, address: KafkaAddress, topic: str, run_id: str, *, group: str, session_s: float = SESSION_S
    ) -> None:
        """``topic`` exists and has one partition; no other run uses ``group``."""
        self._address, self._topic, self._run_id = address, topic, run_id
        self._group, self._session_s = group, session_s
        self._consumer: Any = None
        self._polling: asyncio.Task[None] | None = None
        self._held = asyncio.Event()
        self._refusal = ""
        self.lost = asyncio.Event()

    async def take(self) -> None:
        """Acquire the lease.

        Raises:
            ConfigError: another process keeps it.
            TransientError: nobody keeps it, and Kafka does not assign it.
        """
        try:
            async with asyncio.timeout(self._session_s + PATIENCE_S):
                await self._until_free()
                await self._join()
                await self._held.wait()
        except TimeoutError as exc:
            await self.leave()
            if not await members_of(self._address, self._group):
                raise TransientError(
                    f"Kafka did not assign the run {self._run_id} to this process within {self._session_s + PATIENCE_S:g} s"
                    f"{self._refusal}, though no other has it: check the broker, and start the run again",
                    kind="unavailable",
                ) from exc
            raise ConfigError(
                f"another process works on the run {self._run_id}: let it, or give this one a --run-id of its own"
            ) from exc

    async def leave(self) -> None:
        """Release the lease, so that a successor gets it at once. Idempotent."""
        if self._polling is not None:
            self._polling.cancel()
            with suppress(asyncio.CancelledError):
                await self._polling
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            await consumer.stop()

    async def on_partitions_revoked(self, revoked: Any) -> None:
        """Do nothing: only the next assignment shows whether the lease is lost."""

    async def on_partitions_assigned(self, assigned: Any) -> None:
        if assigned:
            self._consumer.pause(*assigned)
            self._held.set()
        elif self._held.is_set():
            self.lost.set()

    async def _until_free(self) -> None:
        said = False
        while await members_of(self._address, self._group):
            if not said:
                say_on_stderr(
                    f"Another process works on the run {self._run_id}, or was killed less than {self._session_s:g} s ago; waiting."
                )
                said = True
            await asyncio.sleep(LOOK_EVERY_S)

    async def _join(self) -> None:
        self._consumer = self._address.consumer(
            group_id=self._group, session_timeout_ms=int(self._session_s * 1000), heartbeat_interval_ms=3000
        )
        await self._consumer.start()
        self._consumer.subscribe([self._topic], listener=self)
        self._polling = asyncio.create_task(self._poll(), name="place")

    async def _poll(self) -> None:
        while True:
            try:
                await self._consumer.getmany(timeout_ms=1000)
            except KafkaError as exc:  # the client goes on once it is told: an end of this task would hide a lost lease
                self._refusal = f" ({exc!r})"
                log.warning("asking Kafka for the run again", run=self._run_id, error=repr(exc))
                await asyncio.sleep(LOOK_EVERY_S)
