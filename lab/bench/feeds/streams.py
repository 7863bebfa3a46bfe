"""Benchmarks the live page: many open streams, signals at a steady rate, one web process beside the broker.

The window that streams read from is full before the first stream opens. Every stream must get every signal, once and in
order. Latency runs from a signal's due time to its arrival at the client, including the transaction. It is measured in
this process; the web service is a child process.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import orjson
import psutil

from infra.embedded.child import ChildProcess
from lab.bench.measures import Figure
from lab.bench.world import ROOT, World, world
from schemas.envelope import Envelope
from schemas.ids import uuid5
from schemas.signals import SIGNAL_SCHEMA_VERSION, Signal
from streams.feed.window import WINDOW_ITEMS
from streams.publish.publisher import _record

STREAMS = 200
SIGNALS_PER_S = 50
SECONDS = 60
_WITHIN_S = 60.0
_MARK = "Newsproof's page: "
_TOKEN = "of this measurement alone"


class Client:
    """One open stream: the signals received and their latencies (seconds)."""

    def __init__(self) -> None:
        self.got: list[int] = []
        self.took: list[float] = []
        self.connected = asyncio.Event()

    async def read(self, address: str, wanted: int) -> None:
        """Read until this many signals have arrived."""
        at = urlsplit(address)
        reader, writer = await asyncio.open_connection(at.hostname, at.port, limit=1024 * 1024)
        asked = f"GET /api/v1/stream HTTP/1.1\r\nHost: {at.netloc}\r\nAuthorization: Bearer {_TOKEN}\r\n\r\n"
        writer.write(asked.encode())
        async for line in reader:
            if line.startswith(b"id: "):
                self.connected.set()
            elif line.startswith(b"data: "):
                number, sent = orjson.loads(line[6:])["data"]["notes"].split()
                self.got.append(int(number))
                self.took.append(time.monotonic() - float(sent))
                if len(self.got) >= wanted:
                    break
        writer.close()


async def streams(seconds: int = SECONDS) -> list[Figure]:
    """Open the streams, publish, and compare what each received with what was sent."""
    wanted = seconds * SIGNALS_PER_S
    async with world() as w, _web(w) as (address, process):
        await _fill(w, WINDOW_ITEMS)  # from here on, memory growth is a leak
        clients = [Client() for _ in range(STREAMS)]
        reading = [asyncio.create_task(client.read(address, wanted)) for client in clients]
        async with asyncio.timeout(_WITHIN_S):
            for client in clients:
                await client.connected.wait()
        memory: list[float] = []
        watching = asyncio.create_task(_watch(process, memory))
        began, cpu = time.monotonic(), _cpu(process)
        await _publish(w, wanted)
        published = time.monotonic() - began
        await asyncio.wait(reading, timeout=_WITHIN_S)
        watching.cancel()
        cpu = _cpu(process) - cpu
        for task in reading:
            task.cancel()
        await asyncio.gather(*reading, return_exceptions=True)
    whole = sum(client.got == list(range(wanted)) for client in clients)
    if whole != STREAMS:
        raise AssertionError(f"{STREAMS - whole} of {STREAMS} streams lost, repeated or disordered signals")
    return _figures(clients, memory, wanted, published, cpu)


def _figures(clients: list[Client], memory: list[float], wanted: int, published: float, cpu: float) -> list[Figure]:
    took = sorted(t * 1000 for client in clients for t in client.took)
    quarter = max(1, len(memory) // 4)
    second, last = memory[quarter : 2 * quarter] or memory, memory[-quarter:]
    name = f"streams: {STREAMS} open, {wanted / published:.0f} signals/s"
    return [
        Figure(name=f"{name}: streams that got all {wanted:,} once, in order", value=STREAMS, unit="streams", target="= 200"),
        Figure(name=f"{name}: latency p50", value=statistics.median(took), unit="ms", target="-"),
        Figure(name=f"{name}: latency p95", value=took[int(len(took) * 0.95)], unit="ms", target="< 1,000"),
        Figure(name=f"{name}: latency p99", value=took[int(len(took) * 0.99)], unit="ms", target="-"),
        Figure(name="streams: resident memory of the web process at the start", value=memory[0], unit="MiB", target="-"),
        Figure(name="streams: resident memory, the most", value=max(memory), unit="MiB", target="-"),
        Figure(name="streams: growth from the second quarter to the last", value=statistics.mean(last) - statistics.mean(second), unit="MiB", target="about 0"),
        Figure(name="streams: CPU of the web process", value=cpu / published * 100, unit="% of a core", target="-"),
    ]  # fmt: skip


@asynccontextmanager
async def _web(w: World) -> AsyncIterator[tuple[str, psutil.Process]]:
    log = w.directory / "web.log"
    env = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        **w.address.as_environment(),
        "NEWSPROOF_MODE": "offline",
        "WEB_TOKEN": _TOKEN,
        "WEB_REQUESTS_PER_MINUTE": "100000",
        "WEB_MAX_STREAMS_PER_ADDRESS": "100000",
    }
    command = [sys.executable, "-P", "-m", "newsproof", "--data-dir", str(w.directory / "data"), "web", "--port", "0"]
    child = ChildProcess("the web service", command, log_file=log, cwd=w.directory, env=env)
    child.start()
    try:
        async with asyncio.timeout(_WITHIN_S):
            address = await _child_error(child)
        yield address, psutil.Process(child.pid)
    finally:
        await child.stop()


async def _child_error(child: ChildProcess) -> str:
    while True:
        for line in child.log_tail(200).splitlines():
            if line.startswith(_MARK):
                return line.removeprefix(_MARK).strip()
        await asyncio.sleep(0.1)


async def _fill(w: World, count: int) -> None:
    async with w.address.producer(linger_ms=5) as producer:
        for number in range(count):
            await producer.send(w.topics.signals, partition=0, **_signal(w, -1 - number, 0.0))


async def _publish(w: World, wanted: int) -> None:
    """Publish at an even rate, one signal per transaction as ``publish`` does. If late, all due signals in one."""
    producer = w.address.producer(transactional_id=w.topics.transactional_id("bench"))
    await producer.start()
    began, number = time.monotonic(), 0
    try:
        while number < wanted:
            await asyncio.sleep(max(0.0, began + number / SIGNALS_PER_S - time.monotonic()))
            due = min(wanted, max(number, int((time.monotonic() - began) * SIGNALS_PER_S)) + 1)
            async with producer.transaction():
                # One partition: Kafka guarantees no order across partitions.
                for n in range(number, due):
                    record = _signal(w, n, began + n / SIGNALS_PER_S)
                    await producer.send(w.topics.signals, partition=0, **record)
            number = due
    finally:
        await producer.stop()


def _signal(w: World, number: int, sent: float) -> dict[str, Any]:
    return published(w, made_signal(number, notes=f"{number} {sent}"))


def made_signal(number: int, **changes: Any) -> Signal:
    """Return the confirmed order to sell of this number, decided and published now."""
    now = datetime.now(UTC)
    given: dict[str, Any] = {
        "schema_version": SIGNAL_SCHEMA_VERSION, "signal_id": uuid5("bench", str(number)), "revision": 1, "supersedes": None,
        "stage": "final", "verdict": "confirmed", "unchecked_reason": None, "supporting_sources": 3, "summary_zh": None,
        "summary_en": None, "case_id": uuid5("bench case", str(number)), "summary": "An exchange halts withdrawals " * 5,
        "event_type": "hack", "asset": "BTC", "asset_name": "Bitcoin", "symbol": None, "venue": None, "action": "sell",
        "direction": "short", "confidence": 0.8, "confidence_calibrated": None, "preliminary_confidence": 0.6,
        "strength": "high", "timeframe": "short", "horizon": 3600, "valid_until": now, "decided_at": now,
        "published_at": now, "reference_price": None, "notes": "", "links": ("https://a.example/1", "https://b.example/2"),
        "evidence": (), "independent_sources": 2, "risk_flags": ("offline",), "adjustments": (), "prompt_versions": (),
        "model": None, "provider_mode": "simulated", "news_source": "bench", "language": "en",
    }  # fmt: skip
    return Signal(**given | changes)


def published(w: World, signal: Signal) -> dict[str, Any]:
    """Return the record of a signal as ``publish`` writes it."""
    env = Envelope(
        id="cause", type="", case_id=signal.case_id, causation_id=None, run_id="live", time=signal.decided_at
    )
    return _record(signal, env, w.topics.cases, 0, 0)


async def _watch(process: psutil.Process, memory: list[float]) -> None:
    while True:
        memory.append(process.memory_info().rss / 2**20)
        await asyncio.sleep(1)


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)
