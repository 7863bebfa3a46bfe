"""One of each event of a research chat, and of an investigation, for the golden records."""

from __future__ import annotations

from datetime import UTC, datetime

from schemas import research_events as iev
from schemas import research_events as rev
from schemas.calls import Event
from schemas.evidence import (
    Candle,
    FoundPage,
    FoundSignal,
    MarketValue,
    MemoryEntry,
    PageStance,
    PreviousBrief,
    PreviousClaim,
)
from schemas.ids import uuid5

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

_CLAIM = iev.FoundClaim(
    claim="Norland bans DeepSeek nationwide", event_type="regulation", modality="asserted", told_by=(1, 2), question=2
)
INVESTIGATION: tuple[Event, ...] = (
    iev.InvestigationAsked(
        question="Monitor DeepSeek's latest developments", subject="DeepSeek", as_of=NOW, config_hash="aa" * 16,
        language="en", limits=iev.Limits(rounds=2, searches=6), previous=uuid5("investigation", "0"), watch="w",
    ),
    iev.InvestigationFramed(
        questions=(iev.SubQuestion(question="What do authorities do?", query="DeepSeek ban", platforms=True),),
        previous=PreviousBrief(
            investigation_id=uuid5("investigation", "0"), as_of=NOW, urls=("https://a.example/1",),
            claims=(PreviousClaim(claim="c", verdict="likely", urls=("https://a.example/1",)),),
        ),
        memories=(MemoryEntry(case_id="c", summary="s", event_type="other", asset="UNKNOWN", confidence=0.5,
                              similarity=0.7, decided_at=NOW),),
        unread=("memory: unavailable",),
    ),
    iev.ClaimsStated(claims=(_CLAIM,)),
    iev.ClaimsCritiqued(
        readings=(
            iev.ClaimReading(
                claim=_CLAIM, critic="refuted", unquoted=(2,),
                stances=(PageStance(reference_number=1, stance="denies", quote="it is not true"),),
            ),
            iev.ClaimReading(claim=_CLAIM, unread="timeout"),
        )
    ),
    iev.BriefWritten(
        subject="DeepSeek", subject_key="deepseek", as_of=NOW, language="en",
        disputed=(iev.BriefSentence(text="The authority denies it.", references=(1,), claim=0),),
        claims=(iev.BriefClaim(claim="Norland bans DeepSeek nationwide", verdict="refuted", supporting_sources=1,
                               evidence=(iev.ClaimEvidence(number=1, stance="denies", quote="it is not true"),)),),
        references=(iev.BriefReference(number=1, title="t", url="https://a.example/1", passage="p", credibility="high",
                                       official=True, published_at=NOW, first_seen=True),),
        new_since=(iev.Change(kind="verdict_changed", claim=0, references=(1,), before="likely", testable=True),),
        previous=uuid5("investigation", "0"), previous_as_of=NOW, questions=("What do authorities do?",),
        not_found=("Who pays?",), not_done=("2 pages did not open",), citations_removed=1, sentences_removed=1,
        rounds=2, searches=6, provider_mode="offline", path="partial",
    ),
)  # fmt: skip
