"""News, events, model calls, drafts, signals and limits with every field that a type wants; a test names those that it is about."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from schemas.budget import LimitsSet
from schemas.effects import CallModel, Trusted, Untrusted
from schemas.events import EventReceived
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
