"""One process a run, wherever its data directory is: two that worked on the same run would pay for everything twice."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from aiokafka import ConsumerRebalanceListener

from infra.kafka.topics import KafkaAddress, members_of
from newsproof.app.servers import say_on_stderr
from schemas.errors import ConfigError

SESSION_S = 30.0
"""A process that was killed holds its place for so long; one that has no time to say that it lives keeps it for so long."""
PATIENCE_S = 15.0
"""On top of the session, for joining."""
LOOK_EVERY_S = 0.5


class OnlyOne(ConsumerRebalanceListener):  # type: ignore[misc]
    """The place of a run: the one partition of a topic, assigned to the one member of a group of the run's own. Nothing of the
    topic is read.

    A newcomer joins only a group without members, so it never takes the place from a process that works.
    """

    def __init__(
        self, address: KafkaAddress, topic: str, run_id: str, *, group: str, session_s: float = SESSION_S
    ) -> None:
        """``topic`` exists and has one partition; ``group`` is the run's alone."""
        self._address, self._topic, self._run_id = address, topic, run_id
        self._group, self._session_s = group, session_s
        self._consumer: Any = None
        self._polling: asyncio.Task[None] | None = None
        self._held = asyncio.Event()
        self.lost = asyncio.Event()

    async def take(self) -> None:
        """Take the place.

        Raises:
            ConfigError: another process keeps it.
        """
        try:
            async with asyncio.timeout(self._session_s + PATIENCE_S):
                await self._until_free()
                await self._join()
                await self._held.wait()
        except TimeoutError as exc:
            await self.leave()
            raise ConfigError(
                f"another process works on the run {self._run_id}: let it, or give this one a --run-id of its own"
            ) from exc

    async def leave(self) -> None:
        """Leave it, so that a successor has it at once. Idempotent."""
        if self._polling is not None:
            self._polling.cancel()
            with suppress(asyncio.CancelledError):
                await self._polling
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            await consumer.stop()

    async def on_partitions_revoked(self, revoked: Any) -> None:
        """Called by the consumer; whether the place is lost is known when it is assigned anew."""

    async def on_partitions_assigned(self, assigned: Any) -> None:
        """Called by the consumer."""
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
            await self._consumer.getmany(timeout_ms=1000)
