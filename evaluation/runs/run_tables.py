"""The rows of a run in ClickHouse: one per run, case and call; of backtests in blocks, of shadow runs case by case.

Keys contain only values that a repetition of the same run reproduces, so writing rows is idempotent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from decimal import Decimal

import msgspec
from msgspec.structs import replace

from evaluation.compare.code_identity import RunCode
from evaluation.compare.run_records import read_run_code
from evaluation.compare.run_rows import RunCase
from evaluation.replay.cutoffs import known_to_training
from evaluation.runs.plan import RunPlan
from infra.clickhouse.call_rows import llm_row, tool_row
from infra.clickhouse.client import ClickHouse
from infra.clickhouse.columns import LLM_CALLS, TOOL_CALLS
from infra.clickhouse.record import AcceptedRecord, Row, epoch_ms
from newsproof.app.version import code_version
from schemas import events as ev
from schemas.calls import Call
from schemas.config import Snapshot
from schemas.effects import Failure
from schemas.ids import uuid5
from schemas.signals import Signal
from streams.journal.retry import retry_while_unavailable
from streams.replay import Recording, ReplayResult, UsedCall
from streams.replay.outcome import Status, signal_bytes

BLOCK = 2_000
"""Rows of one insert."""
RUN_COLUMNS = ("run_id", "label", "status", "changes", "code_version", "cases_from", "cases_to", "cases", "executed",
               "reused", "missed", "cost_usd", "avoided_cost_usd", "started_at", "finished_at", "version",
               "recorded_code", "declarations", "questions", "looked_at", "baseline")  # fmt: skip
_TOTALS = """
SELECT count() AS cases, countIf(status = 'replayed') AS replayed, sum(executed) AS executed, sum(reused) AS reused,
       sum(missed) AS missed, sum(cost_usd) AS cost_usd, sum(avoided_cost_usd) AS avoided_cost_usd,
       min(least(published_at, received_at)) AS cases_from, max(least(published_at, received_at)) AS cases_to
FROM run_cases FINAL WHERE run_id = {run:String}"""
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


RUN_CASE_COLUMNS = RunCaseRow.__struct_fields__


def unreadable_row(recording: Recording, *, run_id: str, repeat: int, at: datetime, story_id: str) -> RunCaseRow:
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
    replayed: ReplayResult, *, run_id: str, repeat: int, at: datetime, story_id: str, refused_prices: int = 0
) -> RunCaseRow:
    """Return the row of one replayed case; ``at`` is the wall time of the replay."""
    case, signal, seen = replayed.case, replayed.signal, replayed.look_ahead
    executed = [c for u in replayed.used if u.execution == "executed" for c in u.calls]
    avoided = total_cost(c for u in replayed.used if u.execution == "reused" for c in u.calls)
    cost = total_cost(executed)
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


def _with_signal(row: RunCaseRow, signal: Signal, replayed: ReplayResult) -> RunCaseRow:
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


def call_rows(replayed: ReplayResult, *, run_id: str, repeat: int, started_at: datetime) -> tuple[list[Row], list[Row]]:
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


def total_cost(calls: Iterable[Call]) -> Decimal | None:
    """Return the sum of the known costs; None when there are calls but no price is known."""
    costs = [c.cost_usd for c in calls]
    known = [c for c in costs if c is not None]
    return None if costs and not known else sum(known, Decimal(0))


def _models(replayed: ReplayResult) -> set[str | None]:
    return {c.model for u in replayed.used if u.kind == "model" for c in u.calls}


def _missed(used: UsedCall, at: datetime) -> Call:
    return Call(
        kind=used.kind, provider="", mode="simulated", request_hash=used.request_hash, reply=_NOTHING,
        latency_ms=0.0, replied_at=at, cost_usd=Decimal(0), error=None,
    )  # fmt: skip


def _record(
    replayed: ReplayResult, used: UsedCall, *, run_id: str, repeat: int, number: int, at: datetime
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
    """Return the row in the order of :data:`RUN_CASE_COLUMNS`, with times in milliseconds as the client writes them."""
    values = (getattr(row, name) for name in RUN_CASE_COLUMNS)
    return tuple(epoch_ms(v) if isinstance(v, datetime) else v for v in values)


class RunTotals(msgspec.Struct, kw_only=True):
    """Totals of a run so far. Costs in USD; ``avoided`` is the recorded cost of the reused replies.

    ``other_model`` counts executed calls that another model answered than the recorded ones that they replace. ``undated``: results
    and pages without a date, which may be from after their case. ``unknown_cutoffs``: models whose training cutoff is unknown.
    """

    cases: int = 0
    replayed: int = 0
    missed_cases: int = 0
    failed: int = 0
    refused: int = 0
    left_out: int = 0
    executed: int = 0
    reused: int = 0
    missed: int = 0
    cost: Decimal = Decimal(0)
    unpriced_calls: int = 0
    avoided: Decimal = Decimal(0)
    look_ahead: int = 0
    undated: int = 0
    after_cutoff: int = 0
    unknown_cutoffs: set[str] = set()
    other_model: int = 0

    def add(self, row: RunCaseRow) -> None:
        self.cases += 1
        self.replayed += row.status == "replayed"
        self.missed_cases += row.status == "miss"
        self.failed += row.status == "failed"
        self.refused += row.status == "refused"
        self.executed += row.executed
        self.reused += row.reused
        self.missed += row.missed
        self.cost += row.cost_usd or Decimal(0)
        self.unpriced_calls += row.unpriced_calls
        self.avoided += row.avoided_cost_usd or Decimal(0)
        self.look_ahead += row.look_ahead_evidence + row.look_ahead_memory + row.look_ahead_prices
        self.after_cutoff += row.after_training_cutoff


def run_row(
    plan: RunPlan,
    about: RunCode,
    status: str,
    totals: RunTotals,
    span: tuple[datetime, datetime],
    at: datetime,
    *,
    label: str,
    ended: datetime | None,
) -> Row:
    """Return the row of a run in the order of :data:`RUN_COLUMNS`. ``span``: first and last case; ``at``: begin of the run."""
    return (
        plan.run_id, label, status, plan.changes, about.code[0], epoch_ms(span[0]), epoch_ms(span[1]), totals.cases,
        totals.executed, totals.reused, totals.missed, totals.cost, totals.avoided, epoch_ms(at),
        None if ended is None else epoch_ms(ended), epoch_ms(ended or datetime.now(UTC)),
        *run_code_row(about),
    )  # fmt: skip


def run_code_row(about: RunCode) -> Row:
    """Return the last columns of :data:`RUN_COLUMNS`."""
    return (
        list(about.recorded_code),
        "" if about.declarations is None else msgspec.json.encode(about.declarations).decode(),
        msgspec.json.encode(about.questions).decode() if about.looked_at else "",
        about.looked_at,
        int(about.baseline),
    )


class RunTables:
    """Writes the rows of one run. Writing is idempotent: keys and versions absorb repeated rows."""

    def __init__(self, client: ClickHouse) -> None:
        self._client = client
        self._waiting: dict[str, list[Row]] = {"run_cases": [], "llm_calls": [], "tool_calls": []}
        self._columns = {"run_cases": RUN_CASE_COLUMNS, "llm_calls": LLM_CALLS, "tool_calls": TOOL_CALLS}

    async def add(self, row: RunCaseRow, models: list[Row], tools: list[Row]) -> None:
        """Buffer the rows of one case; write each table that has a full block."""
        for table, rows in (("run_cases", [table_row(row)]), ("llm_calls", models), ("tool_calls", tools)):
            self._waiting[table] += rows
            if len(self._waiting[table]) >= BLOCK:
                await self._write(table)

    async def flush(self) -> None:
        """Write all buffered rows."""
        for table in self._waiting:
            await self._write(table)

    async def write_run(
        self,
        plan: RunPlan,
        about: RunCode,
        status: str,
        totals: RunTotals,
        span: tuple[datetime, datetime],
        at: datetime,
        *,
        ended: datetime | None,
    ) -> None:
        """Write the row of the run, at its start and at its end."""
        row = run_row(plan, about, status, totals, span, at, label=plan.label, ended=ended)
        await self._client.insert("runs", RUN_COLUMNS, [row])

    async def _write(self, table: str) -> None:
        rows, self._waiting[table] = self._waiting[table], []
        await self._client.insert(table, self._columns[table], rows)


async def entries_before(client: ClickHouse) -> dict[str, list[datetime]]:
    """Return the entry times of the known outcomes by case. An entry before the news was knowable is refused."""
    stored = await client.query("SELECT case_id, entry_at FROM outcomes FINAL")
    entries: dict[str, list[datetime]] = {}
    for case_id, at in stored.rows:
        entries.setdefault(case_id, []).append(at)
    return entries


class ShadowTables:
    """Writes rows and retries while ClickHouse is unavailable; ``on_wait`` may raise to stop retrying."""

    def __init__(
        self,
        client: ClickHouse,
        plan: RunPlan,
        started_at: datetime,
        on_wait: Callable[[], None],
        snapshots: Mapping[str, Snapshot],
    ) -> None:
        """``snapshots`` of the cases so far; they name the code of the live judgements."""
        self._client, self._plan, self._started_at, self._on_wait = client, plan, started_at, on_wait
        self._snapshots = snapshots

    async def add(self, row: RunCaseRow, replayed: ReplayResult | None) -> None:
        """Write a case. Its calls come first, so a stored case always has its calls."""
        await retry_while_unavailable(
            lambda: self._insert(row, replayed), "the tables of the run", on_wait=lambda _: self._on_wait()
        )

    async def _insert(self, row: RunCaseRow, replayed: ReplayResult | None) -> None:
        if replayed is not None:
            models, tools = call_rows(replayed, run_id=self._plan.run_id, repeat=row.repeat, started_at=row.started_at)
            await self._client.insert("llm_calls", LLM_CALLS, models)
            await self._client.insert("tool_calls", TOOL_CALLS, tools)
        await self._client.insert("run_cases", RUN_CASE_COLUMNS, [table_row(row)])

    async def write_run(self, status: str) -> RunTotals:
        """Write the run's row with its totals so far, and return them.

        Raises:
            TransientError: ClickHouse is unavailable.
        """
        (totals_row,) = (await self._client.query(_TOTALS, {"run": self._plan.run_id})).dicts()
        before = await read_run_code(self._client, self._plan.run_id)
        live = {s.code_version for s in self._snapshots.values()} | set(before.recorded_code if before else ())
        about = RunCode(run_id=self._plan.run_id, code=(code_version(),), recorded_code=tuple(sorted(live)))
        totals = RunTotals(
            cases=int(totals_row["cases"]), replayed=int(totals_row["replayed"]), executed=int(totals_row["executed"]),
            reused=int(totals_row["reused"]), missed=int(totals_row["missed"]), cost=totals_row["cost_usd"], avoided=totals_row["avoided_cost_usd"],
        )  # fmt: skip
        begun = self._started_at
        span = (totals_row["cases_from"], totals_row["cases_to"]) if totals.cases else (begun, begun)
        ended = None if status == "running" else datetime.now(UTC)
        label = f"shadow: {self._plan.label}"
        row = run_row(self._plan, about, status, totals, span, begun, label=label, ended=ended)
        await self._client.insert("runs", RUN_COLUMNS, [row])
        return totals
