"""The environment of every measurement: embedded Kafka on a fresh directory, topics, published news, worker processes."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import orjson
import psutil
from aiokafka import TopicPartition

from infra.embedded.child import ChildProcess
from infra.embedded.kafka.server import EmbeddedKafka
from infra.kafka.topics import ensure_topics, offsets_of, read_range
from schemas.events import OPENING_NAME, TERMINAL_NAMES
from schemas.topics import Topics

PARTITIONS = 4
ROOT = Path(__file__).resolve().parents[2]


class World:
    """One embedded broker with its topics. ``directory`` is removed afterwards."""

    def __init__(self, kafka: EmbeddedKafka, directory: Path) -> None:
        self.kafka, self.address, self.directory = kafka, kafka.address, directory
        self.topics = Topics()

    async def publish(self, count: int, *, first: int = 0) -> None:
        """Write ``count`` small news items as fast as the broker accepts them."""
        producer = self.address.producer(linger_ms=5)
        await producer.start()
        for i in range(first, first + count):
            key, value = news(i)
            await producer.send(self.topics.news, value, key=key)
        await producer.stop()

    def worker(self, *, latency: float, max_open: int = 2000, commit_s: float = 1.0, slot: str = "0") -> ChildProcess:
        """Start a worker process of the plain graph; the caller ends it."""
        options = {
            "--bootstrap": self.address.bootstrap, "--password-file": str(self.address.password_file),
            "--slot": slot, "--slot-dir": str(self.directory / "slots"),
            "--partitions": str(PARTITIONS), "--latency": str(latency), "--max-open": str(max_open),
            "--commit-interval": str(commit_s),
        }  # fmt: skip
        command = [sys.executable, "-P", "-m", "lab.bench.worker", *[w for o in options.items() for w in o]]
        log = self.directory / f"worker-{slot}.log"
        process = ChildProcess(
            "the bench worker", command, log_file=log, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}
        )
        process.start()
        return process

    async def ends(self) -> dict[TopicPartition, int]:
        """Return the end offsets of the journal."""
        return {tp: end for tp, (_, end) in (await offsets_of(self.address, self.topics.cases)).items()}

    async def wait_for_events(self, count: int, *, timeout_s: float) -> None:
        """Wait until the journal holds this many records.

        Raises:
            TimeoutError: it does not in time; the text has the number of records.
        """
        until = time.monotonic() + timeout_s
        while (held := sum((await self.ends()).values())) < count:
            if time.monotonic() > until:
                raise TimeoutError(f"{held} of {count} events after {timeout_s:.0f} s: see {self.directory}")
            await asyncio.sleep(0.2)

    async def span(self, since: Mapping[TopicPartition, int] | None = None) -> tuple[float, float, int]:
        """Return (first opening, last end) in seconds of the broker's clock, and the number of events.

        ``since``: the first offset of each partition that counts; default: all records count.
        """
        first, last, events = float("inf"), 0.0, 0
        bounds = await offsets_of(self.address, self.topics.cases)
        counted = {tp: ((since or {}).get(tp, start), stop) for tp, (start, stop) in bounds.items()}
        async for _, records in read_range(self.address, counted):
            for record in records:
                events += 1
                wire = dict(record.headers)["ce_type"].decode()
                if wire == OPENING_NAME:
                    first = min(first, record.timestamp / 1000)
                elif wire in TERMINAL_NAMES:
                    last = max(last, record.timestamp / 1000)
        return first, last, events


def news(i: int) -> tuple[bytes, bytes]:
    """Return (key, value) of the i-th synthetic news item, which is fresh."""
    item = {"source": "bench", "external_id": str(i), "text": f"synthetic news number {i}",
            "published_at": datetime.now(UTC).isoformat(), "language": "en"}  # fmt: skip
    return f"bench:{i}".encode(), orjson.dumps(item)


@asynccontextmanager
async def world() -> AsyncIterator[World]:
    """Yield a fresh world."""
    with TemporaryDirectory(prefix="newsproof-bench-") as directory:
        async with EmbeddedKafka(Path(directory) / "kafka") as kafka:
            made = World(kafka, Path(directory))
            await ensure_topics(kafka.address, made.topics, partitions=PARTITIONS, replication=1)
            yield made


async def end(process: ChildProcess, *, kill: bool = False) -> float:
    """Stop a worker process and return its CPU seconds."""
    times = psutil.Process(process.pid).cpu_times()
    if kill:
        process.kill()
        await process.wait(timeout_s=30)
    else:
        await process.stop()
    return float(times.user + times.system)
