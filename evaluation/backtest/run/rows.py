"""Maps a replayed case to rows of ``run_cases``, ``llm_calls`` and ``tool_calls``.

Keys contain only values that a repetition of the same run reproduces, so writing rows is idempotent.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import Decimal

from msgspec.structs import replace

from evaluation.backtest.cutoffs import known_to_training
from evaluation.compare.run_rows import RunCase
from infra.clickhouse.call_rows import llm_row, tool_row
from infra.clickhouse.columns import LLM_CALLS, TOOL_CALLS
from infra.clickhouse.record import AcceptedRecord, Row, epoch_ms
from schemas import events as ev
from schemas.calls import Call
from schemas.effects import Failure
from schemas.ids import uuid5
from schemas.signals import Signal
from streams.replay import Recording, Replayed, UsedCall
from streams.replay.outcome import Status, signal_bytes

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NOTHING = Failure(kind="not_configured", message="", retryable=False)


class RunCaseRow(RunCase, frozen=True, kw_only=True):
    """One row of ``run_cases``; the fields are the table's columns."""

    run_id: str
    status: Status
    reason: str
    language: str
    source: str
    received_at: datetime
    knowable_at: datetime
    published_at: datetime
    horizon_s: int = 0
    look_ahead_evidence: int = 0
    look_ahead_memory: int = 0
    look_ahead_prices: int = 0
    signal: str = ""
    notes: str = ""
    started_at: datetime = _EPOCH
    version: int = 0


COLUMNS = RunCaseRow.__struct_fields__


def unreplayable(recording: Recording, *, run_id: str, repeat: int, at: datetime, story_id: str) -> RunCaseRow:
    """Return the row of a case with an unreadable record."""
    opening = recording.records[0].event if recording.records else None
    opened = opening if isinstance(opening, ev.EventReceived | ev.SecondLookOpened) else None
    news = opened and opened.news
    received = recording.records[0].at if recording.records else at
    return RunCaseRow(
        run_id=run_id,
        case_id=recording.case_id,
        repeat=repeat,
        story_id=story_id,
        status="failed",
        reason=recording.unreadable,
        language=opened.language if opened else "other",
        source=news.source if news else "",
        received_at=received,
        knowable_at=news.as_of if news else received,
        published_at=news.published_at if news else received,
        started_at=at,
        version=epoch_ms(at),
    )


def case_row(
    replayed: Replayed, *, run_id: str, repeat: int, at: datetime, story_id: str, refused_prices: int = 0
) -> RunCaseRow:
    """Return the row of one replayed case; ``at`` is the wall time of the replay."""
    case, signal, seen = replayed.case, replayed.signal, replayed.look_ahead
    executed = [c for u in replayed.used if u.execution == "executed" for c in u.calls]
    avoided = total(c for u in replayed.used if u.execution == "reused" for c in u.calls)
    cost = total(executed)
    row = RunCaseRow(
        run_id=run_id,
        case_id=case.case_id,
        repeat=repeat,
        story_id=story_id,
        status=replayed.status,
        reason=replayed.reason,
        language=case.language,
        source=case.news.source,
        received_at=case.opened_at,
        knowable_at=case.as_of,
        published_at=case.news.published_at,
        executed=replayed.count("executed"),
        reused=replayed.count("reused"),
        missed=replayed.count("miss"),
        cost_usd=cost,
        unpriced_calls=sum(1 for c in executed if c.cost_usd is None),
        avoided_cost_usd=avoided,
        would_have_cost_usd=None if cost is None or avoided is None else cost + avoided,
        latency_ms=sum(c.latency_ms for c in executed) if executed else None,
        look_ahead_evidence=seen.evidence,
        look_ahead_memory=seen.memory,
        look_ahead_prices=seen.prices + refused_prices,
        after_training_cutoff=int(known_to_training(_models(replayed), case.as_of)),
        started_at=at,
        version=epoch_ms(at),
    )
    return row if signal is None or replayed.status != "replayed" else _with_signal(row, signal, replayed)


def _with_signal(row: RunCaseRow, signal: Signal, replayed: Replayed) -> RunCaseRow:
    return replace(
        row,
        has_signal=1,
        event_type=signal.event_type,
        asset=signal.asset,
        action=signal.action,
        direction=signal.direction,
        horizon_s=signal.horizon,
        preliminary_confidence=signal.preliminary_confidence,
        confidence=signal.confidence,
        signal=signal_bytes(replayed.end).decode(),
        notes=signal.notes,
    )


def call_rows(replayed: Replayed, *, run_id: str, repeat: int, started_at: datetime) -> tuple[list[Row], list[Row]]:
    """Return (rows of ``llm_calls``, rows of ``tool_calls``).

    A reused reply has no cost and no latency; its recorded cost is in ``avoided_cost_usd``.
    """
    models: list[Row] = []
    tools: list[Row] = []
    for number, used in enumerate(replayed.used):
        for index, call in enumerate(used.calls or (_missed(used, replayed.case.as_of),)):
            record = _record(replayed, used, run_id=run_id, repeat=repeat, number=number, at=call.replied_at)
            table, names, make = (models, LLM_CALLS, llm_row) if used.kind == "model" else (tools, TOOL_CALLS, tool_row)
            values = dict(zip(names, make(record, index, call, True), strict=True)) | {"step": used.step}
            values["execution"] = used.execution
            if used.execution != "executed":
                values |= {"cost_usd": Decimal(0), "latency_ms": None, "reply": b"", "started_at": epoch_ms(started_at)}
                values["avoided_cost_usd"] = call.cost_usd if used.execution == "reused" else Decimal(0)
                values["error_type"] = "" if used.execution == "miss" else values["error_type"]
            else:
                values |= {"avoided_cost_usd": Decimal(0), "started_at": epoch_ms(started_at)}
            table.append(tuple(values.values()))
    return models, tools


def total(calls: Iterable[Call]) -> Decimal | None:
    """Return the sum of the known costs; None when there are calls but no price is known."""
    costs = [c.cost_usd for c in calls]
    known = [c for c in costs if c is not None]
    return None if costs and not known else sum(known, Decimal(0))


def _models(replayed: Replayed) -> set[str | None]:
    return {c.model for u in replayed.used if u.kind == "model" for c in u.calls}


def _missed(used: UsedCall, at: datetime) -> Call:
    return Call(
        kind=used.kind, provider="", mode="simulated", request_hash=used.request_hash, reply=_NOTHING,
        latency_ms=0.0, replied_at=at, cost_usd=Decimal(0), error=None,
    )  # fmt: skip


def _record(
    replayed: Replayed, used: UsedCall, *, run_id: str, repeat: int, number: int, at: datetime
) -> AcceptedRecord:
    # A replayed call has no journal record: its key is its run, case and position in the replay.
    return AcceptedRecord(
        event_id=uuid5("replayed", run_id, replayed.case.case_id, str(repeat), str(number)),
        event_type="",
        case_id=replayed.case.case_id,
        run_id=run_id,
        time=at,
        topic=f"runs.{run_id}",
        partition=0,
        offset=0,
        appended_ms=0,
        event=ev.EffectCompleted(step=used.step, request_hash=used.request_hash),
        value=b"",
        step=used.step,
    )


def table_row(row: RunCaseRow) -> Row:
    """Return the row in the order of :data:`COLUMNS`, with times in milliseconds as the client writes them."""
    values = (getattr(row, name) for name in COLUMNS)
    return tuple(epoch_ms(v) if isinstance(v, datetime) else v for v in values)
