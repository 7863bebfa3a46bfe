"""Rows for calls: one for each model or tool call, whether or not the call's record was accepted."""

from __future__ import annotations

import msgspec

from infra.clickhouse.columns import FIRST_WINS_TOP
from infra.clickhouse.record import AcceptedRecord, Row, epoch_ms
from schemas import events as ev
from schemas.calls import Call
from schemas.effects import Failure, MarketReply, ModelReply, PageReply, RecallReply, Reply, SearchReply

_encode = msgspec.json.Encoder().encode
_SAY_THEIR_STEP = (ev.EffectCompleted, ev.StepFailed)


def llm_row(r: AcceptedRecord, index: int, call: Call, accepted: bool) -> Row:
    """Return the row of a model call, in the order of ``columns.LLM_CALLS``; ``index`` is its index in the event."""
    reply = call.reply
    return (
        *_call_start(r, index, call, accepted), call.model or "", call.prompt_name or "", call.prompt_version or "",
        call.prompt_hash or "", call.usage_input_tokens, call.usage_cached_tokens, call.usage_output_tokens,
        call.usage_thinking_tokens, int(call.repair or (isinstance(reply, ModelReply) and reply.repaired)),
        reply.finish_reason if isinstance(reply, ModelReply) else "", *_call_end(r, call, accepted),
    )  # fmt: skip


def tool_row(r: AcceptedRecord, index: int, call: Call, accepted: bool) -> Row:
    """Return the row of any other call, in the order of ``columns.TOOL_CALLS``."""
    query, results = _lookup_counts(call.reply)
    return (
        *_call_start(r, index, call, accepted),
        call.kind,
        query,
        results,
        call.units,
        *_call_end(r, call, accepted),
    )


def _call_start(r: AcceptedRecord, index: int, call: Call, accepted: bool) -> Row:
    # A failure that the adapter returned as a value counts like a raised one.
    error = call.error or (call.reply.kind if isinstance(call.reply, Failure) else "")
    step = r.event.step if isinstance(r.event, _SAY_THEIR_STEP) else r.step
    return (
        r.run_id, r.case_id, r.event_id, r.topic, r.partition, r.offset, index, int(accepted), r.event_type,
        step or "", call.provider, call.mode, call.cost_usd, None, call.cost_source, call.latency_ms, call.attempt,
        int(call.cached), error,
    )  # fmt: skip


def _call_end(r: AcceptedRecord, call: Call, accepted: bool) -> Row:
    return (
        "executed",  # Every call in a journal was executed; a backtest's reused replies are not calls of this record.
        call.request_hash,
        epoch_ms(r.time),
        epoch_ms(call.replied_at) - round(call.latency_ms),
        _encode(call.reply),
        # The key contains the offset, so rows of different records never compete. Of one record's rows, the accepted
        # one wins.
        FIRST_WINS_TOP - r.offset - (not accepted),
    )


def _lookup_counts(reply: Reply) -> tuple[str, int]:
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
