"""The appender: the only way in which this process writes to a log. A result counts as done when its append returns."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from hashlib import sha256
from typing import Any, Protocol

import msgspec
import structlog
from aiokafka import TopicPartition
from aiokafka.errors import KafkaError, MessageSizeTooLargeError

from infra.kafka.topics import KafkaAddress
from infra.redaction import redacted
from schemas.errors import ContractError
from streams.failpoints import APPEND_BEFORE, APPEND_DONE, hit
from streams.journal.retry import retry_while_unavailable

log = structlog.get_logger(__name__)

BUSY_APPENDS_PER_S = 1000
"""Append rate above which batches linger."""
_RATE_WINDOW_S = 0.1
KEPT_OF_A_LARGE_RECORD = 64 * 1024
"""Bytes kept of a record that is too large for a dead letter. The header ``dl_cut`` holds its full size."""
SURELY_FITS = 256 * 1024
"""Maximum size of a value, in bytes, that certainly fits into a producer's record."""
_BY_THE_BROKER = 1
"""aiokafka's type of a time set by the broker (LogAppendTime)."""
LINGER_S = 0.004
"""Time for which a batch of a busy producer waits for more records.

A small request costs as much as a large one: sending every record at once was measured at 35 % of the worker's time
under load.
"""


class OwnRecord(msgspec.Struct, frozen=True, gc=False):
    """A record that this process wrote, at the broker's offset. It has the attributes of a Kafka record."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes]] | None


class Journal(Protocol):
    """A reader in this process that gets the process's own records of a topic before a consumer delivers them."""

    @property
    def turn(self) -> object:
        """Changes at each rebalance."""
        ...

    def on_appended(self, turn: object, record: OwnRecord) -> None:
        """Take a durable record. ``turn``: the value of :attr:`turn` when the record was sent. Never raises."""
        ...


class Appender:
    """An idempotent producer (acks=all) whose :meth:`append` returns when the record is durable, however long it takes.

    A failed append is retried with the same bytes; the step does not fail. A record that is thereby written twice is
    harmless: every reader ignores the second one.
    """

    def __init__(self, address: KafkaAddress, *, client_id: str = "newsproof-append") -> None:
        self._make = partial(address.producer, client_id=client_id, linger_ms=0)
        self._producer = self._make()
        self._known: dict[tuple[str, int], TopicPartition] = {}
        self._replacing = asyncio.Lock()
        self._open = 0
        self.dead_letters: Counter[str] = Counter()
        self._window = 0.0
        self._in_window = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._journals: dict[str, tuple[Journal, ...]] = {}

    def tell(self, topic: str, journal: Journal) -> None:
        """Pass every record appended to the topic to this reader, as each becomes durable."""
        self._journals[topic] = (*self._journals.get(topic, ()), journal)

    @contextmanager
    def telling(self, topic: str, journal: Journal) -> Iterator[None]:
        """Pass records to this reader until the block ends."""
        self.tell(topic, journal)
        try:
            yield
        finally:
            self._journals[topic] = tuple(other for other in self._journals[topic] if other is not journal)

    async def start(self) -> None:
        await self._producer.start()

    async def stop(self) -> None:
        """Flush and close."""
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
            value = b""  # the client refuses a record without key and value; others may write one, which we copy
        self._open += 1
        self._idle.clear()
        self._set_linger()
        try:
            try:
                # Every step comes this way: a retry around it was measured at a tenth of a step's processor time.
                return await self._send(topic, value, key, partition, headers)
            except KafkaError as failed:
                if not _mended_by_sending_again(failed):
                    raise
                again = partial(self._send_again, topic, value, key, partition, headers)
                return await retry_while_unavailable(
                    again, f"appending to {topic}", unavailable=_mended_by_sending_again
                )
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

    async def _send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int | None,
        headers: list[tuple[str, bytes]] | None,
    ) -> tuple[int, int]:
        hit(APPEND_BEFORE)
        followers = [(journal, journal.turn) for journal in self._journals.get(topic, ())]
        meta = await (await self._queued(topic, value, key, partition, headers))
        hit(APPEND_DONE)
        # A broker that has forgotten a duplicate's offset returns none (DuplicateSequenceNumber). aiokafka then counts
        # from -1 and takes the client's time, while journal records have the broker's.
        if followers and meta.timestamp_type == _BY_THE_BROKER:
            record = OwnRecord(topic, meta.partition, meta.offset, key, value, headers)
            for journal, turn in followers:
                journal.on_appended(turn, record)
        return meta.partition, meta.offset

    async def _queued(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int | None,
        headers: list[tuple[str, bytes]] | None,
    ) -> asyncio.Future[Any]:
        """Pass the record to the producer, and return the future of its position in the log."""
        producer, size = self._producer, len(value or b"")
        if partition is None or size > SURELY_FITS:
            return await producer.send(topic, value, key=key, partition=partition, headers=headers)  # type: ignore[no-any-return]
        if (tp := self._known.get((topic, partition))) is None:
            sent: asyncio.Future[Any] = await producer.send(topic, value, key=key, partition=partition, headers=headers)
            self._known[topic, partition] = TopicPartition(topic, partition)
            return sent
        # ``send`` first checks the topic's metadata and the record's size. That was measured at half of its time.
        return await producer._message_accumulator.add_message(  # type: ignore[no-any-return]
            tp, key, value, producer._request_timeout_ms / 1000, headers=headers or []
        )

    async def _send_again(self, *record: Any) -> tuple[int, int]:
        producer = self._producer
        try:
            return await self._send(*record)
        except KafkaError as exc:
            if not exc.retriable and _mended_by_sending_again(exc):
                await self._replace(producer, exc)
            raise

    async def _replace(self, spent: Any, why: KafkaError) -> None:
        """Continue with a new producer. Once its sending task has failed, or the broker has refused its sequence, the
        old one sends nothing more."""
        async with self._replacing:
            if self._producer is not spent:
                return
            log.error("a producer whose records are refused is replaced", error=repr(why))
            producer = self._make()
            await producer.start()
            self._producer = producer
            self._known.clear()
            with suppress(Exception):  # raises the error that ended its task again
                await spent.stop()

    def _set_linger(self) -> None:
        # Only a busy producer lingers: a single record is sent at once.
        self._in_window += 1
        now = asyncio.get_running_loop().time()
        if now - self._window >= _RATE_WINDOW_S:
            busy = self._in_window / (now - self._window) >= BUSY_APPENDS_PER_S
            self._producer._message_accumulator._linger_time = LINGER_S if busy else 0.0
            self._window, self._in_window = now, 0

    async def flush(self, timeout_s: float) -> bool:
        """Wait until no append is running; False on timeout."""
        try:
            await asyncio.wait_for(self._idle.wait(), timeout_s)
        except TimeoutError:
            return False
        return True

    async def dead_letter(self, topic: str, record: Any, *, reason: str, why: str, consumer: str) -> None:
        """Write an unreadable record to the dead letters, with its original bytes and headers, and the reason.

        ``why`` is a sentence for people. ``record`` has topic, partition, offset, key, value and headers, as aiokafka's
        and Faust's records do.
        """
        reason_headers = [
            ("dl_reason", reason.encode()),
            ("dl_why", redacted(why).encode("utf-8", "backslashreplace")[:2000]),
            ("dl_consumer", consumer.encode()),
            ("dl_topic", str(record.topic).encode()),
            ("dl_partition", str(record.partition).encode()),
            ("dl_offset", str(record.offset).encode()),
        ]
        self.dead_letters[reason] += 1
        headers = [(k, v) for k, v in record.headers or () if v is not None]
        null = record.key is None and record.value is None  # Kafka accepts a record with neither, aiokafka does not
        try:
            await self.append(
                topic,
                b"" if null else record.value,
                key=record.key,
                partition=None,
                headers=[*headers, *reason_headers],
            )
        except ContractError:
            # Too large for a dead letter: a foreign writer's compression made the original fit. The original stays at
            # the offset that the dead letter names; the dead letter holds its beginning.
            value = record.value or b""
            reason_headers += [("dl_cut", b"%d" % len(value)), ("dl_sha256", sha256(value).hexdigest().encode())]
            kept, key = value[:KEPT_OF_A_LARGE_RECORD], (record.key or b"")[:1000]
            await self.append(topic, kept, key=key, partition=None, headers=reason_headers)


def _mended_by_sending_again(exc: Exception) -> bool:
    return isinstance(exc, KafkaError) and not isinstance(exc, MessageSizeTooLargeError)
