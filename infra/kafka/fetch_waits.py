"""How long a consumer's fetches wait at the broker: briefly while records come, longer when none have come for a while.

A fetch is answered as soon as there is a record for any of its partitions, so a long wait delays none of these. It delays
what the same connection is asked meanwhile, and partitions that the fetch left out because they had unread records. The
latter happens only while records come. The former can happen at the end of quiet too where there are several brokers, each
with a fetch of its own: after a record at one, what the consumer asks another one waits for the fetch there, for up to
``QUIET_WAIT_MS``. That delays the first duplicate check or retraction after quiet, for both ask for end offsets. At rest,
many short waits are nothing but work for the broker and for us.
"""

from __future__ import annotations

import asyncio
from typing import Any

from aiokafka import AIOKafkaConsumer

QUIET_AFTER_S = 10.0
"""Seconds without a record after which waits become long."""
QUIET_WAIT_MS = 500


def lengthen_when_quiet(consumer: AIOKafkaConsumer) -> None:
    """Let this started consumer's fetches wait ``QUIET_WAIT_MS`` while it is quiet, else as long as it was made to."""
    fetcher = consumer._fetcher
    now, ask, busy_ms = asyncio.get_running_loop().time, fetcher._proc_fetch_request, fetcher._fetch_max_wait_ms
    heard = now()

    async def asked(*request: Any) -> bool:
        nonlocal heard
        got: bool = await ask(*request)
        if got:
            heard = now()
        # aiokafka 0.14 reads this for every request, and makes the next one only after this one is done.
        fetcher._fetch_max_wait_ms = busy_ms if now() - heard < QUIET_AFTER_S else max(busy_ms, QUIET_WAIT_MS)
        return got

    fetcher._proc_fetch_request = asked


class QuietConsumer(AIOKafkaConsumer):  # type: ignore[misc]
    """A consumer whose fetches wait longer while it is quiet, and whose reader leaves the event loop to others in between."""

    async def start(self) -> None:
        await super().start()
        lengthen_when_quiet(self)

    async def getmany(self, *partitions: Any, **more: Any) -> Any:
        # What is fetched already is returned without a turn of the event loop: a long topic would hold it to its end.
        await asyncio.sleep(0)
        return await super().getmany(*partitions, **more)
