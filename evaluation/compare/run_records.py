"""Tables ``runs`` and ``trials``: by which code runs were decided, and which earlier trials looked at a run's cases.

Both bound what a comparison may claim. There are hundreds of runs and not millions, so ``trials`` is read as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec

from evaluation.compare.code_identity import CodeChange, QuestionCounts, RunCode, code_change
from infra.clickhouse.client import ClickHouse
from infra.clickhouse.record import epoch_ms
from schemas.errors import ConfigError
from schemas.ids import LIVE_RUN

TrialLog = Literal["journal", "sample"]


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """One run in the ledger of trials; the fields are columns of ``trials``. Times are UTC; both ends of the period count."""

    run_id: str
    candidate: str
    label: str
    changed: tuple[str, ...]
    log: TrialLog
    cases: int
    cases_from: datetime
    cases_to: datetime
    started_at: datetime


COLUMNS = (*Trial.__struct_fields__, "version")


async def write_trial(tables: ClickHouse, trial: Trial) -> None:
    """Write the row of a trial. A run writes it at every start, and the latest row wins.

    Raises:
        TransientError: ClickHouse is unavailable.
    """
    values = [epoch_ms(v) if isinstance(v, datetime) else v for v in msgspec.structs.astuple(trial)]
    await tables.insert("trials", COLUMNS, [(*values, epoch_ms(datetime.now(UTC)))])


async def read_trials(tables: ClickHouse) -> list[Trial]:
    """Return all trials, oldest first."""
    sql = f"SELECT {', '.join(Trial.__struct_fields__)} FROM trials FINAL ORDER BY started_at, run_id"
    return [msgspec.convert(row, Trial, strict=False) for row in (await tables.query(sql)).dicts()]


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """What may be claimed of one run's candidate.

    ``earlier`` counts trials of a candidate for the same prompts or models that began before and looked at a part of the same
    period. One of another candidate is enough: ``allowed`` is false. For one candidate that was run again a claim is allowed,
    and ``factor``, how often it was looked at, multiplies its p values. ``note`` says so, "" when there is nothing to say.
    """

    run_id: str
    earlier: int
    allowed: bool
    factor: int
    note: str

    def corrected(self, p: float) -> float:
        """Return the p value that counts the earlier looks of the same candidate (Bonferroni)."""
        return min(1.0, p * self.factor)


def claim_of(trials: Sequence[Trial], run_id: str) -> Claim:
    """Return what may be claimed of the run.

    A run without a candidate, such as ``live`` or an A/A run, and one older than the ledger, claim freely:
    there is nothing to hold against them.
    """
    mine = next((t for t in trials if t.run_id == run_id), None)
    if mine is None or not mine.candidate:
        return Claim(run_id=run_id, earlier=0, allowed=True, factor=1, note="")
    looked = [t for t in trials if _looked_before(t, mine)]
    earlier = len(looked)
    again = all(t.candidate == mine.candidate for t in looked)
    if not earlier:
        note = ""
    elif again:
        note = f"run {run_id} repeats a candidate: p values are multiplied by {earlier + 1}, the number of looks"
    else:
        note = (
            f"run {run_id} was tuned on this period: {earlier} earlier trials used it, so its metrics here prove nothing; "
            "make a claim on cases that no trial has used (`backtest run --from` a later day, or a shadow run)"
        )
    return Claim(run_id=run_id, earlier=earlier, allowed=again, factor=earlier + 1 if again else 1, note=note)


def _looked_before(other: Trial, mine: Trial) -> bool:
    if other.run_id == mine.run_id or not other.candidate or other.log != mine.log:
        return False
    return (
        other.started_at < mine.started_at
        and other.cases_from <= mine.cases_to
        and other.cases_to >= mine.cases_from
        and not set(other.changed).isdisjoint(mine.changed)
    )


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
    said = f"{change.text}. A difference between them is due to the code as well as the prompt"
    if change.is_unknown:
        return f"{said}, as far as is known: run {replayed.run_id} again, under another --run-id, {anyway}"
    if baseline is not None:
        return f"{said}: compare with the baseline of its code, `newsproof backtest compare {baseline} {replayed.run_id}`, {anyway}"
    return (
        f"{said}: make a baseline first, `newsproof backtest run --run-id baseline` over the same cases, and then "
        f"`newsproof backtest compare baseline {replayed.run_id}`, {anyway}"
    )


async def read_runs(client: ClickHouse, run_id: str | None = None) -> list[dict[str, Any]]:
    """Return the rows of ``runs``, newest first, or only the row of ``run_id``."""
    where = "WHERE run_id = {run_id:String}" if run_id else ""
    sql = f"SELECT * FROM runs FINAL {where} ORDER BY started_at DESC"
    return (await client.query(sql, {"run_id": run_id} if run_id else {})).dicts()


async def read_run_code(client: ClickHouse, run_id: str) -> RunCode | None:
    """Return the code that decided a run; None if the table has no such run."""
    found = await read_runs(client, run_id)
    return run_code_of(found[0]) if found else None


_DECLARATIONS = msgspec.json.Decoder(dict[str, dict[str, str]])
_QUESTIONS = msgspec.json.Decoder(dict[str, QuestionCounts])


def run_code_of(row: Mapping[str, Any]) -> RunCode:
    """Return the code that decided the run of this row of ``runs``."""
    changed = msgspec.json.decode(row["changes"] or b"{}", type=dict[str, Any]).get("prompts", {})
    return RunCode(
        run_id=row["run_id"],
        code=(row["code_version"],) if row["code_version"] else (),
        recorded_code=tuple(row["recorded_code"]),
        declarations=_DECLARATIONS.decode(row["declarations"]) if row["declarations"] else None,
        questions=_QUESTIONS.decode(row["questions"]) if row["questions"] else {},
        looked_at=row["looked_at"],
        changed_prompts=tuple(changed),
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
