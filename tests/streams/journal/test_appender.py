"""The appender: what it was given is written, whatever becomes of the client's tasks."""

from __future__ import annotations

import asyncio
from typing import Any

from streams.journal.appender import Appender
from tests.streams.world import World


async def test_a_producer_whose_task_that_sends_has_failed_is_replaced_and_loses_nothing(world: World) -> None:
    appender = Appender(world.address)
    await appender.start()
    try:
        sender = appender._producer._sender
        send = sender._send_produce_req

        async def fails(*_args: Any) -> None:
            sender._send_produce_req = send
            raise KeyError("no such luck")

        sender._send_produce_req = fails
        letters = world.topics.dead_letters
        async with asyncio.timeout(30):
            await asyncio.gather(*(appender.append(letters, b"%d" % n, key=b"k", partition=None) for n in range(20)))
            await appender.append(letters, b"20", key=b"k", partition=None)
        assert sender.sender_task.done()
    finally:
        await appender.stop()
    assert {int(record.value) for record in await world.records(letters)} == set(range(21))
