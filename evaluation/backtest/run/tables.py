"""Writes a run's rows to ClickHouse in blocks, and reads the list of runs."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

import msgspec

from evaluation.backtest.run.plan import RunPlan
from evaluation.backtest.run.rows import COLUMNS, RunCaseRow, table_row
from evaluation.compare.code_identity import RunCode
from infra.clickhouse.client import ClickHouse
from infra.clickhouse.columns import LLM_CALLS, TOOL_CALLS
from infra.clickhouse.record import Row, epoch_ms

BLOCK = 2_000
RUN_COLUMNS = ("run_id", "label", "status", "changes", "code_version", "cases_from", "cases_to", "cases", "executed",
               "reused", "missed", "cost_usd", "avoided_cost_usd", "started_at", "finished_at", "version",
               "recorded_code", "declarations", "questions", "looked_at", "baseline")  # fmt: skip


class Totals(msgspec.Struct, kw_only=True):
    """Totals of a run so far. Costs in USD; ``avoided`` is the recorded cost of the reused replies.

    ``other_model`` counts executed calls that another model answered than the recorded ones that they replace.
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
    after_cutoff: int = 0
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


class RunTables:
    """Writes the rows of one run. Writing is idempotent: keys and versions absorb repeated rows."""

    def __init__(self, client: ClickHouse) -> None:
        self._client = client
        self._waiting: dict[str, list[Row]] = {"run_cases": [], "llm_calls": [], "tool_calls": []}
        self._columns = {"run_cases": COLUMNS, "llm_calls": LLM_CALLS, "tool_calls": TOOL_CALLS}

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

    async def run(
        self,
        plan: RunPlan,
        about: RunCode,
        status: str,
        totals: Totals,
        span: tuple[datetime, datetime],
        at: datetime,
        *,
        ended: datetime | None,
    ) -> None:
        """Write the row of the run, at its start and at its end."""
        row = (
            plan.run_id, plan.label, status, plan.changes, plan.code_version, epoch_ms(span[0]), epoch_ms(span[1]), totals.cases,
            totals.executed, totals.reused, totals.missed, totals.cost, totals.avoided, epoch_ms(at),
            None if ended is None else epoch_ms(ended), epoch_ms(ended or datetime.now(at.tzinfo)),
            *about_row(about),
        )  # fmt: skip
        await self._client.insert("runs", RUN_COLUMNS, [row])

    async def _write(self, table: str) -> None:
        rows, self._waiting[table] = self._waiting[table], []
        await self._client.insert(table, self._columns[table], rows)


def about_row(about: RunCode) -> Row:
    """Return the last columns of :data:`RUN_COLUMNS`."""
    return (
        list(about.recorded_code),
        "" if about.declarations is None else msgspec.json.encode(about.declarations).decode(),
        msgspec.json.encode(about.questions).decode() if about.looked_at else "",
        about.looked_at,
        int(about.baseline),
    )


async def entries_before(client: ClickHouse) -> dict[str, list[datetime]]:
    """Return the entry times of the known outcomes by case. An entry before the news was knowable is refused."""
    found = await client.query("SELECT case_id, entry_at FROM outcomes FINAL")
    entries: dict[str, list[datetime]] = {}
    for case_id, at in found.rows:
        entries.setdefault(case_id, []).append(at)
    return entries
