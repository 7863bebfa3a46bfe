"""Signals as publish writes them, for the tests of their readers."""

from __future__ import annotations

from typing import Any

from infra.kafka.topics import KafkaAddress
from schemas.envelope import Envelope
from schemas.ids import uuid5
from schemas.signals import Signal
from schemas.topics import Topics
from streams.publish.publisher import _record
from tests import builders

NOW = builders.NOW
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
    named = {"signal_id": uuid5("signal", name), "case_id": uuid5("case", name), "summary": name}
    return builders.signal(**{**named, **changes})


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
