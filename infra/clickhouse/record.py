"""Input of the row mapping: a decoded journal record to which the acceptance rule was applied."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from schemas import events as ev
from schemas.effects import TextEmbedding

Row = tuple[Any, ...]
Rows = dict[str, list[Row]]


class AcceptedRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One journal record after the acceptance rule: envelope, position in the log, decoded event.

    ``value`` is the record's raw value (its bytes become ``events.payload``). ``time`` and ``cause_time`` are the event
    times (``ce_time``) of the event and of its cause. ``appended_ms`` is the log append time, milliseconds since 1970.
    ``step`` is the step that produced the event, None for intake and commands. ``news_text`` is the text that memory is
    searched by; None = the signal's summary. ``keywords`` are those that the news matched, in lower case. ``embedding``
    is the vector of ``news_text`` from the case's own recall, if a provider made it. ``is_look``: the record belongs to
    a second look at ``case_id``, which is not the case of its envelope.
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
    keywords: tuple[str, ...] = ()
    knowable_at: datetime | None = None
    embedding: TextEmbedding | None = None
    is_look: bool = False


def epoch_ms(at: datetime) -> int:
    """Return whole milliseconds since 1970, which the client writes into ``DateTime64(3)`` unchanged."""
    return round(at.timestamp() * 1000)
