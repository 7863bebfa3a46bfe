"""The output of a bot: records of ``deliveries``, in transactions by which a second process of the bot stops the first."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from aiokafka.errors import ProducerFenced

from infra.kafka.topics import KafkaAddress, offsets_of
from schemas.deliveries import DeliveryRecord, HaltLifted, HaltRequested, encode
from schemas.errors import ConfigError
from schemas.topics import Topics

TRANSACTION_TIMEOUT_MS = 20_000
"""Maximum time for which a killed bot that nobody starts again can block read_committed readers."""
RETRY_BACKOFF_MS = 10
"""Delay between attempts to begin a transaction while the broker ends the last one."""
_HEADERS = [("content-type", b"application/json")]


class DeliveryWriter:
    """Writes the records of one bot. After :meth:`start`, no earlier process of this bot can write."""

    def __init__(self, address: KafkaAddress, topics: Topics, bot: str) -> None:
        self._address, self._topic, self._bot = address, topics.deliveries, bot
        self._producer = address.producer(
            transactional_id=topics.transactional_id(f"bots-{bot}"),
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            retry_backoff_ms=RETRY_BACKOFF_MS,
            linger_ms=0,
        )

    async def start(self) -> None:
        """Stop earlier processes of this bot, and end a transaction that the broker left open."""
        await self._producer.start()
        seen = await offsets_of(self._address, self._topic, isolation_level="read_committed")
        if seen != await offsets_of(self._address, self._topic):
            # As in streams/publish/publisher.py: the next marker of the same producer closes what hangs.
            await self._producer.begin_transaction()
            await (await self._producer.send(self._topic, b"", partition=0))
            await self._producer.abort_transaction()

    async def stop(self) -> None:
        await self._producer.stop()

    async def append(self, records: Sequence[tuple[str, DeliveryRecord]]) -> None:
        """Append records with their keys in one transaction; return when they are durable.

        Raises:
            ConfigError: another process of this bot has started. KafkaError: it is unknown whether they were written, and
                this writer may be of no more use: start another. ``ProducerFenced``, if the transaction took longer than
                ``TRANSACTION_TIMEOUT_MS``: the broker has aborted it.
        """
        began = time.time()  # which, like the broker's clock, goes on while the machine sleeps
        try:
            await self._producer.begin_transaction()
            try:
                for key, record in records:
                    sent = await self._producer.send(
                        self._topic, encode(record), key=key.encode(), partition=0, headers=_HEADERS
                    )
                    sent.add_done_callback(_retrieve_error)
            except BaseException:
                await self._producer.abort_transaction()
                raise
            await self._producer.commit_transaction()
        except ProducerFenced as exc:
            if time.time() - began >= TRANSACTION_TIMEOUT_MS / 1000:
                raise  # if there is another process after all, its next transaction ends it
            raise ConfigError(
                f"another process of the bot {self._bot} has started, so this one stops: run one process per bot"
            ) from exc


async def append_halt(appender: Any, topics: Topics, record: HaltRequested | HaltLifted) -> None:
    """Append a halt, or its end; return when it is durable. ``appender``: :class:`streams.journal.appender.Appender`."""
    await appender.append(topics.deliveries, encode(record), key=None, partition=0, headers=_HEADERS)


def _retrieve_error(future: asyncio.Future[Any]) -> None:
    # The transaction's own error reports a failed record.
    if not future.cancelled():
        future.exception()
