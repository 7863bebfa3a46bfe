"""What rows are made from: one journal record, read and judged."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from schemas import events as ev
from schemas.effects import TextEmbedding

Row = tuple[Any, ...]
Rows = dict[str, list[Row]]


class AcceptedRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One record of a journal that the rule of acceptance has judged: envelope, place in the log, decoded event.

    ``value`` is the record's value as it was read (its bytes become ``events.payload``). ``time`` and ``cause_time``
    are the event times (``ce_time``) of the event and of its cause; ``appended_ms`` is the log append time,
    milliseconds since 1970. ``step`` is the step that produced the event, None for intake and commands.
    ``news_text`` is the text that memory is searched by; where the reader has none the signal's summary is taken.
    ``embedding`` is the vector of that text that the case's own recall was answered with, if a provider made it.
    """

    event_id: str
    event_type: str
    case_id: str
    run_id: str
    time: datetime
    topic: str
    partition: int
    offset: int
    appended_ms: int
    event: ev.Event
    value: bytes
    causation_id: str | None = None
    schema_version: int = 1
    step: str | None = None
    cause_time: datetime | None = None
    provider_mode: str = ""
    news_text: str | None = None
    knowable_at: datetime | None = None
    embedding: TextEmbedding | None = None


def epoch_ms(at: datetime) -> int:
    """Return whole milliseconds since 1970, which the client writes into ``DateTime64(3)`` as they are."""
    return round(at.timestamp() * 1000)
