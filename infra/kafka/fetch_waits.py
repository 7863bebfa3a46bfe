"""The time that a consumer's fetches wait at the broker: short while records arrive, longer after a while without any.

At rest, many short waits only make work for the broker and for us. The broker responds as soon as there is a record in
any of the fetch's partitions, so a long wait does not delay those records. It delays two other things:

- Partitions that the fetch left out because they had unread records. This happens only while records arrive.
- Other requests on the same connection. With several brokers, each has a fetch of its own: after the first record at
  one broker, a request to another waits for the fetch there, for up to ``QUIET_WAIT_MS``. This delays the first
  duplicate check or retraction after a quiet time, because both request end offsets.
"""

from __future__ import annotations

import asyncio
from typing import Any

from aiokafka import AIOKafkaConsumer

QUIET_AFTER_S = 10.0
"""Seconds without a record after which waits become long."""
QUIET_WAIT_MS = 500


def lengthen_when_quiet(consumer: AIOKafkaConsumer) -> None:
    """Let this started consumer's fetches wait ``QUIET_WAIT_MS`` while no records arrive, else its configured time."""
    fetcher = consumer._fetcher
    now, ask, busy_ms = asyncio.get_running_loop().time, fetcher._proc_fetch_request, fetcher._fetch_max_wait_ms
    heard = now()

    async def asked(*request: Any) -> bool:
        nonlocal heard
        got: bool = await ask(*request)
        if got:
            heard = now()
        # aiokafka 0.14 reads this attribute for each request, and sends the next one only after this one is done.
        fetcher._fetch_max_wait_ms = busy_ms if now() - heard < QUIET_AFTER_S else max(busy_ms, QUIET_WAIT_MS)
        return got

    fetcher._proc_fetch_request = asked


class QuietConsumer(AIOKafkaConsumer):  # type: ignore[misc]
    """A consumer whose fetches wait longer while no records arrive, and whose reader yields to other tasks."""

    async def start(self) -> None:
        await super().start()
        lengthen_when_quiet(self)
        # aiokafka 0.14 stops a client by cancelling its tasks. One that has not begun by then makes ``stop`` raise
        # CancelledError in the place of its caller's error, and leave the connections open.
        await asyncio.sleep(0)

    async def getmany(self, *partitions: Any, **more: Any) -> Any:
        # aiokafka returns fetched records without yielding: reading a long topic would block the event loop to its end.
        await asyncio.sleep(0)
        return await super().getmany(*partitions, **more)
