"""The table ``runs``: by which code runs were decided, which bounds what a comparison may say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from evaluation.compare.code_identity import CodeChange, QuestionCounts, RunCode, code_change
from evaluation.declaration import parse_declaration
from infra.clickhouse.client import ClickHouse
from schemas.errors import ConfigError
from schemas.ids import LIVE_RUN


async def read_code_change(tables: ClickHouse, a: str, b: str, *, allow: bool) -> CodeChange | None:
    """Return how the code of two runs differs; None if the same code decided both.

    Raises:
        ConfigError: one is ``live``, the other changes a prompt, and other code decided it than recorded its cases, or it
            is unknown which did; unless ``allow``. The text names the baseline to compare with, or how to make one.
    """
    if a == b:
        return None
    of_run = {
        run: await read_run_code(tables, run) or RunCode(run_id=run, code=()) for run in (a, b) if run != LIVE_RUN
    }
    if LIVE_RUN not in (a, b):
        return code_change(of_run[a], of_run[b])
    (replayed,) = of_run.values()
    live = replayed.recording
    change = code_change(live, replayed) if a == LIVE_RUN else code_change(replayed, live)
    if change is not None and not allow and not replayed.baseline:
        raise ConfigError(_refusal(change, replayed, await baseline_of(tables, replayed)))
    return change


def _refusal(change: CodeChange, replayed: RunCode, baseline: str | None) -> str:
    anyway = "or add --allow-code-change; the verdict then mentions it"
    warning = f"{change.text}. A difference between them is due to the code as well as the prompt"
    if change.is_unknown:
        return f"{warning}, as far as is known: run {replayed.run_id} again, under another --run-id, {anyway}"
    if baseline is not None:
        return f"{warning}: compare with the baseline of its code, `newsproof backtest compare {baseline} {replayed.run_id}`, {anyway}"
    return (
        f"{warning}: make a baseline first, `newsproof backtest run --run-id baseline` over the same cases, and then "
        f"`newsproof backtest compare baseline {replayed.run_id}`, {anyway}"
    )


async def read_runs(client: ClickHouse, run_id: str | None = None) -> list[dict[str, Any]]:
    """Return the rows of ``runs``, newest first, or only the row of ``run_id``."""
    where = "WHERE run_id = {run_id:String}" if run_id else ""
    sql = f"SELECT * FROM runs FINAL {where} ORDER BY started_at DESC"
    return (await client.query(sql, {"run_id": run_id} if run_id else {})).dicts()


async def read_run(client: ClickHouse, run_id: str) -> dict[str, Any] | None:
    """Return the row of a run, with ``cases_by_status`` and the first 20 cases that were ``not_replayed`` to the end.

    None if there is no such run.
    """
    if not (runs := await read_runs(client, run_id)):
        return None
    states = await client.query(_STATES, {"run_id": run_id})
    others = await client.query(_OTHERS, {"run_id": run_id})
    return {**runs[0], "cases_by_status": dict(states.rows), "not_replayed": others.dicts()}


_STATES = "SELECT status, count() FROM run_cases FINAL WHERE run_id = {run_id:String} GROUP BY status ORDER BY status"
_OTHERS = """SELECT case_id, repeat, status, reason FROM run_cases FINAL
WHERE run_id = {run_id:String} AND status != 'replayed' ORDER BY case_id, repeat LIMIT 20"""


async def read_run_code(client: ClickHouse, run_id: str) -> RunCode | None:
    """Return the code that decided a run; None if the table has no such run."""
    runs = await read_runs(client, run_id)
    return run_code_of(runs[0]) if runs else None


_DECLARATIONS = msgspec.json.Decoder(dict[str, dict[str, str]])
_QUESTIONS = msgspec.json.Decoder(dict[str, QuestionCounts])


def run_code_of(row: Mapping[str, Any]) -> RunCode:
    """Return the code that decided the run of this row of ``runs``."""
    return RunCode(
        run_id=row["run_id"],
        code=(row["code_version"],) if row["code_version"] else (),
        recorded_code=tuple(row["recorded_code"]),
        declarations=_DECLARATIONS.decode(row["declarations"]) if row["declarations"] else None,
        questions=_QUESTIONS.decode(row["questions"]) if row["questions"] else {},
        looked_at=row["looked_at"],
        changed_prompts=tuple(parse_declaration(row["changes"]).prompts),
        baseline=bool(row["baseline"]),
    )


async def baseline_of(client: ClickHouse, about: RunCode) -> str | None:
    """Return the newest run without a change, by the same code and over at least the same range of cases; None if there is none."""
    sql = """SELECT b.run_id FROM runs AS b FINAL, (SELECT * FROM runs FINAL WHERE run_id = {run:String}) AS r
WHERE b.baseline AND b.run_id != r.run_id AND b.code_version = r.code_version AND b.recorded_code = r.recorded_code
  AND b.cases_from <= r.cases_from AND b.cases_to >= r.cases_to AND b.cases > 0
ORDER BY b.started_at DESC LIMIT 1"""
    rows = (await client.query(sql, {"run": about.run_id})).rows
    return str(rows[0][0]) if rows else None
