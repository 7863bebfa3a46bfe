"""Small records, calls and signals to fill the tables with, each field as a test wants it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import count
from typing import Any

import msgspec

from infra.clickhouse.client import ClickHouse
from infra.clickhouse.columns import COLUMNS
from infra.clickhouse.rows import AcceptedRecord, Row, rows_of, signal_row
from schemas import events as ev
from schemas import ids
from schemas.calls import Call
from schemas.effects import ModelReply, SearchReply
from schemas.signals import Signal
from tests import builders

NOW = builders.NOW
_numbers = count()


def seconds(n: float) -> timedelta:
    return timedelta(seconds=n)


def record(
    event: ev.Event, *, case: str = "case-a", event_id: str | None = None, offset: int = 0, **fields: Any
) -> Any:
    given: dict[str, Any] = {
        "event_id": event_id or ids.uuid5(case, str(offset)),
        "event_type": ev.WIRE_NAMES[type(event)],
        "case_id": case,
        "run_id": ids.LIVE_RUN,
        "time": NOW,
        "topic": "newsproof.cases",
        "partition": 0,
        "offset": offset,
        "appended_ms": round(NOW.timestamp() * 1000),
        "event": event,
        "value": msgspec.json.encode(event),
    }
    return AcceptedRecord(**{**given, **fields})


def model_call(cost: str | None, **fields: Any) -> Call:
    given: dict[str, Any] = {
        "kind": "model",
        "provider": "offline",
        "mode": "offline",
        "request_hash": "a" * 32,
        "reply": ModelReply(text="回答"),
        "latency_ms": 12.5,
        "replied_at": NOW,
        "cost_usd": None if cost is None else Decimal(cost),
        "model": "rules",
        "prompt_name": "triage",
        "prompt_version": "v1",
        "prompt_hash": "h",
        "usage_input_tokens": 100,
        "usage_output_tokens": 10,
    }
    return Call(**{**given, **fields})


def search_call(cost: str | None, **fields: Any) -> Call:
    reply = SearchReply(provider="tavily", query="USDC 脱锚", results=())
    found = {"kind": "search", "provider": "tavily", "reply": reply, "model": None, "request_hash": "b" * 32}
    bare = {"prompt_name": None, "prompt_version": None, "usage_input_tokens": 0, "usage_output_tokens": 0}
    return model_call(cost, **{**found, **bare, **fields})


def signal(**fields: Any) -> Signal:
    given: dict[str, Any] = {
        "schema_version": 2,
        "signal_id": "signal-a",
        "case_id": "case-a",
        "summary": "Circle 确认 USDC 储备",
        "event_type": "depeg",
        "asset": "USDC",
        "asset_name": "USD Coin",
        "action": "observe",
        "direction": "neutral",
        "confidence": 0.75,
        "preliminary_confidence": 0.5,
        "strength": "medium",
        "horizon": 3600,
        "valid_until": NOW + seconds(3600),
        "published_at": NOW - seconds(60),
        "independent_sources": 0,
        "supporting_sources": 0,
        "risk_flags": (),
        "news_source": "history",
        "language": "zh",
    }
    return builders.signal(**{**given, **fields})


def published(of: Signal, *, offset: int = 0, emitted_at: datetime = NOW, **fields: Any) -> Row:
    """The row of a signal as the ``signals`` topic gives it."""
    given: dict[str, Any] = {
        "run_id": ids.LIVE_RUN,
        "cause_id": f"cause-{of.signal_id}-{of.revision}",
        "journal_topic": "newsproof.cases",
        "journal_partition": 0,
        "journal_offset": offset,
        "emitted_ms": round(emitted_at.timestamp() * 1000),
    }
    return signal_row(of, **{**given, **fields})


async def insert_rows(client: ClickHouse, table: str, rows: Sequence[Row], token: str) -> None:
    """Insert mapped rows into their table, once per token."""
    await client.insert(table, COLUMNS[table], rows, token=f"{table}-{token}")


async def fill(client: ClickHouse, records: Iterable[AcceptedRecord], *, accepted: bool = True) -> None:
    """Insert the rows of these records, each record as a batch of its own."""
    for one in records:
        for table, rows in rows_of(one, accepted=accepted).items():
            await insert_rows(client, table, rows, f"fill-{next(_numbers)}")


async def fill_signals(client: ClickHouse, *rows: Row) -> None:
    await insert_rows(client, "signals", rows, f"fill-{next(_numbers)}")
