"""One process a run: two that ran the same candidate would pay for everything twice."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from aiokafka import ConsumerRebalanceListener

from infra.kafka import KafkaAddress
from schemas.errors import ConfigError
from schemas.topics import Topics

SESSION_S = 6.0
PATIENCE_S = 4 * SESSION_S
"""A predecessor that was killed holds the place until its session is over."""


class OnlyOne(ConsumerRebalanceListener):  # type: ignore[misc]
    """The place of a run: the one partition of a topic, assigned to one member of a group of the run's own."""

    def __init__(self, address: KafkaAddress, topics: Topics, run_id: str) -> None:
        self._topic = topics.publisher_lease
        self._run_id = run_id
        self._consumer: Any = address.consumer(
            group_id=topics.group(f"{run_id}-place"),
            session_timeout_ms=int(SESSION_S * 1000),
            heartbeat_interval_ms=1500,
        )
        self._polling: asyncio.Task[None] | None = None
        self._held = asyncio.Event()
        self.lost = asyncio.Event()

    async def take(self) -> None:
        """Take the place.

        Raises:
            ConfigError: another process keeps it.
        """
        await self._consumer.start()
        self._consumer.subscribe([self._topic], listener=self)
        self._polling = asyncio.create_task(self._poll(), name="place")
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self._held.wait()
        except TimeoutError as exc:
            raise ConfigError(
                f"another process works on the run {self._run_id}: let it, or give this one a --run-id of its own"
            ) from exc

    async def leave(self) -> None:
        """Leave it, so that a successor has it at once."""
        if self._polling is not None:
            self._polling.cancel()
            with suppress(asyncio.CancelledError):
                await self._polling
        await self._consumer.stop()

    async def on_partitions_revoked(self, revoked: Any) -> None:
        """Called by the consumer."""
        if revoked:
            self._held.clear()
            self.lost.set()

    async def on_partitions_assigned(self, assigned: Any) -> None:
        """Called by the consumer."""
        if assigned:
            self.lost.clear()
            self._held.set()

    async def _poll(self) -> None:
        while True:
            await self._consumer.getmany(timeout_ms=1000)
