"""Benchmarks recall over a full-size memory on the real engine: exact search among entries spread over two years, and the
first reading of that memory, as after a start.

Every entry has its signal, and outcomes for four horizons, as in an installation of that age.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import psutil

from infra.clickhouse.client import Address, ClickHouse, connect
from infra.clickhouse.columns import FIRST_WINS_TOP, MEMORY
from infra.clickhouse.memory import ClickHouseMemory
from infra.clickhouse.migrate import migrate
from infra.clickhouse.record import epoch_ms
from infra.embedded.clickhouse.server import EmbeddedClickHouse
from infra.models.embeddings.hashing import DIMENSIONS, EMBEDDING_MODEL, embed, quantised
from infra.offline.sample_news import sample_news
from lab.bench.measures import Figure
from schemas.effects import Recall, RecallReply
from schemas.ids import LIVE_RUN, signal_id, uuid5

ENTRIES = 100_000
RECALLS = 60
AT_ONCE = 4
BURST = 500
WARMING = 6
ROWS_AT_ONCE = 5_000
NOISE = 0.6
"""Share of noise in an entry's vector. The rest is the vector of a sample text, so that recalls find something."""
DAYS = 730
NOW = datetime(2026, 1, 1, tzinfo=UTC)


async def memory(entries: int = ENTRIES) -> list[Figure]:
    """Fill memory, then recall the sample's news one by one and four at once; a bare ``SELECT 1`` is the baseline."""
    with TemporaryDirectory(prefix="newsproof-bench-") as directory:
        server = EmbeddedClickHouse(Path(directory) / "clickhouse")
        async with server, _tables(server) as client:
            await migrate(client)
            await _fill(client, entries)
            before = psutil.Process().memory_info().rss
            reader = _MemoryReader(client)
            cpu = _cpu_s(server.pid)
            (load,) = await _times(reader.recall, 1)
            load_cpu, held = _cpu_s(server.pid) - cpu, psutil.Process().memory_info().rss - before
            await _times(reader.recall, WARMING, at_once=AT_ONCE)  # warm up connections and caches
            cpu = _cpu_s(server.pid)
            alone = await _times(reader.recall, RECALLS)
            cpu_ms = (_cpu_s(server.pid) - cpu) / RECALLS * 1000
            beside = await _times(reader.recall, RECALLS, at_once=AT_ONCE)
            burst = await _times(reader.recall, 1, at_once=BURST)
            bare = statistics.median(await _times(lambda: client.query("SELECT 1"), RECALLS))
    if not reader.found:
        raise AssertionError("no recall found anything: what was measured is no search")
    usual = statistics.median(alone)
    return [
        Figure(name=f"memory: one recall among {entries:,} entries, median", value=usual, unit="ms", target="<= 10",
               ratio=usual / bare, baseline=f"{bare:.1f} ms, SELECT 1 over a connection to the engine"),
        Figure(name="memory: 95 in 100 of them within", value=_within(alone), unit="ms", target="-"),
        Figure(name="memory: processor time of one recall, ours and the engine's", value=cpu_ms, unit="ms", target="-"),
        Figure(name=f"memory: {AT_ONCE} recalls at once, median", value=statistics.median(beside), unit="ms", target="<= 25"),
        Figure(name="memory: 95 in 100 of those within", value=_within(beside), unit="ms", target="-"),
        Figure(name="memory: first recall, which reads all of it", value=load / 1000, unit="s", target="<= 5"),
        Figure(name="memory: processor time of that, ours and the engine's", value=load_cpu, unit="s", target="-"),
        Figure(name="memory: resident memory that it takes", value=held / 2**20, unit="MiB", target="-"),
        Figure(name=f"memory: a burst of {BURST} at once, 95 in 100 within", value=_within(burst), unit="ms", target="-"),
        Figure(name="memory: recalls of that burst without memory", value=reader.without, unit="recalls", target="0"),
    ]  # fmt: skip


def _tables(engine: EmbeddedClickHouse) -> ClickHouse:
    return connect(Address(host=engine.host, port=engine.port), database="measured")


async def _fill(client: ClickHouse, entries: int) -> None:
    random = np.random.default_rng(7)
    texts = np.array([embed(news.text) for news in sample_news()], dtype=np.float32)
    texts /= np.linalg.norm(texts, axis=1, keepdims=True)
    for first in range(0, entries, ROWS_AT_ONCE):
        count = min(ROWS_AT_ONCE, entries - first)
        noise = random.normal(size=(count, DIMENSIONS)).astype(np.float32)
        noise *= NOISE / np.linalg.norm(noise, axis=1, keepdims=True)
        vectors = texts[random.integers(len(texts), size=count)] * np.float32(1 - NOISE) + noise
        rows = [_row(first + n, entries, quantised(vector)) for n, vector in enumerate(vectors)]
        await client.insert("memories", MEMORY, rows)
    await client.command(_SIGNALS)
    await client.command(_OUTCOMES)


_SIGNALS = """
INSERT INTO signals (run_id, signal_id, revision, stage, verdict, case_id, confidence, decided_at, emitted_at, first_wins)
SELECT run_id, signal_id, 1, 'final', verdict, case_id, confidence, decided_at, decided_at + INTERVAL 1 SECOND, first_wins
FROM memories
"""
_OUTCOMES = """
INSERT INTO outcomes (case_id, horizon_s, entry_at, entry_price, exit_at, exit_price, return, version)
SELECT case_id, arrayJoin([300, 3600, 14400, 86400]) AS horizon_s, decided_at, 1, decided_at + toIntervalSecond(horizon_s), 1,
       0.01, 1
FROM memories
"""


def _row(number: int, entries: int, vector: list[int]) -> tuple[Any, ...]:
    case = uuid5("bench-memory", str(number))
    at = epoch_ms(NOW - timedelta(days=DAYS * (1 - number / entries)))
    return (
        LIVE_RUN, case, uuid5("end", case), signal_id(LIVE_RUN, case), "confirmed", "hack", "BTC", "sell",
        f"what was said of case {number} in a sentence of about this length", 0.7, "en", [], at, EMBEDDING_MODEL, vector,
        "newsproof.cases", 0, number, FIRST_WINS_TOP - number,
    )  # fmt: skip


class _MemoryReader:
    """Recalls the sample's news one after another."""

    def __init__(self, client: ClickHouse) -> None:
        self._memory = ClickHouseMemory(client)
        self._news = sample_news()
        self._asked = self.found = self.without = 0

    async def recall(self) -> None:
        news = self._news[self._asked % len(self._news)]
        self._asked += 1
        effect = Recall(text=news.text, asset="BTC", as_of=NOW, limit=5, exclude_case="none")
        reply = (await self._memory.perform(effect)).reply
        if isinstance(reply, RecallReply):
            self.found += len(reply.entries)
        else:
            self.without += 1


async def _times(work: Callable[[], Coroutine[Any, Any, Any]], times: int, *, at_once: int = 1) -> list[float]:
    """Return the milliseconds of each recall, ascending, since the request of its round."""
    taken: list[float] = []

    async def since(begin: float) -> None:
        await work()
        taken.append((time.perf_counter() - begin) * 1000)

    for _ in range(times):
        begin = time.perf_counter()
        await asyncio.gather(*(since(begin) for _ in range(at_once)))
    return sorted(taken)


def _within(ordered: list[float]) -> float:
    return ordered[len(ordered) * 95 // 100]


def _cpu_s(pid: int) -> float:
    engine = psutil.Process(pid).cpu_times()
    return float(time.process_time() + engine.user + engine.system)
