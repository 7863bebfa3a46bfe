"""Recall over a memory of its full size, on the real engine: exact search among entries spread over two years."""

from __future__ import annotations

import statistics
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from infra.clickhouse.client import Address, ClickHouse, connect
from infra.clickhouse.columns import FIRST_WINS_TOP, MEMORY
from infra.clickhouse.migrate import migrate
from infra.clickhouse.record import epoch_ms
from infra.embedded.clickhouse import EmbeddedClickHouse
from infra.embedding import DIMENSIONS, EMBEDDING_MODEL, embed
from infra.memory import ClickHouseMemory
from newsproof.bench.measures import Figure
from newsproof.demo import sample_news
from schemas.effects import Recall, RecallReply
from schemas.ids import LIVE_RUN, signal_id, uuid5

ENTRIES = 100_000
RECALLS = 60
ROWS_AT_ONCE = 5_000
NOISE = 0.6
"""Of an entry's vector: the rest is that of one of the sample's texts, so that recalls find something."""
DAYS = 730
NOW = datetime(2026, 1, 1, tzinfo=UTC)


async def memory(entries: int = ENTRIES) -> list[Figure]:
    """Fill memory, then recall the sample's news one after the other; a bare ``SELECT 1`` is the baseline."""
    with TemporaryDirectory(prefix="newsproof-bench-") as directory:
        engine = EmbeddedClickHouse(Path(directory) / "clickhouse")
        async with engine, _tables(engine) as client:
            await migrate(client)
            await _fill(client, entries)
            recalls, found = await _recalls(client)
            bare = [await _timed(client.query("SELECT 1")) for _ in range(RECALLS)]
    if not found:
        raise AssertionError("no recall found anything: what was measured is no search")
    usual = statistics.median(recalls)
    return [
        Figure(name=f"memory: one recall among {entries:,} entries", value=usual, unit="ms", target="< 50",
               ratio=usual / statistics.median(bare),
               baseline=f"{statistics.median(bare):.1f} ms, SELECT 1 over the same connection"),
        Figure(name="memory: 95 in 100 recalls within", value=recalls[len(recalls) * 95 // 100], unit="ms", target="-"),
    ]  # fmt: skip


def _tables(engine: EmbeddedClickHouse) -> ClickHouse:
    return connect(Address(host=engine.host, port=engine.port), database="measured")


async def _fill(client: ClickHouse, entries: int) -> None:
    random = np.random.default_rng(7)
    texts = np.array([embed(news.text) for news in sample_news()], dtype=np.float32)
    for first in range(0, entries, ROWS_AT_ONCE):
        count = min(ROWS_AT_ONCE, entries - first)
        noise = random.normal(size=(count, DIMENSIONS)).astype(np.float32)
        noise *= NOISE / np.linalg.norm(noise, axis=1, keepdims=True)
        vectors = texts[random.integers(len(texts), size=count)] * np.float32(1 - NOISE) + noise
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        rows = [_row(first + n, entries, vector.tolist()) for n, vector in enumerate(vectors)]
        await client.insert("memory", MEMORY, rows)


def _row(number: int, entries: int, vector: list[float]) -> tuple[Any, ...]:
    case = uuid5("bench-memory", str(number))
    at = epoch_ms(NOW - timedelta(days=DAYS * (1 - number / entries)))
    return (
        LIVE_RUN, case, uuid5("end", case), signal_id(LIVE_RUN, case), "verified", "hack", "BTC", "sell",
        f"what was said of case {number} in a sentence of about this length", 0.7, "en", at, EMBEDDING_MODEL, vector,
        "newsproof.cases", 0, number, FIRST_WINS_TOP - number,
    )  # fmt: skip


async def _recalls(client: ClickHouse) -> tuple[list[float], int]:
    recalling = ClickHouseMemory(client, timeout_s=30.0)
    news = sample_news()
    taken, found = [], 0
    for number in range(RECALLS + 3):
        effect = Recall(text=news[number % len(news)].text, asset="BTC", as_of=NOW, limit=5, exclude_case="none")
        begin = time.perf_counter()
        reply = (await recalling.perform(effect)).reply
        took = (time.perf_counter() - begin) * 1000
        assert isinstance(reply, RecallReply), reply
        found += len(reply.entries)
        if number >= 3:  # the first ones open connections and read files that later ones find in memory
            taken.append(took)
    return sorted(taken), found


async def _timed(work: Any) -> float:
    begin = time.perf_counter()
    await work
    return (time.perf_counter() - begin) * 1000
