"""Benchmarks exact budget grants: latency added to a call, reservations per second, and the time to fold the topic."""

from __future__ import annotations

import asyncio
import statistics
import time
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from decimal import Decimal

from infra.offline.simulated import Simulated
from lab.bench.measures import Figure
from lab.bench.world import World, world
from schemas.budget import LimitsSet, PassedBy, Reserved, Settled, encode
from schemas.calls import Call
from schemas.effects import ModelReply, Search
from streams.budget.budget import BudgetLedger
from streams.budget.rule import BudgetState
from streams.effects.spending import Grant
from streams.ending import Ending
from streams.journal.appender import Appender
from streams.wake import Wake

LIMITS = LimitsSet(
    monthly_usd=Decimal(1_000_000), triage_reserve_usd=Decimal(0), daily_units=1_000_000, allow_unpriced=False, by="0"
)
EFFECT = Search(provider="simulated", query="q", max_results=5, as_of=datetime(2026, 1, 1, tzinfo=UTC))
METERED, FREE = Simulated(metered=True), Simulated()
AT_ONCE = 256
"""Calls in flight of one worker, the default of EFFECTS_IN_FLIGHT."""


async def budget(calls: int = 20_000, workers: int = 4) -> list[Figure]:
    """Reserve and settle, idle and under load, with one worker and with several in one process."""
    async with world() as w, AsyncExitStack() as stack:
        ledgers = [await _started(w, stack)]
        acknowledged = await _appends(w, 500)
        alone = await _latencies(ledgers[0], 500, at_once=1)
        began = time.perf_counter()
        loaded = await _latencies(ledgers[0], calls, at_once=AT_ONCE)
        one = calls / (time.perf_counter() - began)
        ledgers += [await _started(w, stack) for _ in range(workers - 1)]
        began = time.perf_counter()
        await asyncio.gather(*(_latencies(each, calls // workers, at_once=AT_ONCE) for each in ledgers))
        several = calls / (time.perf_counter() - began)
        began = time.perf_counter()
        for _ in range(calls):
            await ledgers[0].reserve(EFFECT, FREE, case_id="c", head_id="h")
        free_us = (time.perf_counter() - began) / calls * 1e6
        began = time.perf_counter()
        late = await _started(w, stack)
        read = late.position / (time.perf_counter() - began)
    return [
        Figure(
            name="budget: a grant, nothing else going on, p50",
            value=_p(alone, 50),
            unit="ms",
            target="",
            baseline=f"{_p(acknowledged, 50):.1f} ms, an append to the same topic",
            ratio=_p(alone, 50) / _p(acknowledged, 50),
        ),
        Figure(name="budget: a grant, nothing else going on, p99", value=_p(alone, 99), unit="ms", target=""),
        Figure(name=f"budget: a grant, {AT_ONCE} at once, p50", value=_p(loaded, 50), unit="ms", target=""),
        Figure(name=f"budget: a grant, {AT_ONCE} at once, p99", value=_p(loaded, 99), unit="ms", target=""),
        Figure(name="budget: granted and settled, one worker", value=one, unit="calls/s", target=""),
        Figure(name=f"budget: the same, {workers} workers in one process", value=several, unit="calls/s", target=""),
        Figure(name="budget: what a free call waits", value=free_us, unit="µs", target="0"),
        Figure(name="budget: read and folded at a start", value=read, unit="records/s", target=""),
        Figure(name="budget: the rule alone", value=_rule(), unit="records/s", target=""),
    ]


async def _started(w: World, stack: AsyncExitStack) -> BudgetLedger:
    ledger = BudgetLedger(w.address, w.topics, LIMITS, Ending(), Wake())
    await ledger.start()
    stack.push_async_callback(ledger.stop)
    return ledger


async def _appends(w: World, count: int) -> list[float]:
    appender, took = Appender(w.address), []
    await appender.start()
    value = encode(PassedBy(offsets=()))
    for _ in range(count):
        began = time.perf_counter()
        await appender.append(w.topics.budget, value, key=None, partition=0)
        took.append((time.perf_counter() - began) * 1000)
    await appender.stop()
    return took


async def _latencies(ledger: BudgetLedger, calls: int, *, at_once: int) -> list[float]:
    took: list[float] = []
    left = iter(range(calls))

    async def spend() -> None:
        for n in left:
            began = time.perf_counter()
            grant = await ledger.reserve(EFFECT, METERED, case_id=f"case-{n}", head_id="h")
            took.append((time.perf_counter() - began) * 1000)
            assert isinstance(grant, Grant), grant
            ledger.settle(grant, _call(grant.id))

    await asyncio.gather(*(spend() for _ in range(at_once)))
    return took


def _call(grant: str) -> Call:
    return Call(
        kind="search",
        provider="simulated",
        mode="simulated",
        request_hash="",
        reply=ModelReply(),
        latency_ms=0.0,
        replied_at=datetime.now(UTC),
        cost_usd=Decimal("0.0005"),
        grant=grant,
    )


def _rule(records: int = 100_000) -> float:
    state = BudgetState()
    state.fold(0, 0, LIMITS)
    log: list[Reserved | Settled] = []
    for n in range(records // 2):
        asked = Reserved(
            id=f"id-{n}",
            effect="search",
            provider="p",
            usd=Decimal("0.001"),
            units=1,
            for_triage=False,
            case_id="c",
            head_id="h",
        )
        log += [asked, Settled(id=asked.id, usd=Decimal("0.0005"), by="0")]
    began = time.perf_counter()
    for offset, record in enumerate(log, start=1):
        state.fold(offset, 0, record)
    return len(log) / (time.perf_counter() - began)


def _p(values: list[float], percent: int) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]
