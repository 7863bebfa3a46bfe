"""Recall searches a copy of the tables: it finds what ClickHouse itself finds in them, however the rows came there."""

from __future__ import annotations

import asyncio
import random
from datetime import timedelta
from typing import Any

import pytest

from infra.clickhouse import memory_copy
from infra.clickhouse.client import ClickHouse
from infra.clickhouse.columns import FIRST_WINS_TOP, MEMORY
from infra.clickhouse.memory import SAME_ASSET_FLOOR, SIMILARITY_FLOOR, ClickHouseMemory
from infra.clickhouse.record import epoch_ms
from infra.models.embeddings.hashing import EMBEDDING_MODEL, embed, length
from schemas.effects import Failure, Recall
from schemas.errors import TransientError
from tests.infra.clickhouse.clickhouse_samples import NOW, fill, seconds
from tests.infra.clickhouse.test_memory import asked, remembered, replied

WORDS = ["USDC", "depeg", "SEC", "批准", "ETF", "hack", "bridge", "Binance", "lists", "token", "跌至", "起诉"]

LIKE = """
dotProduct(embedding, CAST(VECTOR, 'Array(Float32)')) / (embedding_norm * {norm:Float64})
"""
NEAREST = f"""
SELECT case_id, round({LIKE} AS similarity, 6)
FROM (SELECT *, embedding_norm FROM memories FINAL WHERE length(embedding) = 256)
WHERE run_id = 'live' AND embedding_model = {{model:String}} AND case_id != 'me'
  AND toUnixTimestamp64Milli(decided_at) < {{as_of_ms:Int64}}
  AND similarity >= if(asset != '' AND asset = {{asset:String}} OR hasAny(keywords, {{keywords:Array(String)}}),
                       {{near:Float64}}, {{floor:Float64}})
ORDER BY similarity DESC, decided_at DESC, first_wins DESC, case_id
LIMIT {{limit:UInt32}}
"""
TIMELINE = f"""
SELECT case_id, if(length(embedding) = 256, round({LIKE.replace("embedding,", "arrayResize(embedding, 256),")}, 6), 0)
FROM memories FINAL
WHERE run_id = 'live' AND embedding_model = {{model:String}} AND case_id != 'me'
  AND toUnixTimestamp64Milli(decided_at) BETWEEN {{since_ms:Int64}} AND {{as_of_ms:Int64}} - 1
  AND (asset = {{asset:String}} AND asset != '' OR match(summary, {{named:String}}))
ORDER BY decided_at DESC, case_id
LIMIT {{limit:UInt32}}
"""


def row(draw: random.Random, case: int, **fields: Any) -> tuple[Any, ...]:
    """Return a row of few words, so that many are alike and some equally so."""
    text = " ".join(draw.choices(WORDS, k=draw.randint(0, 4)))
    at = epoch_ms(NOW - timedelta(minutes=draw.randint(-3, 12)))
    said = {
        "run_id": draw.choice(["live"] * 9 + ["run-1"]), "case_id": "me" if case == 3 else f"case-{case}",
        "event_id": f"end-{case}", "signal_id": f"signal-{case}", "verdict": draw.choice(["", "confirmed"]),
        "event_type": "depeg", "asset": draw.choice(["", "BTC", "USDC"]), "action": "sell", "summary": text, "confidence": 0.7,
        "language": "en", "keywords": draw.sample(["sec", "etf"], draw.randint(0, 2)), "decided_at": at,
        "embedding_model": draw.choice([EMBEDDING_MODEL] * 9 + ["other"]), "embedding": embed(text),
        "journal_topic": "cases", "journal_partition": case % 3, "journal_offset": case, "first_wins": FIRST_WINS_TOP - case,
    }  # fmt: skip
    return tuple((said | fields)[name] for name in MEMORY)


async def found_by_clickhouse(client: ClickHouse, effect: Recall) -> list[tuple[str, float]]:
    vector = embed(effect.text)
    given = {
        "model": EMBEDDING_MODEL, "norm": length(vector), "as_of_ms": epoch_ms(effect.as_of), "asset": effect.asset,
        "keywords": [word.lower() for word in effect.keywords], "near": SAME_ASSET_FLOOR, "floor": SIMILARITY_FLOOR,
        "limit": effect.limit, "since_ms": epoch_ms(effect.since or NOW),
        "named": f"(?i)(?:^|[^a-z0-9]){effect.text}(?:[^a-z0-9]|$)" if effect.text.isascii() else effect.text,
    }  # fmt: skip
    rows = (await client.query((TIMELINE if effect.since else NEAREST).replace("VECTOR", str(vector)), given)).rows
    return rows[::-1] if effect.since else rows


async def same_as_clickhouse(client: ClickHouse, memory: ClickHouseMemory, draw: random.Random) -> int:
    found = 0
    for _ in range(8):
        since = draw.choice([None, None, NOW - timedelta(minutes=6)])
        effect = asked(
            " ".join(draw.choices(WORDS, k=1 if since else 3)), asset=draw.choice(["", "BTC"]), since=since,
            as_of=NOW - timedelta(minutes=draw.randint(-4, 6)), limit=draw.choice([3, 200]), keywords=("ETF",),
        )  # fmt: skip
        entries = [(e.case_id, e.similarity) for e in replied(await memory.perform(effect))]
        assert entries == await found_by_clickhouse(client, effect)
        found += len(entries)
    return found


@pytest.fixture
def never_old(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every recall read anew what is in the tables."""
    monkeypatch.setattr(memory_copy, "READ_ON_AFTER_S", 0.0)
    monkeypatch.setattr(memory_copy, "MAX_AGE_S", 0.0)


@pytest.mark.usefixtures("never_old")
async def test_recall_finds_what_clickhouse_finds_whether_rows_are_inserted_again_merged_or_exchanged(
    clickhouse: ClickHouse,
) -> None:
    draw, memory = random.Random(20261123), ClickHouseMemory(clickhouse, timeout_s=30.0)
    rows = [row(draw, case) for case in range(240)]
    found = 0
    for first in range(0, 240, 60):
        await clickhouse.insert("memories", MEMORY, rows[max(0, first - 9) : first + 60])  # nine of them once more
        found += await same_as_clickhouse(clickhouse, memory, draw)
    await clickhouse.command("OPTIMIZE TABLE memories FINAL")
    found += await same_as_clickhouse(clickhouse, memory, draw)
    await clickhouse.command("CREATE OR REPLACE TABLE memories_rebuilt AS memories")
    await clickhouse.insert("memories_rebuilt", MEMORY, [*rows[120:], row(draw, 7, run_id="live")])
    await clickhouse.command("EXCHANGE TABLES memories AND memories_rebuilt")
    await clickhouse.command("DROP TABLE memories_rebuilt")
    found += await same_as_clickhouse(clickhouse, memory, draw)
    assert found > 400


@pytest.mark.usefixtures("never_old")
async def test_vectors_of_a_model_that_appear_later_are_found(clickhouse: ClickHouse) -> None:
    memory, effect = ClickHouseMemory(clickhouse, timeout_s=30.0), asked("USDC depeg", as_of=NOW + seconds(3600))
    draw, plain = random.Random(1), {"run_id": "live", "embedding_model": EMBEDDING_MODEL}
    await clickhouse.insert("memories", MEMORY, [row(draw, 1, **plain, embedding=[])])
    assert replied(await memory.perform(effect)) == ()
    await clickhouse.insert("memories", MEMORY, [row(draw, 2, **plain, embedding=embed("USDC depeg"))])
    assert [e.case_id for e in replied(await memory.perform(effect))] == ["case-2"]


@pytest.mark.usefixtures("never_old")
async def test_a_read_that_fails_once_leaves_nothing_behind(
    clickhouse: ClickHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory, effect = ClickHouseMemory(clickhouse, timeout_s=30.0), asked("USDC depeg", as_of=NOW + seconds(3600))
    assert replied(await memory.perform(effect)) == ()
    plain = {"run_id": "live", "embedding_model": EMBEDDING_MODEL, "embedding": embed("USDC depeg")}
    await clickhouse.insert("memories", MEMORY, [row(random.Random(1), 2, **plain)])
    query, failures = clickhouse.query, ["once"]

    async def failing(statement: str, *given: Any) -> Any:
        if "summary" in statement and failures:
            failures.pop()
            raise TransientError("gone", kind="unavailable")
        return await query(statement, *given)

    monkeypatch.setattr(clickhouse, "query", failing)
    assert isinstance((await memory.perform(effect)).reply, Failure)
    assert [e.case_id for e in replied(await memory.perform(effect))] == ["case-2"]


async def test_no_recall_sees_a_case_without_the_judgements_that_were_there(
    clickhouse: ClickHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_copy, "READ_ON_AFTER_S", 0.0)
    monkeypatch.setattr(memory_copy, "PATIENCE_S", 0.0)
    text, memory = "USDC 跌至 0.87 美元", ClickHouseMemory(clickhouse, timeout_s=30.0)
    await fill(clickhouse, [remembered("before", "nothing alike")])
    before_emission = asked(text, as_of=NOW + seconds(20))
    assert replied(await memory.perform(before_emission)) == ()
    await fill(clickhouse, [remembered("a", text)])
    late = [("live", "a", "signal-a", 1, "final", NOW + seconds(30), "confirmed", 0.9)]
    columns = ("run_id", "case_id", "signal_id", "revision", "stage", "emitted_at", "verdict", "confidence")
    await clickhouse.insert("signals", columns, late)
    query, let, asked_for = clickhouse.query, asyncio.Event(), asyncio.Event()

    async def held_up(statement: str, *given: Any) -> Any:
        if "FROM signals" in statement:
            asked_for.set()
            await let.wait()
        return await query(statement, *given)

    monkeypatch.setattr(clickhouse, "query", held_up)
    reading = asyncio.create_task(memory.perform(before_emission))
    await asked_for.wait()
    assert replied(await memory.perform(before_emission)) == ()
    let.set()
    assert replied(await reading) == ()
    monkeypatch.setattr(memory_copy, "MAX_AGE_S", 0.0)
    assert [e.case_id for e in replied(await memory.perform(asked(text, as_of=NOW + seconds(60))))] == ["a"]


@pytest.mark.usefixtures("never_old")
async def test_an_outcome_that_was_removed_is_forgotten(clickhouse: ClickHouse) -> None:
    text, memory = "USDC 跌至 0.87 美元", ClickHouseMemory(clickhouse, timeout_s=30.0)
    await fill(clickhouse, [remembered("a", text)])
    columns = ("case_id", "horizon_s", "entry_at", "entry_price", "exit_at", "exit_price", "return", "version")
    later = NOW + seconds(3600)
    await clickhouse.insert("outcomes", columns, [("a", 3600, NOW, 1.0, later, 1.3, 0.3, 1)])
    effect = asked(text, as_of=NOW + seconds(7200))
    assert [e.outcome for e in replied(await memory.perform(effect))] == ["+30.0% after 1 h"]
    await clickhouse.command("DELETE FROM outcomes WHERE version < 2")
    assert [e.outcome for e in replied(await memory.perform(effect))] == [None]
