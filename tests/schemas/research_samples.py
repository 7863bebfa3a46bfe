"""One of each event of a research chat, for the golden records."""

from __future__ import annotations

from datetime import UTC, datetime

from schemas import research_events as rev
from schemas.evidence import Candle, FoundPage, FoundSignal, MarketValue
from schemas.ids import uuid5
from schemas.runtime_events import Event

NOW = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
_PRICE = MarketValue(name="price", value=64_000.5, unit="USD", source="coinbase", observed_at=NOW)
_RESULT = rev.AgentResult(
    agent_name="TAAgent", signal="BULLISH", confidence=0.7, confidence_level="medium", reasoning="RSI 61.2",
    indicators={"rsi_14": rev.Indicator(value=61.2, impact="BULLISH", weight=0.5, source="computed", observed_at=NOW)},
    key_factors=("above its averages",), risk_assessment="r", prompt_sent="p", llm_response="{}",
    missing=("volume",), unsupported_numbers=("99",),
)  # fmt: skip

SAMPLES: tuple[Event, ...] = (
    rev.QuestionAsked(
        message="比特币现在能买吗?", config_hash="aa" * 16, language="zh", chat_id=uuid5("chat", "1"),
        history=(rev.ChatMessage(role="user", content="hi"),), previous=uuid5("chat", "1"),
    ),
    rev.QuestionRouted(
        decision="COMPLEX_ANALYSIS", reasoning="why", confidence=0.9, direct_answer="", route="plan",
    ),
    rev.AnalysisPlanned(
        task_breakdown=(rev.AgentTask(agent="TAAgent", reason="why", priority="high", data_required=("candles",)),),
        execution_strategy=rev.ExecutionStrategy(
            parallel_agents=("TAAgent",), sequential_after=("MacroAgent",), estimated_time="20 s"
        ),
        reasoning="why", asset="BTC",
    ),
    rev.DataCollected(
        asset="BTC", price=(_PRICE,), macro=(_PRICE,), fear_greed=(_PRICE,), onchain=(_PRICE,), indicators=(_PRICE,),
        candles=(Candle(ended_at=NOW, open=1.0, high=2.0, low=0.5, close=1.5, volume=10.0),), candle_interval="1d",
        candle_source="coinbase", unavailable=("fred: timeout",),
        signals=(FoundSignal(number=1, case_id="c", signal_id="s", asset="BTC", event_type="etf", action="buy",
                             direction="long", confidence=0.8, stage="final", verdict="likely", summary="s", decided_at=NOW,
                             risk_flags=("offline",), sources=("https://a.example/1",), provider_mode="offline"),),
    ),
    rev.AgentsReported(results=(_RESULT,), failed=(("MacroAgent", "timeout"),)),
    rev.AnswerGiven(
        answer="Yes [1]", summary="s", key_insights=("k",), confidence=0.6,
        sources=(rev.Source(number=1, title="t", kind="signal", case_id="c", url="https://a.example/1",
                            observed_at=NOW, preview="p"),),
        metadata=rev.AnswerMetadata(path="partial", provider_mode="offline", agents=("TAAgent",),
                                    agents_missing=("MacroAgent",), unavailable=("fred: timeout",),
                                    unsupported_numbers=("99",), as_of=NOW),
    ),
    rev.AnswerStopped(requested_by="page", reason="stopped"),
    rev.FinishRequested(requested_by="page"),
    rev.CasesFound(
        signals=(FoundSignal(number=1, case_id="c", signal_id="s", asset="BTC", event_type="etf", action="buy",
                             direction="long", confidence=0.8, stage="final", verdict="refuted", summary="s", decided_at=NOW,
                             summary_zh="摘", summary_en="s", supporting_sources=0, matched=("SEC",),
                             pages=(FoundPage(url="https://a.example/1", stance="denies", quote="no", official=True),)),),
        unavailable=("signals: timeout",),
    ),
)  # fmt: skip
