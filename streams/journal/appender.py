"""Append: the one way in which this process writes to a log. An awaited append is the acknowledgement of its result."""

from __future__ import annotations

import asyncio
from collections import Counter
from hashlib import sha256
from typing import Any

from aiokafka.errors import KafkaError, MessageSizeTooLargeError

from infra.kafka.topics import KafkaAddress
from infra.redaction import redacted
from schemas.errors import ContractError
from streams.failpoints import APPEND_BEFORE, APPEND_DONE, hit
from streams.journal.retry import retry_while_unavailable

BUSY_APPENDS_PER_S = 1000
"""Rate of appends from which on batches linger."""
_RATE_WINDOW_S = 0.1
KEPT_OF_A_LARGE_LETTER = 64 * 1024
"""Bytes of a record that is too large for a dead letter of its own; the header ``dl_cut`` tells its full size."""
LINGER_S = 0.004
"""How long a batch of a busy producer waits for company. A small request costs as much as a large one; measured at
35 % of the worker's time when every record went at once under load."""


class Appender:
    """An idempotent producer (acks=all) whose :meth:`append` returns when the record is durable, however long that takes.

    A failed append is retried with the same bytes; it is not a step's failure. A record that is thereby written twice
    is harmless: every reader passes the second one by.
    """

    def __init__(self, address: KafkaAddress, *, client_id: str = "newsproof-append") -> None:
        self._producer = address.producer(client_id=client_id, linger_ms=0)
        self._open = 0
        self.dead_letters: Counter[str] = Counter()
        self._window = 0.0
        self._in_window = 0
        self._idle = asyncio.Event()
        self._idle.set()

    async def start(self) -> None:
        """Connect."""
        await self._producer.start()

    async def stop(self) -> None:
        """Flush and let go."""
        await self._producer.stop()

    async def append(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None,
        partition: int | None,
        headers: list[tuple[str, bytes]] | None = None,
    ) -> tuple[int, int]:
        """Write one record and return its (partition, offset) once all in-sync replicas have it.

        Raises:
            ContractError: the record is larger than ``max.message.bytes`` (reason ``too_large``).
        """
        if value is None and key is None:
            value = b""  # the client refuses a record of neither, which others may write and we then pass on

        async def send() -> tuple[int, int]:
            hit(APPEND_BEFORE)
            sent = await self._producer.send(topic, value, key=key, partition=partition, headers=headers)
            meta = await sent
            hit(APPEND_DONE)
            return meta.partition, meta.offset

        self._open += 1
        self._idle.clear()
        self._set_linger()
        try:
            return await retry_while_unavailable(send, f"appending to {topic}", unavailable=_mended_by_sending_again)
        except MessageSizeTooLargeError as exc:
            raise ContractError(
                f"a record of {len(value or b'')} bytes for {topic} is larger than Kafka accepts: "
                "shorten the texts in it",
                reason="too_large",
            ) from exc
        finally:
            self._open -= 1
            if self._open == 0:
                self._idle.set()

    def _set_linger(self) -> None:
        # A batch lingers only while the producer is busy: a record that comes alone goes at once.
        self._in_window += 1
        now = asyncio.get_running_loop().time()
        if now - self._window >= _RATE_WINDOW_S:
            busy = self._in_window / (now - self._window) >= BUSY_APPENDS_PER_S
            self._producer._message_accumulator._linger_time = LINGER_S if busy else 0.0
            self._window, self._in_window = now, 0

    async def flush(self, timeout_s: float) -> bool:
        """Wait until no append is open; False when ``timeout_s`` passed first."""
        try:
            await asyncio.wait_for(self._idle.wait(), timeout_s)
        except TimeoutError:
            return False
        return True

    async def dead_letter(self, topic: str, record: Any, *, reason: str, why: str, consumer: str) -> None:
        """Keep the original bytes and headers of a record that cannot be read, and say why in words.

        ``record`` has topic, partition, offset, key, value and headers, as aiokafka's and Faust's records do.
        """
        said = [
            ("dl_reason", reason.encode()),
            ("dl_why", redacted(why).encode("utf-8", "backslashreplace")[:2000]),
            ("dl_consumer", consumer.encode()),
            ("dl_topic", str(record.topic).encode()),
            ("dl_partition", str(record.partition).encode()),
            ("dl_offset", str(record.offset).encode()),
        ]
        self.dead_letters[reason] += 1
        headers = [(k, v) for k, v in record.headers or () if v is not None]
        null = record.key is None and record.value is None  # Kafka takes such a record, aiokafka writes none
        try:
            await self.append(
                topic, b"" if null else record.value, key=record.key, partition=None, headers=[*headers, *said]
            )
        except ContractError:
            # Larger than Kafka takes once more: a foreign writer's compression took it in. The original stays where the
            # letter says; the letter keeps its beginning.
            value = record.value or b""
            said += [("dl_cut", b"%d" % len(value)), ("dl_sha256", sha256(value).hexdigest().encode())]
            kept, key = value[:KEPT_OF_A_LARGE_LETTER], (record.key or b"")[:1000]
            await self.append(topic, kept, key=key, partition=None, headers=said)


def _mended_by_sending_again(exc: Exception) -> bool:
    return isinstance(exc, KafkaError) and not isinstance(exc, MessageSizeTooLargeError)
