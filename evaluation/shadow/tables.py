"""Writes a shadow run to ClickHouse: the rows of each case, and the run's own row. Writing is idempotent by key."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime

import msgspec

from evaluation.backtest.run.plan import RunPlan, trial_of
from evaluation.backtest.run.rows import COLUMNS, RunCaseRow, call_rows, table_row
from evaluation.backtest.run.tables import RUN_COLUMNS
from evaluation.compare.run_records import read_about, write_trial
from infra.clickhouse.client import ClickHouse
from infra.clickhouse.columns import LLM_CALLS, TOOL_CALLS
from infra.clickhouse.record import epoch_ms
from newsproof.app.version import code_version
from schemas.config import Snapshot
from streams.journal.retry import retry_while_unavailable
from streams.replay import Replayed

_TOTALS = """
SELECT count() AS cases, countIf(status = 'replayed') AS replayed, sum(executed) AS executed, sum(reused) AS reused,
       sum(missed) AS missed, sum(cost_usd) AS cost_usd, sum(avoided_cost_usd) AS avoided_cost_usd,
       min(received_at) AS cases_from, max(received_at) AS cases_to
FROM run_cases FINAL WHERE run_id = {run:String}"""


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """Totals of a run so far, including before restarts."""

    cases: int
    replayed: int
    executed: int
    reused: int
    missed: int


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
        """``snapshots``: of the cases so far; they say by which code the live judgements were made."""
        self._client, self._plan, self._started_at, self._on_wait = client, plan, started_at, on_wait
        self._snapshots = snapshots

    async def add(self, row: RunCaseRow, replayed: Replayed | None) -> None:
        """Write a case. Its calls come first, so a stored case always has its calls."""
        await retry_while_unavailable(
            lambda: self._insert(row, replayed), "the tables of the run", on_wait=lambda _: self._on_wait()
        )

    async def _insert(self, row: RunCaseRow, replayed: Replayed | None) -> None:
        if replayed is not None:
            models, tools = call_rows(replayed, run_id=self._plan.run_id, repeat=row.repeat, started_at=row.started_at)
            await self._client.insert("llm_calls", LLM_CALLS, models)
            await self._client.insert("tool_calls", TOOL_CALLS, tools)
        await self._client.insert("run_cases", COLUMNS, [table_row(row)])

    async def write_run(self, status: str) -> Totals:
        """Write the run's row with its totals so far, and return them.

        Raises:
            TransientError: ClickHouse is unavailable.
        """
        (found,) = (await self._client.query(_TOTALS, {"run": self._plan.run_id})).dicts()
        now = datetime.now(UTC)
        before = await read_about(self._client, self._plan.run_id)
        live = {s.code_version for s in self._snapshots.values()} | set(before.recorded_code if before else ())
        values = {
            "run_id": self._plan.run_id,
            "label": f"shadow: {self._plan.label}",
            "status": status,
            "changes": self._plan.changes,
            "code_version": code_version(),
            **{name: found[name] for name in ("cases", "executed", "reused", "missed", "cost_usd", "avoided_cost_usd")},
            "cases_from": found["cases_from"] if found["cases"] else self._started_at,
            "cases_to": found["cases_to"] if found["cases"] else self._started_at,
            "started_at": self._started_at,
            "finished_at": None if status == "running" else now,
            "version": epoch_ms(now),
            "recorded_code": sorted(live),
            "declarations": "",
            "questions": "",
            "looked_at": 0,
            "baseline": 0,
        }
        row = tuple(_in_ms(values[name]) for name in RUN_COLUMNS)
        await self._client.insert("runs", RUN_COLUMNS, [row])
        span, cases = (values["cases_from"], values["cases_to"]), int(found["cases"])
        await write_trial(
            self._client, trial_of(self._plan, log="journal", cases=cases, span=span, started_at=self._started_at)
        )
        return msgspec.convert({n: int(found[n]) for n in Totals.__struct_fields__}, Totals)


def _in_ms(value: object) -> object:
    return epoch_ms(value) if isinstance(value, datetime) else value
