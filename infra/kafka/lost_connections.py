"""A write to a connection that the broker has just closed fails as a lost connection, on uvloop too.

aiokafka 0.14 catches ``OSError`` there, but uvloop raises ``RuntimeError`` ("the handler is closed";
https://github.com/aio-libs/aiokafka/issues/1038). Measured in the chaos run: when a broker restarted, that error ended the
task that keeps a consumer's metadata. Its worker then left the group without noticing, and went on for up to two minutes
with cases that others had taken over: 2,934 calls were paid twice.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from aiokafka.conn import AIOKafkaConnection, CloseReason
from aiokafka.errors import KafkaConnectionError

_send = AIOKafkaConnection.send


def _send_or_lose(self: AIOKafkaConnection, request: Any, expect_response: bool = True) -> Awaitable[Any]:
    try:
        sent: Awaitable[Any] = _send(self, request, expect_response)
        return sent
    except RuntimeError as exc:
        self.close(reason=CloseReason.CONNECTION_BROKEN)
        raise KafkaConnectionError(f"Connection at {self.host}:{self.port} broken: {exc}") from exc


def report_lost_connections() -> None:
    """Let every connection of this process raise ``KafkaConnectionError`` for such a write, which all its users retry."""
    AIOKafkaConnection.send = _send_or_lose
