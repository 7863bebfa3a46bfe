"""Recall: what is similar, what may be known at a time, and that a case never waits for memory."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any
from unittest.mock import AsyncMock

import pytest

from infra.clickhouse import memory_copy
from infra.clickhouse.client import Address, ClickHouse, Result, connect
from infra.clickhouse.memory import SIMILARITY_FLOOR, ClickHouseMemory
from infra.models.embeddings.hashing import DIMENSIONS, embed, length
from infra.ports import Answer
from schemas import events as ev
from schemas.effects import Failure, Recall, RecallReply
from schemas.errors import TransientError
from schemas.evidence import MemoryEntry
from tests.infra.clickhouse.clickhouse_samples import NOW, fill, record, seconds, signal

NEAR = [
    ("SEC 批准比特币现货 ETF,将于下周开始交易", "比特币现货ETF获SEC批准,下周开始交易"),
    ("Coinbase 即将上线 XYZ 代币,内部人士透露下周公布", "内部人士:Coinbase下周将上线XYZ代币"),
    (
        "XXX DeFi protocol hit by flash loan attack, losing over $100M USDC",
        "Flash loan attack drains more than $100M in USDC from XXX DeFi protocol",
    ),
]
UNRELATED = [
    ("SEC 批准比特币现货 ETF,将于下周开始交易", "XXX DeFi 协议遭受闪电贷攻击,损失超过 $100M USDC"),
    ("Walmart announces a partnership with Litecoin", "Curve pools exploited through a Vyper compiler bug"),
    ("美联储宣布加息 25 个基点", "Coinbase will list the XYZ token next week"),
]


def likeness(a: str, b: str) -> float:
    one, other = embed(a), embed(b)
    return sum(x * y for x, y in zip(one, other, strict=True)) / (length(one) * length(other))


@pytest.mark.parametrize(("a", "b"), NEAR)
def test_the_same_news_in_other_words_is_similar(a: str, b: str) -> None:
    assert likeness(a, b) > SIMILARITY_FLOOR + 0.15


@pytest.mark.parametrize(("a", "b"), UNRELATED)
def test_unrelated_news_is_not_similar(a: str, b: str) -> None:
    assert likeness(a, b) < SIMILARITY_FLOOR - 0.15


def test_layout_and_case_change_no_vector() -> None:
    assert embed("SEC  Approves:\nBitcoin ETF!") == embed("sec approves bitcoin etf")


@pytest.mark.parametrize("text", ["涨", "a", "USDC 脱锚 " * 5000, "\ud800 broken", "🚀🚀"])
def test_a_vector_has_256_components_of_one_byte_and_the_largest_uses_it_whole(text: str) -> None:
    vector = embed(text)
    assert len(vector) == DIMENSIONS
    assert max(map(abs, vector)) == 127


@pytest.mark.parametrize("text", ["", "  \n", "!?…"])
def test_a_text_without_letters_has_no_vector(text: str) -> None:
    assert embed(text) == []


def remembered(case: str, text: str, *, decided_at: datetime = NOW, offset: int = 0, **fields: Any) -> Any:
    of = signal(signal_id=f"signal-{case}", case_id=case, summary=f"sum of {case}", decided_at=decided_at, **fields)
    return record(ev.SignalSynthesized(signal=of, path="deep"), case=case, offset=offset, news_text=text)


def asked(text: str, **fields: Any) -> Recall:
    given: dict[str, Any] = {
        "text": text, "asset": "", "as_of": NOW + seconds(60), "limit": 5, "exclude_case": "me",
    }  # fmt: skip
    return Recall(**{**given, **fields})


def replied(answer: Answer) -> tuple[MemoryEntry, ...]:
    assert isinstance(answer.reply, RecallReply), answer.reply
    return answer.reply.entries


async def recall(client: ClickHouse, text: str, **fields: Any) -> tuple[MemoryEntry, ...]:
    return replied(await ClickHouseMemory(client, timeout_s=30.0).perform(asked(text, **fields)))


async def test_recall_finds_the_near_case_and_leaves_out_the_unrelated(clickhouse: ClickHouse) -> None:
    news, like_it = NEAR[0]
    await fill(
        clickhouse, [remembered("near", like_it), remembered("far", "Kroger to accept Bitcoin Cash at all stores")]
    )
    (entry,) = await recall(clickhouse, news)
    assert entry == MemoryEntry(
        case_id="near",
        summary="sum of near",
        event_type="depeg",
        asset="USDC",
        confidence=0.75,
        similarity=pytest.approx(likeness(news, like_it), abs=1e-6),
        decided_at=NOW,
        signal_id="signal-near",
        verdict="confirmed",
    )


async def test_nothing_that_was_decided_at_or_after_the_cases_time_is_remembered(clickhouse: ClickHouse) -> None:
    text = "USDC 跌至 0.87 美元"
    before = remembered("before", text, decided_at=NOW - seconds(0.001))
    await fill(clickhouse, [before, remembered("at", text), remembered("after", text, decided_at=NOW + seconds(1))])
    assert [e.case_id for e in await recall(clickhouse, text, as_of=NOW)] == ["before"]


async def test_a_timeline_lists_a_subjects_cases_in_the_order_of_time_however_unlike_their_words(
    clickhouse: ClickHouse,
) -> None:
    def told(case: str, summary: str, days: float, **fields: Any) -> Any:
        of = signal(
            signal_id=f"s-{case}", case_id=case, summary=summary, decided_at=NOW - seconds(days * 86_400), **fields
        )
        return record(ev.SignalSynthesized(signal=of, path="deep"), case=case, news_text=f"news of {case}")

    await fill(
        clickhouse,
        [
            told("of its token", "a bridge was drained", 2, asset="ZED"),
            told("by name", "The SEC (again) sues somebody", 5, asset="BTC"),
            told("in Chinese", "美国 SEC起诉 ZED 协议", 3, asset="BTC"),
            told("in another word", "blocked for thirty seconds", 1, asset="BTC"),
            told("too old", "SEC sues ZED", 40, asset="ZED"),
            told("not yet", "SEC sues ZED", 0, asset="ZED"),
            told("me", "SEC sues ZED", 1, asset="ZED"),
        ],
    )
    since = NOW - seconds(30 * 86_400)
    entries = await recall(clickhouse, "SEC", asset="ZED", as_of=NOW, since=since)
    assert [e.case_id for e in entries] == ["by name", "in Chinese", "of its token"]
    assert [e.case_id for e in await recall(clickhouse, "S.C", as_of=NOW, since=since)] == []
    assert [e.case_id for e in await recall(clickhouse, "起诉", as_of=NOW, since=since)] == ["in Chinese"]
    latest = await recall(clickhouse, "SEC", asset="ZED", as_of=NOW, since=since, limit=2)
    assert [e.case_id for e in latest] == ["in Chinese", "of its token"]


async def test_an_outcome_is_known_only_when_its_horizon_had_ended(clickhouse: ClickHouse) -> None:
    text = "USDC 跌至 0.87 美元"
    await fill(clickhouse, [remembered("a", text)])
    columns = ("case_id", "horizon_s", "entry_at", "entry_price", "exit_at", "exit_price", "return", "version")
    rows = [("a", s, NOW, 1.0, NOW + seconds(s), 1.0 + gain, gain, 1) for s, gain in ((3600, 0.031), (86400, -0.2))]
    await clickhouse.insert("outcomes", columns, rows)
    known = {hours: await recall(clickhouse, text, as_of=NOW + seconds(hours * 3600)) for hours in (1, 2, 48)}
    assert [known[h][0].outcome for h in (1, 2, 48)] == [None, "+3.1% after 1 h", "-20.0% after 24 h"]


async def test_that_a_market_ended_is_not_known_before_the_horizon_is_over(clickhouse: ClickHouse) -> None:
    text = "USDC 跌至 0.87 美元"
    await fill(clickhouse, [remembered("a", text)])
    columns = ("case_id", "horizon_s", "entry_at", "exit_at", "return", "halted", "version")
    row = ("a", 86400, NOW, NOW + seconds(600), -0.9, True, 1)  # left at the last price there ever was
    await clickhouse.insert("outcomes", columns, [row])
    known = {hours: await recall(clickhouse, text, as_of=NOW + seconds(hours * 3600)) for hours in (2, 25)}
    assert [known[h][0].outcome for h in (2, 25)] == [None, "-90.0% after 24 h"]


async def test_a_text_without_letters_matches_nothing(clickhouse: ClickHouse) -> None:
    assert await recall(clickhouse, "?!") == ()


async def test_a_burst_of_recalls_asks_clickhouse_once(clickhouse: ClickHouse, monkeypatch: pytest.MonkeyPatch) -> None:
    await fill(clickhouse, [remembered("a", "USDC 跌至 0.87 美元")])
    statements, query = list[str](), clickhouse.query

    async def counted(sql: str, *args: Any, **settings: Any) -> Result:
        statements.append(sql)
        return await query(sql, *args, **settings)

    monkeypatch.setattr(clickhouse, "query", counted)
    memory = ClickHouseMemory(clickhouse, timeout_s=30.0)
    answers = await asyncio.gather(*(memory.perform(asked("USDC 跌至 0.87 美元")) for _ in range(200)))
    assert [[e.case_id for e in replied(a)] for a in answers] == [["a"]] * 200
    assert len(statements) == 5


async def unavailable(memory: ClickHouseMemory) -> Failure:
    answer = await memory.perform(asked("USDC"))
    assert isinstance(answer.reply, Failure)
    assert answer.reply.kind == "unavailable"
    return answer.reply


async def test_recall_says_unavailable_within_a_second_when_the_server_accepts_and_stays_silent() -> None:
    held: list[asyncio.StreamWriter] = []
    async with await asyncio.start_server(lambda r, w: held.append(w), "127.0.0.1", 0) as silent:
        port = silent.sockets[0].getsockname()[1]
        memory = ClickHouseMemory(connect(Address(host="127.0.0.1", port=port), database="newsproof"))
        assert memory.timeout_s < 1.0
        async with asyncio.timeout(10 * memory.timeout_s):  # one after another, they would take twice as long
            failures = await asyncio.gather(*(unavailable(memory) for _ in range(20)))
        assert all("did not answer within" in f.message for f in failures)
        await memory.close()
        for writer in held:
            writer.close()


async def test_recall_answers_again_after_it_said_unavailable(clickhouse: ClickHouse) -> None:
    memory = ClickHouseMemory(clickhouse, timeout_s=0.0)
    assert isinstance((await memory.perform(asked("USDC"))).reply, Failure)
    memory.timeout_s = 30.0
    assert replied(await memory.perform(asked("USDC"))) == ()


async def test_while_clickhouse_is_away_what_was_read_counts_for_a_while_and_then_memory_is_unavailable(
    clickhouse: ClickHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(clickhouse, [remembered("a", "USDC 跌至 0.87 美元")])
    memory = ClickHouseMemory(clickhouse, timeout_s=30.0)
    await memory.perform(asked("USDC"))
    monkeypatch.setattr(memory_copy, "READ_ON_AFTER_S", 0.0)
    monkeypatch.setattr(clickhouse, "query", AsyncMock(side_effect=TransientError("no answer", kind="network")))
    assert [e.case_id for e in replied(await memory.perform(asked("USDC 跌至 0.87 美元")))] == ["a"]
    monkeypatch.setattr(memory_copy, "MAX_AGE_S", 0.0)
    away = (await memory.perform(asked("USDC"))).reply
    assert isinstance(away, Failure)
    assert (away.kind, away.message) == ("unavailable", "no answer")


async def test_recall_says_unavailable_and_what_to_do_when_the_tables_are_missing(empty: ClickHouse) -> None:
    async with connect(empty.address, database="default") as bare:
        answer = await ClickHouseMemory(bare, timeout_s=30.0).perform(asked("USDC"))
    assert isinstance(answer.reply, Failure)
    assert (answer.reply.kind, answer.reply.retryable) == ("unavailable", False)
    assert "run the migrations" in answer.reply.message
