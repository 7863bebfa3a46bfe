"""Clients of Kafka: what closing one does to whoever closes it."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from infra.kafka.topics import KafkaAddress


async def test_whoever_is_cancelled_while_a_reader_closes_stays_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    closing, over = asyncio.Event(), asyncio.Event()

    class Closing:
        async def start(self) -> None: ...

        async def stop(self) -> None:
            closing.set()
            with contextlib.suppress(asyncio.CancelledError):  # as aiokafka does, waiting for tasks of its own to end
                await asyncio.get_running_loop().create_future()

    monkeypatch.setattr(KafkaAddress, "consumer", lambda *_, **__: Closing())

    async def read() -> None:
        async with KafkaAddress(bootstrap="").reading():
            pass
        over.set()

    reading = asyncio.create_task(read())
    await closing.wait()
    reading.cancel()
    await asyncio.wait([reading])
    assert reading.cancelled() and not over.is_set()
