"""What the specifications of a chat's steps share: its configuration, a plan, data of every block, and replies."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from agents.analysis.indicators import indicators
from agents.prompts import load_prompts
from schemas.config import Snapshot
from schemas.effects import CandlesReply, Effect, Failure, FetchMarket, MarketReply, ModelReply, Reply, SignalsReply
from schemas.evidence import Candle, FoundSignal, MarketValue
from schemas.research_events import (
    AgentTask,
    AnalysisPlanned,
    DataCollected,
    ExecutionStrategy,
    QuestionRouted,
)
from tests.specification import START

ALL = ("MacroAgent", "TAAgent", "OnChainAgent")
TIMEOUT = Failure(kind="timeout", message="no answer within 30 s", retryable=True)
REFUSED = Failure(kind="auth", message="the key is refused: set a valid one", retryable=False)


@pytest.fixture(scope="session")
def chat() -> Snapshot:
    return Snapshot(prompts=load_prompts("research"))


@pytest.fixture
def routed() -> QuestionRouted:
    return QuestionRouted(
        decision="COMPLEX_ANALYSIS", reasoning="needs figures", confidence=0.9, direct_answer="", route="plan"
    )


@pytest.fixture
def planned() -> Callable[..., AnalysisPlanned]:
    def make(*agents: Any, after: tuple[Any, ...] = (), data: tuple[str, ...] = (), asset: str = "BTC") -> Any:
        named = agents or ALL
        return AnalysisPlanned(
            task_breakdown=tuple(
                AgentTask(agent=a, reason="because", priority="high", data_required=data) for a in (*named, *after)
            ),
            execution_strategy=ExecutionStrategy(parallel_agents=named, sequential_after=after),
            reasoning="an outlook",
            asset=asset,
        )

    return make


def value(name: str, number: float, unit: str = "%", source: str = "fred") -> MarketValue:
    return MarketValue(name=name, value=number, unit=unit, source=source, observed_at=START - timedelta(hours=1))


def bars(count: int = 240) -> tuple[Candle, ...]:
    """Daily bars that rise by 100 and swing by 500 every ten days."""
    found = []
    for day in range(count):
        close = 40_000.0 + 100 * day + (500 if day % 10 < 5 else -500)
        found.append(
            Candle(
                ended_at=START - timedelta(days=count - day),
                open=close - 50,
                high=close + 200,
                low=close - 200,
                close=close,
                volume=1_000.0 + day,
            )
        )
    return tuple(found)


BLOCKS: dict[str, tuple[MarketValue, ...]] = {
    "price": (value("price", 63_450.5, "USDT", "kraken"), value("price_change_24h", -3.21, "%", "kraken")),
    "macro": (
        value("fed_funds_rate", 4.33),
        value("m2_growth", 4.53),
        value("dxy", 121.4, "index"),
        value("treasury_yield_10y", 4.12),
    ),
    "fear_greed": (value("fear_greed_index", 22.0, "0-100", "alternative.me"),),
    "onchain": (
        value("active_addresses", 812_345.0, "addresses a day", "coinmetrics"),
        value("mvrv", 1.87, "ratio", "coinmetrics"),
        value("transactions_per_day", 412_345.0, "transactions", "blockchain.info"),
    ),
}
KIND_TO_BLOCK = {"price": "price", "economy": "macro", "sentiment": "fear_greed", "network": "onchain"}


def found_signal(number: int = 1, **changes: Any) -> FoundSignal:
    signal = FoundSignal(
        number=number,
        case_id=f"case-{number}",
        signal_id=f"signal-{number}",
        asset="BTC",
        event_type="regulation",
        action="buy",
        direction="long",
        confidence=0.82,
        stage="final",
        verdict="confirmed",
        summary="The SEC approved options on spot Bitcoin funds worth $1.2 billion",
        decided_at=START - timedelta(days=1),
    )
    return replace(signal, **changes)


@pytest.fixture
def collected() -> Callable[..., DataCollected]:
    def make(**changes: Any) -> DataCollected:
        candles = bars()
        data = DataCollected(
            asset="BTC",
            **BLOCKS,
            indicators=indicators(candles, unit="USDT", source="kraken"),
            candles=candles,
            candle_interval="1d",
            candle_source="kraken",
            signals=(found_signal(1), found_signal(2, event_type="hack", summary="A bridge lost funds")),
        )
        return replace(data, **changes)

    return make


def world(effect: Effect, **changes: Reply) -> Reply:
    """Answer one effect of ``collect``; ``changes`` by block."""
    match effect:
        case FetchMarket(kind=kind):
            block = KIND_TO_BLOCK[kind]
            return changes.get(block, MarketReply(values=BLOCKS[block]))
        case _ if type(effect).__name__ == "FetchCandles":
            reply = CandlesReply(candles=bars(), source="kraken", unit="USDT", interval="1d")
            return changes.get("candles", reply)
        case _:
            return changes.get("signals", SignalsReply(signals=(found_signal(7), found_signal(9))))


@pytest.fixture
def judged() -> Callable[..., ModelReply]:
    def make(**changes: Any) -> ModelReply:
        data = {
            "signal": "BEARISH",
            "confidence": 0.6,
            "reasoning": "The policy rate stands at 4.33%, the mood at 22.",
            "indicators": [{"name": "fed_funds_rate", "impact": "BEARISH", "weight": 0.8}],
            "key_factors": ["Fear at 22"],
            "risk_assessment": "A cut would turn it.",
        }
        return ModelReply(data=data | changes)

    return make


@pytest.fixture
def written() -> Callable[..., ModelReply]:
    def make(**changes: Any) -> ModelReply:
        data = {
            "answer": "**Cautious.** BTC trades at 63,450 [3], and the mood is 22 [5]; options were approved [1].",
            "summary": "Cautious.",
            "key_insights": ["Fear at 22 [5]"],
            "confidence": 0.7,
        }
        return ModelReply(data=data | changes)

    return make
