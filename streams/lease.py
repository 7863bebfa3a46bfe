"""The lease of a task that one process does at a time: the one partition of a topic, which a consumer group assigns."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from aiokafka import ConsumerRebalanceListener

from infra.kafka.topics import KafkaAddress

SESSION_S = 6.0


class Lease(ConsumerRebalanceListener):  # type: ignore[misc]
    """Whether this process holds the one partition. ``known``: a group has said who does."""

    def __init__(self) -> None:
        self.held = asyncio.Event()
        self.lost = asyncio.Event()
        self.known = False

    async def on_partitions_revoked(self, revoked: Any) -> None:
        if revoked:
            self.held.clear()
            self.lost.set()

    async def on_partitions_assigned(self, assigned: Any) -> None:
        self.known = True
        if assigned:
            self.lost.clear()
            self.held.set()

    async def lead(
        self,
        address: KafkaAddress,
        group: str,
        topic: str,
        work: Callable[[], Coroutine[Any, Any, None]],
        stopped: asyncio.Event,
    ) -> None:
        """Stand by for the lease, and run ``work`` while holding it, until stopped. After a lost lease it stands by again."""
        consumer = address.consumer(
            group_id=group, session_timeout_ms=int(SESSION_S * 1000), heartbeat_interval_ms=1500
        )
        await consumer.start()
        consumer.subscribe([topic], listener=self)
        polling = asyncio.create_task(_poll(consumer), name=group)
        try:
            while not stopped.is_set():
                await first_of(self.held.wait(), stopped.wait())
                if self.held.is_set() and not stopped.is_set():
                    await self._led(work, stopped)
        finally:
            polling.cancel()
            await consumer.stop()

    async def _led(self, work: Callable[[], Coroutine[Any, Any, None]], stopped: asyncio.Event) -> None:
        working = asyncio.create_task(work())
        await first_of(self.lost.wait(), stopped.wait(), asyncio.shield(working))
        working.cancel()
        with suppress(asyncio.CancelledError):
            await working


async def first_of(*waits: Any) -> None:
    """Return when one of them is done; cancel the others."""
    tasks = [asyncio.ensure_future(w) for w in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            if not task.done():
                task.cancel()
            elif not task.cancelled():
                task.exception()  # marks the error as retrieved: the caller awaits the work itself


async def _poll(consumer: Any) -> None:
    while True:
        await consumer.getmany(timeout_ms=1000)
