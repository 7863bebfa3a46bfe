"""News, events, pages, memories, model calls, drafts, signals and limits with every field that a type wants; a test names those that it is about."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from schemas.budget import LimitsSet
from schemas.effects import CallModel, Trusted, Untrusted
from schemas.events import EventReceived
from schemas.evidence import Findings, MemoryEntry, SearchReference, SearchResult, Sentiment
from schemas.news import News
from schemas.signals import SIGNAL_SCHEMA_VERSION, Draft, Signal

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def received(news: News | None = None, **changes: Any) -> EventReceived:
    """Return the opening of a case of this news."""
    news = news or News(source="desk", text="text", published_at=NOW)
    given: dict[str, Any] = {"config_hash": "", "text_hash": "", "language": "en"}
    return EventReceived(news=news, **{**given, **changes})


def call_model(task: str, *parts: Trusted | Untrusted, **changes: Any) -> CallModel:
    """Return a call of the light model for a task, with a prompt of its name."""
    given: dict[str, Any] = {
        "tier": "light",
        "prompt_name": task,
        "prompt_version": "1",
        "prompt_hash": "0",
        "system": "",
    }
    return CallModel(task=task, parts=parts, **{**given, **changes})


def draft(**changes: Any) -> Draft:
    """Return what triage makes of a hack: sell ETH."""
    given: dict[str, Any] = {
        "summary": "s",
        "event_type": "hack",
        "asset": "ETH",
        "asset_name": "Ethereum",
        "action": "sell",
        "direction": "short",
        "confidence": 0.8,
        "strength": "high",
        "timeframe": "short",
    }
    return Draft(**{**given, **changes})


def search_result(url: str, text: str, **changes: Any) -> SearchResult:
    """Return a page as a search finds it; without a date."""
    return SearchResult(**{"title": "", "url": url, "domain": "", "snippet": text, "score": 0.9, **changes})


def reference(number: int, text: str = "", **changes: Any) -> SearchReference:
    """Return a page of a stranger. ``domain``: of its address, and its owner."""
    domain = changes.pop("domain", f"site{number}.example")
    given: dict[str, Any] = {
        "source_tool": "tavily",
        "title": "t",
        "url": f"https://{domain}/{number}",
        "snippet": text[:300],
        "passage": text,
        "relevance_score": 0.9,
        "quality_score": 80,
        "content_complete": True,
        "source_credibility": "medium",
        "query": "q",
        "registrable_domain": domain,
        "owner": domain,
    }
    return SearchReference(reference_number=number, **{**given, **changes})


def findings(*references: SearchReference, **changes: Any) -> Findings:
    """Return the findings of these pages, each of its own owner; nobody denies anything."""
    given: dict[str, Any] = {
        "keyword": "q",
        "references": references,
        "dropped": (),
        "independent_sources": len(references),
        "multi_source": len(references) >= 3,
        "official_confirmed": False,
        "denied": False,
        "conflict": False,
        "stale": False,
        "sentiment": Sentiment(panic=0.33, neutral=0.34, optimistic=0.33),
        "source_count": len(references),
        "confidence": 0.9,
        "triggered": False,
    }
    return Findings(**{**given, **changes})


def memory_entry(case_id: str = "past", **changes: Any) -> MemoryEntry:
    """Return a past case: a hack of ETH."""
    given: dict[str, Any] = {"summary": "s", "event_type": "hack", "asset": "ETH", "confidence": 0.6, "similarity": 0.9}
    return MemoryEntry(case_id=case_id, **{**given, "decided_at": NOW, **changes})


def signal(**changes: Any) -> Signal:
    """Return a signal that a bot acts on: final, confirmed, sell BTC."""
    given: dict[str, Any] = {
        "schema_version": SIGNAL_SCHEMA_VERSION,
        "signal_id": "signal",
        "revision": 1,
        "supersedes": None,
        "stage": "final",
        "verdict": "confirmed",
        "unchecked_reason": None,
        "case_id": "case",
        "summary": "a claim",
        "summary_zh": None,
        "summary_en": None,
        "event_type": "hack",
        "asset": "BTC",
        "asset_name": "Bitcoin",
        "symbol": None,
        "venue": None,
        "action": "sell",
        "direction": "short",
        "confidence": 0.8,
        "confidence_calibrated": None,
        "preliminary_confidence": 0.6,
        "strength": "high",
        "timeframe": "short",
        "horizon": 86_400,
        "valid_until": NOW,
        "decided_at": NOW,
        "published_at": NOW,
        "reference_price": None,
        "notes": "",
        "links": (),
        "evidence": (),
        "independent_sources": 3,
        "supporting_sources": 3,
        "risk_flags": ("offline",),
        "adjustments": (),
        "prompt_versions": (),
        "model": None,
        "provider_mode": "offline",
        "news_source": "test",
        "language": "en",
    }
    return Signal(**{**given, **changes})


def limits_of(
    usd: str = "30",
    *,
    reserve: str = "3",
    units: int = 50,
    unpriced: bool = False,
    doubtful: int = 100,
    forced: int = 0,
    investigation: int = 100,
    daily: int = 100,
    group: int = 100,
    unlisted: int = 100,
    verification: int | None = None,
) -> LimitsSet:
    """Return limits of the budget as a worker's settings give them; no share is smaller than the whole."""
    return LimitsSet(
        monthly_usd=Decimal(usd),
        triage_reserve_usd=Decimal(reserve),
        daily_units=units,
        allow_unpriced=unpriced,
        doubtful_percent=doubtful,
        forced_percent=forced,
        investigation_percent=investigation,
        daily_percent=daily,
        group_percent=group,
        unlisted_percent=unlisted,
        verification_percent=verification,
        by="0",
    )
