"""The one mapping from journal records to rows. Pure; measured at about 2 µs for an event without calls.

A record that the rule of acceptance passes by gives no event row, but its calls were paid: they become rows with
``accepted = 0``, so a call that was paid twice is visible as two rows.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from infra.clickhouse.columns import FIRST_WINS_TOP
from infra.embedding import EMBEDDING_MODEL, embed
from schemas import events as ev
from schemas.calls import Call
from schemas.effects import Failure, MarketReply, ModelReply, PageReply, RecallReply, Reply, SearchReply
from schemas.ids import LIVE_RUN
from schemas.signals import Signal

__all__ = ["AcceptedRecord", "Row", "Rows", "memory_row", "rows_of", "signal_row"]

Row = tuple[Any, ...]
Rows = dict[str, list[Row]]
_encode = msgspec.json.Encoder().encode


class AcceptedRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One record of a journal that the rule of acceptance has judged: envelope, place in the log, decoded event.

    ``value`` is the record's value as it was read (its bytes become ``events.payload``). ``time`` and ``cause_time``
    are the event times (``ce_time``) of the event and of its cause; ``appended_ms`` is the log append time,
    milliseconds since 1970. ``step`` is the step that produced the event, None for intake and commands.
    ``news_text`` is the text that memory is searched by; where the reader has none the signal's summary is taken.
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


def rows_of(record: AcceptedRecord, *, accepted: bool = True) -> Rows:
    """Return the rows of one record by table, each tuple in the order of ``columns.COLUMNS``.

    Live signals come from the ``signals`` topic (:func:`signal_row`); a backtest publishes nothing, so the signals of
    its runs come from here.
    """
    event = record.event
    rows: Rows = {}
    if accepted:
        rows["events"] = [_event_row(record)]
        if isinstance(event, ev.SignalSynthesized):
            rows["memory"] = [memory_row(record)]
            if record.run_id != LIVE_RUN:
                rows["signals"] = [_backtest_signal_row(record, event.signal)]
    for index, call in enumerate(event.calls):
        if call.kind == "model":
            rows.setdefault("llm_calls", []).append(_llm_row(record, index, call, accepted))
        else:
            rows.setdefault("tool_calls", []).append(_tool_row(record, index, call, accepted))
    return rows


_OUTCOMES: dict[type[ev.Event], str] = {
    ev.CaseTriaged: "route",
    ev.ContextGathered: "memory",
    ev.ToolPlanned: "route",
    ev.SearchCompleted: "route",
    ev.PagesScraped: "route",
    ev.KeywordsExpanded: "route",
    ev.EvidenceCritiqued: "verdict",
    ev.SignalSynthesized: "path",
    ev.CaseDropped: "reason",
    ev.StepFailed: "outcome",
    ev.RetractionFound: "kind",
}
"""The field that says in one word what an event decided: all of them ``Literal``, so the column stays enumerable."""


def _event_row(r: AcceptedRecord) -> Row:
    event = r.event
    field = _OUTCOMES.get(type(event))
    calls = event.calls
    return (
        r.run_id,
        r.case_id,
        r.event_id,
        r.causation_id or "",
        r.event_type,
        r.schema_version,
        _ms(r.time),
        r.appended_ms,
        r.step or "",
        "" if field is None else getattr(event, field),
        None if r.cause_time is None else (r.time.timestamp() - r.cause_time.timestamp()) * 1000,
        len(calls),
        r.provider_mode or (calls[0].mode if calls else ""),
        r.topic,
        r.partition,
        r.offset,
        r.value,
        FIRST_WINS_TOP - r.offset,
    )


def _llm_row(r: AcceptedRecord, index: int, call: Call, accepted: bool) -> Row:
    reply = call.reply
    return (
        *_call_start(r, index, call, accepted),
        call.model or "",
        call.prompt_name or "",
        call.prompt_version or "",
        call.prompt_hash or "",
        call.usage_input_tokens,
        call.usage_cached_tokens,
        call.usage_output_tokens,
        call.usage_thinking_tokens,
        int(call.repair or (isinstance(reply, ModelReply) and reply.repaired)),
        reply.finish_reason if isinstance(reply, ModelReply) else "",
        *_call_end(r, call, accepted),
    )


def _tool_row(r: AcceptedRecord, index: int, call: Call, accepted: bool) -> Row:
    query, results = _looked_up(call.reply)
    return (*_call_start(r, index, call, accepted), call.kind, query, results, *_call_end(r, call, accepted))


def _call_start(r: AcceptedRecord, index: int, call: Call, accepted: bool) -> Row:
    # A failure that the adapter returned as a value counts like one that it raised.
    error = call.error or (call.reply.kind if isinstance(call.reply, Failure) else "")
    step = r.event.step if isinstance(r.event, ev.EffectCompleted | ev.StepFailed) else r.step
    return (
        r.run_id,
        r.case_id,
        r.event_id,
        r.topic,
        r.partition,
        r.offset,
        index,
        int(accepted),
        r.event_type,
        step or "",
        call.provider,
        call.mode,
        call.cost_usd,
        None,
        call.cost_source,
        call.latency_ms,
        call.attempt,
        int(call.cached),
        error,
    )


def _call_end(r: AcceptedRecord, call: Call, accepted: bool) -> Row:
    return (
        "executed",  # Everything in the live journal was; a backtest's reused replies are not calls of this record.
        call.request_hash,
        _ms(r.time),
        _ms(call.replied_at) - round(call.latency_ms),
        _encode(call.reply),
        # The key holds the offset, so no other record competes: of one record's rows the accepted one stays.
        FIRST_WINS_TOP - r.offset - (not accepted),
    )


def _looked_up(reply: Reply) -> tuple[str, int]:
    match reply:
        case SearchReply():
            return reply.query, len(reply.results)
        case PageReply():
            return reply.page.url, 1
        case RecallReply():
            return "", len(reply.entries)
        case MarketReply():
            return "", len(reply.values)
        case _:
            return "", 0


def memory_row(record: AcceptedRecord) -> Row:
    """Return the memory of a case that ended in a signal.

    Raises:
        TypeError: when the record's event is not ``SignalSynthesized``.
    """
    event = record.event
    if not isinstance(event, ev.SignalSynthesized):
        raise TypeError(f"only SignalSynthesized makes a memory, not {type(event).__name__}")
    signal = event.signal
    return (
        record.run_id,
        record.case_id,
        record.event_id,
        signal.signal_id,
        signal.status,
        signal.event_type,
        signal.asset,
        signal.action,
        signal.summary,
        signal.confidence,
        signal.language,
        _ms(signal.decided_at),
        EMBEDDING_MODEL,
        embed(record.news_text or signal.summary),
        record.topic,
        record.partition,
        record.offset,
        FIRST_WINS_TOP - record.offset,
    )


def _backtest_signal_row(r: AcceptedRecord, signal: Signal) -> Row:
    return signal_row(
        signal,
        run_id=r.run_id,
        cause_id=r.event_id,
        journal_topic=r.topic,
        journal_partition=r.partition,
        journal_offset=r.offset,
        emitted_ms=r.appended_ms,
        knowable_at=r.knowable_at,
    )


def signal_row(
    signal: Signal,
    *,
    run_id: str,
    cause_id: str,
    journal_topic: str,
    journal_partition: int,
    journal_offset: int,
    emitted_ms: int,
    knowable_at: datetime | None = None,
) -> Row:
    """Return the row of one revision of a signal.

    ``cause_id`` and ``journal_*`` are the journal event that the revision was published for (headers of ``signals``);
    ``emitted_ms`` is the append time on ``signals``, milliseconds since 1970. ``knowable_at`` is when one could first
    have acted on the news; without it, when the news was published.
    """
    published = _ms(signal.published_at)
    return (
        run_id,
        signal.signal_id,
        signal.revision,
        signal.supersedes,
        signal.status,
        signal.case_id,
        cause_id,
        signal.event_type,
        signal.asset,
        signal.asset_name,
        signal.symbol or "",
        signal.venue or "",
        signal.action,
        signal.direction,
        signal.strength,
        signal.timeframe,
        signal.horizon,
        signal.preliminary_confidence,
        signal.confidence,
        signal.confidence_calibrated,
        signal.confidence - signal.preliminary_confidence,
        [(a.rule, a.amount, a.reason) for a in signal.adjustments],
        list(signal.risk_flags),
        signal.independent_sources,
        [
            (e.url, e.hash, e.stance, int(e.official), int(e.independent), e.published_at and _ms(e.published_at))
            for e in signal.evidence
        ],
        list(signal.links),
        signal.summary,
        signal.notes,
        signal.reference_price,
        [(p.name, p.version, p.hash) for p in signal.prompt_versions],
        signal.model or "",
        signal.provider_mode,
        signal.news_source,
        signal.language,
        published,
        published if knowable_at is None else _ms(knowable_at),
        _ms(signal.decided_at),
        _ms(signal.valid_until),
        emitted_ms,
        journal_topic,
        journal_partition,
        journal_offset,
        FIRST_WINS_TOP - journal_offset,
    )


def _ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)
