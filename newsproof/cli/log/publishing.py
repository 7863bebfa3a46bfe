"""``newsproof publish``: checks the lines of a file or of standard input and sends them to the ``news`` topic."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from infra.client_settings import ClientSettings
from infra.kafka.topics import KafkaAddress, ensure_topics
from infra.listeners.source import own_file, sources_of
from newsproof.app.invocation import Invocation
from newsproof.app.servers import say_on_stderr, servers
from newsproof.sdk.client import running_kafka_of
from newsproof.sdk.news_item import NewsItem, item_of
from schemas.errors import ConfigError, ContractError
from schemas.news import MAX_RECORD_BYTES
from schemas.topics import Topics

_CHUNK = 64 * 1024
_OPENINGS = (b"[", b"{", b"[{")
_WAITING = 1000
"""Lines that may be sent and not yet durable; further ones wait."""


class Counts(msgspec.Struct):
    """How many lines were sent and refused; ``dated_now``: of those sent, how many said not when they were published."""

    published: int = 0
    refused: int = 0
    dated_now: int = 0


async def publish_lines(invocation: Invocation, file: str, *, source: str, raw: bool) -> Counts:
    """Publish every line. Ends at the end of the file or of standard input.

    Raises:
        ConfigError: the file cannot be read, or its lines are no items.
    """
    settings = invocation.client_settings()
    topics = Topics(settings.newsproof_topic_prefix)
    descriptor = _open(file)
    async with _kafka(invocation, settings) as address:
        await ensure_topics(
            address, topics, partitions=settings.topic_partitions, replication=settings.topic_replication
        )
        listed = sources_of(own_file(settings))
        return await _send(address, topics.news, _lines(descriptor), source=source, raw=raw, listed=listed)


@asynccontextmanager
async def _kafka(invocation: Invocation, settings: ClientSettings) -> AsyncIterator[KafkaAddress]:
    """Yield the Kafka that is configured or runs, else one of our own, for which alone all settings are loaded."""
    if (address := await running_kafka_of(settings)) is not None:
        yield address
        return
    every = invocation.settings()
    async with servers(every, clickhouse=False) as found:
        if found.own:  # else another command was just starting one
            say_on_stderr("No Kafka was running. The news stays in the log until `newsproof up` processes it.")
        yield KafkaAddress.of(found.applied_to(every), found.kafka or "")


async def _send(
    address: KafkaAddress,
    topic: str,
    lines: AsyncIterator[bytes],
    *,
    source: str,
    raw: bool,
    listed: Collection[str] = (),
) -> Counts:
    done, number = Counts(), 0
    waiting: list[asyncio.Future[object]] = []
    producer = address.producer(linger_ms=5)
    await producer.start()
    try:
        async for line in lines:
            number += 1
            if number == 1 and not raw and line.strip() in _OPENINGS:
                raise ConfigError(
                    "this is one JSON document over several lines: write one object per line, for example with `jq -c .` "
                    "(for an array: `jq -c '.[]'`)"
                )
            if not line.strip() and not raw:
                continue
            try:
                now = datetime.now(UTC)
                item = NewsItem(None, line) if raw else item_of(line, source=source, now=now, listed=listed)
            except ContractError as exc:
                done.refused += 1
                say_on_stderr(f"line {number} refused ({exc.reason}): {exc}")
                continue
            waiting.append(await producer.send(topic, item.value, key=item.key))
            done.published += 1
            done.dated_now += item.dated_now
            if len(waiting) >= _WAITING:
                await asyncio.gather(*waiting)
                waiting.clear()
        await asyncio.gather(*waiting)
    finally:
        await producer.stop()
    return done


# Reading lines


def _open(file: str) -> int:
    if file == "-":
        return sys.stdin.fileno()
    if Path(file).is_dir():
        raise ConfigError(f"{file} is a directory: give a file, or - for standard input")
    try:
        return os.open(Path(file), os.O_RDONLY | os.O_CLOEXEC)
    except OSError as exc:
        raise ConfigError(f"{file} cannot be read ({exc.strerror}): give a file, or - for standard input") from exc


async def _lines(descriptor: int) -> AsyncIterator[bytes]:
    """Yield lines without their ends. A line over 2 × ``MAX_RECORD_BYTES`` is cut there, and refused later.

    Raises:
        ConfigError: the system cannot read on; what came before was yielded.
    """
    queue: asyncio.Queue[bytes | OSError] = asyncio.Queue(maxsize=8)
    loop = asyncio.get_running_loop()

    def read() -> None:
        # A thread of its own, not the loop's pool: at Ctrl-C nothing waits for a read that may never return.
        # os.read, not sys.stdin: a thread that holds the lock of sys.stdin makes the interpreter's exit fail.
        while True:
            chunk: bytes | OSError
            try:
                chunk = os.read(descriptor, _CHUNK)
            except OSError as exc:
                chunk = exc
            try:
                asyncio.run_coroutine_threadsafe(queue.put(chunk), loop).result()
            except (RuntimeError, asyncio.CancelledError):
                return
            if not chunk or isinstance(chunk, OSError):
                return

    threading.Thread(target=read, daemon=True, name="read-lines").start()
    rest, skipping = b"", False
    while chunk := await queue.get():
        if isinstance(chunk, OSError):
            raise ConfigError(
                f"the input cannot be read on ({chunk.strerror}): correct that and publish again; items that were already sent count only once"
            ) from chunk
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            if not skipping:
                yield line.removesuffix(b"\r")
            skipping = False
        if len(rest) > 2 * MAX_RECORD_BYTES:
            if not skipping:
                yield rest
            rest, skipping = b"", True
    if rest and not skipping:
        yield rest
