"""Benchmarks judging: quality control, the whole judgement, and building a query. No server, no network."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from agents.evidence import Claim, assess, build_query
from agents.evidence.pages import JudgedPage, Material
from agents.evidence.quality import controlled
from agents.tables import load_tables
from agents.text.segment import warm_up
from lab.bench.measures import Figure
from schemas.config import Snapshot
from schemas.evidence import SearchResult

RESULTS = 20
AT = datetime(2024, 6, 3, 10, tzinfo=UTC)
_CLAIM = "Bybit hacked, more than $1.4B of ether stolen from a cold wallet"
_TOPICS = (
    "The exchange said that an attacker took control of a cold wallet and moved about 401,000 ether to an unknown address.",
    "On-chain analysts traced the funds through dozens of fresh wallets, where they were swapped for other tokens in minutes.",
    "Its chief executive told customers that all other wallets are safe, withdrawals are open and the exchange is solvent.",
    "Lenders extended bridge loans, and rival venues froze deposits that came from the addresses of the attacker.",
    "Researchers pointed to a group that is known for earlier thefts, citing the way in which transactions were signed.",
    "Prices fell by four percent within the hour before recovering part of the loss as liquidity returned to the order books.",
    "据链上数据, 被盗资金已分散至数十个地址, 安全公司建议各平台冻结相关资产, 平台表示用户资产有充足储备。",
)


async def evidence(rounds: int = 300) -> list[Figure]:
    """Judge 20 results of about 350 characters; build a mixed Chinese query. Measures this thread's processor time."""
    snapshot = Snapshot(tables=load_tables(demo=False))
    claim = Claim(text=_CLAIM, language="en", event_type="hack", asset="ETH", entity="Bybit", as_of=AT)
    zh = Claim(
        text="Bybit 冷钱包遭黑客攻击, 损失超过 14 亿美元", language="zh", event_type="hack", asset="ETH", as_of=AT
    )
    warm_up()
    batches = [_batch(n) for n in range(rounds)]
    control = [_timed(lambda b=b: _control(b, snapshot)) for b in batches]  # type: ignore[misc]
    whole = [_timed(lambda b=b: assess(claim, b, query="q", snapshot=snapshot)) for b in batches]  # type: ignore[misc]
    query = [_timed(lambda: build_query(zh, provider="tavily", tables=snapshot.tables)) for _ in range(rounds)]
    return [
        _figure("evidence: quality control of 20 results", control, "< 10 (aim 1)"),
        _figure("evidence: the whole judgement of 20 results", whole, "< 10"),
        _figure("evidence: one query", query, "< 5"),
    ]


def _batch(number: int) -> list[SearchResult]:
    # Every text differs, so that neither caches nor duplicates reduce the work.
    return [
        SearchResult(
            title=f"Report {i}: {_TOPICS[(number + i) % len(_TOPICS)][:40]}",
            url=f"https://www.site{i}.example/news/{number}",
            domain="",
            snippet=" ".join(f"{_TOPICS[(number + i * k) % len(_TOPICS)]} ({number * 20 + i * k})" for k in (1, 2, 4)),
            score=0.9,
            published_at=AT - timedelta(minutes=i + 1),
        )
        for i in range(RESULTS)
    ]


def _control(results: list[SearchResult], snapshot: Snapshot) -> None:
    # Folding the texts and computing their shapes is the larger part, and is included.
    controlled([JudgedPage(Material(r), AT, n) for n, r in enumerate(results)], snapshot, [])


def _timed(work: Callable[[], object]) -> float:
    begin = time.thread_time()
    work()
    return (time.thread_time() - begin) * 1000


def _figure(name: str, taken: list[float], target: str) -> Figure:
    ordered = sorted(taken)
    worst = ordered[len(ordered) * 99 // 100]
    return Figure(
        name=name, value=statistics.median(taken), unit="ms", target=target, baseline=f"99 in 100 within {worst:.1f} ms"
    )
