"""Signals as publish writes them, for the tests of their readers."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from infra.kafka.topics import KafkaAddress
from schemas.envelope import Envelope
from schemas.ids import uuid5
from schemas.signals import SIGNAL_SCHEMA_VERSION, Signal
from schemas.topics import Topics
from streams.publish.publisher import _record

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)

FIRST: dict[str, Any] = {
    "stage": "preliminary",
    "verdict": "unchecked",
    "unchecked_reason": "preliminary",
    "action": "observe",
    "confidence": 0.6,
    "supporting_sources": 0,
}
"""Changes that make a signal triage's first judgement: ``signal("a", **FIRST)``."""


def signal(name: str = "a claim", **changes: Any) -> Signal:
    """A signal that a bot acts on: final, confirmed, sell BTC. ``name``: its summary, and what its ids are made of."""
    given: dict[str, Any] = {
        "schema_version": SIGNAL_SCHEMA_VERSION,
        "signal_id": uuid5("signal", name),
        "revision": 1,
        "supersedes": None,
        "stage": "final",
        "verdict": "confirmed",
        "unchecked_reason": None,
        "case_id": uuid5("case", name),
        "summary": name,
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


def as_published(one: Signal, topics: Topics) -> dict[str, Any]:
    """The record of a signal, whose cause is nowhere."""
    env = Envelope(id="cause", type="", case_id=one.case_id, causation_id=None, run_id="live", time=NOW)
    return _record(one, env, topics.cases, 0, 0)


async def write_signals(address: KafkaAddress, topics: Topics, *signals: Signal, commit: bool = True) -> None:
    """Write them in one transaction; ``commit`` False aborts it."""
    producer = address.producer(transactional_id=topics.transactional_id("test"))
    await producer.start()
    try:
        await producer.begin_transaction()
        for one in signals:
            await producer.send_and_wait(topics.signals, partition=0, **as_published(one, topics))
        await (producer.commit_transaction() if commit else producer.abort_transaction())
    finally:
        await producer.stop()
