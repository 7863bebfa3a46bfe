"""Fixes for aiokafka 0.14: lost and TLS connections, coordinator errors, foreign batches. They apply to Faust's clients, too.

A write to a connection that the broker has just closed fails as a lost connection, also on uvloop. aiokafka catches
only ``OSError`` there, but uvloop raises ``RuntimeError`` ("the handler is closed";
https://github.com/aio-libs/aiokafka/issues/1038).

The task that updates a client's metadata survives any error. Measured in the chaos run: when a broker restarted, such a
write ended that task. The client then waits for metadata forever and reports nothing. A worker's consumer left its
group without noticing, and continued for up to two minutes with cases that others had taken over: 2,934 calls were paid
twice.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Iterator
from typing import Any

from aiokafka.client import AIOKafkaClient
from aiokafka.conn import AIOKafkaConnection, CloseReason
from aiokafka.consumer import fetcher
from aiokafka.errors import KafkaConnectionError, for_code
from aiokafka.protocol.admin import DescribeGroupsRequest
from aiokafka.protocol.commit import OffsetFetchRequest
from aiokafka.record.default_records import _DefaultRecordBatchPy
from aiokafka.record.memory_records import _MemoryRecordsPy

log = logging.getLogger(__name__)
"""Not structlog: this runs in a bot's process too, where structlog's default writes to standard output."""

AGAIN_S = 0.1
TLS_PROTOCOLS = ("SSL", "SASL_SSL")
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
            log.exception("a client's metadata could not be updated; the client retries")
            await asyncio.sleep(AGAIN_S)
            # Tasks that wait for the update see that it failed, and request another.
            self._md_update_waiter = asyncio.get_running_loop().create_future()
            asked, self._md_update_fut = self._md_update_fut, None
            if asked is not None and not asked.done():
                asked.set_result(False)


def survive_lost_connections() -> None:
    """Patch aiokafka: such a write raises ``KafkaConnectionError``, which callers retry; metadata updates continue."""
    AIOKafkaConnection.send = _send_or_lose
    AIOKafkaClient._md_synchronizer = _keep_metadata_whatever_happens


# Prompt closing of TLS connections. After its own end, uvloop waits for the broker's for 30 s if a response was under
# way (``SSL_SHUTDOWN_TIMEOUT``), and every ``stop`` of a client waits with it: measured, half of all short reads, and a
# worker's start. Nothing that a client still needs comes after ``close``.

TLS_CLOSED_WITHIN_S = 0.1
_close = AIOKafkaConnection.close


def _close_promptly(
    self: AIOKafkaConnection, reason: CloseReason | None = None, exc: BaseException | None = None
) -> Awaitable[None] | None:
    writer = self._writer
    closed: Awaitable[None] | None = _close(self, reason, exc)
    if writer is not None and self._security_protocol in TLS_PROTOCOLS and not self._loop.is_closed():
        self._loop.call_later(TLS_CLOSED_WITHIN_S, writer.transport.abort)
    return closed


def close_tls_promptly() -> None:
    """Patch aiokafka: a closed TLS connection ends within ``TLS_CLOSED_WITHIN_S``."""
    AIOKafkaConnection.close = _close_promptly


# Errors of a group's coordinator. aiokafka ignores them and reads the lists in the same response, which are then empty.
#
# A coordinator may have just moved to another broker, or may still be loading its groups. It then responds with an
# error and empty lists to a request for committed offsets (from version 2 on) or for a group's description. Without
# this fix, the group would seem to have no commits and no members: its consumers would restart at the beginning of the
# log, and a standby would join although another member holds the lease.

_send_request = AIOKafkaClient.send


def _codes(request: Any, response: Any) -> list[int]:
    if isinstance(request, OffsetFetchRequest):
        return [getattr(response, "error_code", 0)]
    return [group[0] for group in response.groups] if isinstance(request, DescribeGroupsRequest) else []


async def _send_and_judge(self: AIOKafkaClient, node_id: int, request: Any, **more: Any) -> Any:
    response = await _send_request(self, node_id, request, **more)
    for code in _codes(request, response):
        if code:
            raise for_code(code)()
    return response


def raise_coordinator_errors() -> None:
    """Patch aiokafka: all clients of this process, including Faust's, raise such an error, and their callers retry."""
    AIOKafkaClient.send = _send_and_judge


# Lenient reading of record batches from foreign clients: a batch that aiokafka cannot decode must not block a consumer.
#
# Kafka accepts any bytes as a header's name, but aiokafka decodes it as UTF-8. With an invalid name, every reader of
# the partition fails at that record on each attempt, and loses the records that it had already unpacked (measured on
# aiokafka 0.14, ``consumer/fetcher.py``, ``FetchResult.getall``). Here aiokafka's own Python code unpacks such a batch
# once more, with the invalid bytes written as ``\xff``. The record is then treated like any other.

_FIRST_MAGIC_WITH_HEADERS = 2


class _LenientBytes(bytearray):
    """Bytes whose slices always decode."""

    def __getitem__(self, index: Any) -> Any:
        part = super().__getitem__(index)
        return _LenientBytes(part) if isinstance(index, slice) else part

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return super().decode(encoding, "backslashreplace")


class _LenientBatch(_DefaultRecordBatchPy):  # type: ignore[misc]
    def _maybe_uncompress(self) -> None:
        super()._maybe_uncompress()
        self._buffer: bytearray = _LenientBytes(self._buffer)


class _Batch:
    """A batch from the fast reader that falls back to the lenient reader."""

    __slots__ = ("_fast", "_raw")

    def __init__(self, fast: Any, raw: memoryview) -> None:
        self._fast, self._raw = fast, raw

    def __getattr__(self, name: str) -> Any:
        return getattr(self._fast, name)

    def __next__(self) -> Any:
        return next(self._fast)

    def __iter__(self) -> Iterator[Any]:
        last = -1
        try:
            for record in self._fast:
                last = record.offset
                yield record
        except UnicodeDecodeError:
            yield from (record for record in _LenientBatch(self._raw) if record.offset > last)


class _Batches(_MemoryRecordsPy):  # type: ignore[misc]
    def next_batch(self) -> Any:
        raw = self._next_slice
        batch = super().next_batch()
        if raw is None or raw[self.MAGIC_OFFSET] < _FIRST_MAGIC_WITH_HEADERS:
            return batch
        return _Batch(batch, raw)


def read_any_batch() -> None:
    """Patch aiokafka: all consumers of this process, Faust's too, read any batch that a broker accepted. Idempotent."""
    fetcher.MemoryRecords = _Batches
