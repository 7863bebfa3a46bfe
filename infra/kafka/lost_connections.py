"""What aiokafka 0.14 does not survive when a broker goes away, mended for every client of this process.

A write to a connection that the broker has just closed fails as a lost connection, on uvloop too: aiokafka catches
``OSError`` there, and uvloop raises ``RuntimeError`` ("the handler is closed"; https://github.com/aio-libs/aiokafka/issues/1038).

The task that keeps a client's metadata survives any error. Measured in the chaos run: when a broker restarted, such a write
ended that task. The client then waits for metadata for ever and says nothing; a worker's consumer left its group without
noticing and went on for up to two minutes with cases that others had taken over: 2,934 calls were paid twice.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from typing import Any

from aiokafka.client import AIOKafkaClient
from aiokafka.conn import AIOKafkaConnection, CloseReason
from aiokafka.errors import KafkaConnectionError

log = logging.getLogger(__name__)
"""Not structlog: this runs in a bot's process too, where structlog's default writes to standard output."""

AGAIN_S = 0.1
_send = AIOKafkaConnection.send
_keep_metadata = AIOKafkaClient._md_synchronizer


def _send_or_lose(self: AIOKafkaConnection, request: Any, expect_response: bool = True) -> Awaitable[Any]:
    try:
        sent: Awaitable[Any] = _send(self, request, expect_response)
        return sent
    except RuntimeError as exc:
        self.close(reason=CloseReason.CONNECTION_BROKEN)
        raise KafkaConnectionError(f"Connection at {self.host}:{self.port} broken: {exc}") from exc


async def _keep_metadata_whatever_happens(self: AIOKafkaClient) -> None:
    while True:
        try:
            await _keep_metadata(self)
        except Exception:
            log.exception("a client's metadata could not be updated: it is tried again")
            await asyncio.sleep(AGAIN_S)
            # Whoever waits for the update is told that it failed, and asks for another.
            self._md_update_waiter = asyncio.get_running_loop().create_future()
            asked, self._md_update_fut = self._md_update_fut, None
            if asked is not None and not asked.done():
                asked.set_result(False)


def survive_lost_connections() -> None:
    """Let such a write raise ``KafkaConnectionError``, which its callers retry, and keep the metadata of every client."""
    AIOKafkaConnection.send = _send_or_lose
    AIOKafkaClient._md_synchronizer = _keep_metadata_whatever_happens
