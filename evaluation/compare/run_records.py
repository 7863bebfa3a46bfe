"""The tables ``runs`` and ``looks``: by which code runs were decided, and who looked at which cases before.

Both bound what a comparison may claim.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from evaluation.compare.code_identity import CodeChange, QuestionCounts, RunCode, code_change
from evaluation.compare.run_rows import declared
from infra.clickhouse.client import ClickHouse
from infra.clickhouse.record import epoch_ms
from schemas.errors import ConfigError
from schemas.ids import LIVE_RUN, canonical_json, content_hash
from schemas.printable import counted


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """A look at the results of changed prompts or models: a row of ``looks``, with the number of its ``cases``. Times are UTC.

    ``earlier`` counts the looks before it that share a case with it, whatever they looked at. ``tuned`` counts those of them that
    one of its candidates is not part of and that came before its run began: the candidate may have been made to fit.
    """

    look_id: str
    looked_at: datetime
    runs: tuple[str, ...]
    label: str
    candidates: tuple[str, ...]
    began_at: datetime
    options: str
    cases: int
    earlier: int
    tuned: int

    @property
    def factor(self) -> int:
        """The factor of p values; 0: nothing may be claimed.

        The k-th look at a case counts k (k + 1) / 2 times. So however many follow, chance alone calls a candidate better in 5 % at
        most: 2.5 % in the first look, as much in all others together.
        """
        return 0 if self.tuned else (self.earlier + 1) * (self.earlier + 2) // 2

    @property
    def note(self) -> str:
        """The factor in words; "" for the first look."""
        if self.tuned:
            return (
                f"nothing is claimed: run {self.runs[-1]} began after {counted(self.tuned, 'look')} at some of these cases with another "
                "candidate, so it may have been made to fit them; compare on cases that nobody has looked at (`backtest run --from` "
                "a later day, or a shadow run)"
            )
        if not self.earlier:
            return ""
        return (
            f"look {self.earlier + 1} at some of these cases (newsproof backtest trials): p values are multiplied by {self.factor}, "
            "and intervals are as much wider"
        )


_STORED = ("look_id", "looked_at", "runs", "label", "candidates", "began_at", "options", "cases")
_NOW = """
SELECT {look:String} AS look_id,
       (SELECT ifNull(minOrNull(looked_at), now64(3, 'UTC')) FROM looks WHERE look_id = {look:String}) AS looked_at,
       {runs:Array(String)} AS runs, {label:String} AS label, {candidates:Array(String)} AS candidates,
       fromUnixTimestamp64Milli({began:Int64}, 'UTC') AS began_at, {options:String} AS options,
       (SELECT groupUniqArray(cityHash64(case_id)) FROM
           (SELECT case_id FROM run_cases WHERE run_id IN {runs:Array(String)} GROUP BY case_id
            HAVING uniqExact(run_id) = length(arrayFilter(run -> run != 'live', {runs:Array(String)})))) AS cases
"""
_COUNTED = """
WITH e.look_id != o.look_id AND e.looked_at < o.looked_at AND notEmpty(arrayIntersect(o.cases, e.cases)) AS before
SELECT o.look_id, any(o.looked_at) AS at, any(o.runs), any(o.label), any(o.candidates), any(o.began_at), any(o.options), any(o.cases),
       countIf(before), countIf(before AND e.looked_at < o.began_at AND NOT hasAll(e.candidates, o.candidates))
FROM ({of}) AS o LEFT JOIN (SELECT * FROM looks FINAL) AS e ON 1 = 1
GROUP BY o.look_id ORDER BY at, o.look_id
"""


async def read_looks(tables: ClickHouse) -> list[Look]:
    """Return the whole ledger, the first look first."""
    return [_look(row) for row in (await tables.query(_COUNTED.replace("{of}", "SELECT * FROM looks FINAL"))).rows]


async def look_at(
    tables: ClickHouse, runs: Sequence[str], options: Mapping[str, Any], seen: object, *, record: bool = True
) -> Look | None:
    """Return this look as the ledger counts it, and write it there unless ``record`` is False.

    ``seen``: all that the result is made of. The same look at the same data again is one look.
    None: none of the runs changes a prompt or a model, so there is no candidate, and nothing is written.

    Raises:
        TransientError: ClickHouse is unavailable.
    """
    rows = [row for run in runs if run != LIVE_RUN for row in await read_runs(tables, run)]
    found = [row for row in rows if declared(row["changes"]).candidate]
    if not found:
        return None
    given = canonical_json(options).decode()
    asked = {
        "look": content_hash((tuple(runs), given, seen)),
        "runs": list(runs),
        "label": "; ".join(row["label"] for row in found),
        "candidates": sorted({declared(row["changes"]).candidate for row in found}),
        "began": epoch_ms(max(row["started_at"] for row in found)),
        "options": given,
    }
    (row,) = (await tables.query(_COUNTED.replace("{of}", _NOW), asked)).rows
    if record:
        await tables.insert("looks", _STORED, [row[: len(_STORED)]])
    return _look(row)


def _look(row: Sequence[Any]) -> Look:
    values = dict(zip(Look.__struct_fields__, row, strict=True))
    return msgspec.convert(values | {"cases": len(values["cases"])}, Look, strict=False)


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
    return RunCode(
        run_id=row["run_id"],
        code=(row["code_version"],) if row["code_version"] else (),
        recorded_code=tuple(row["recorded_code"]),
        declarations=_DECLARATIONS.decode(row["declarations"]) if row["declarations"] else None,
        questions=_QUESTIONS.decode(row["questions"]) if row["questions"] else {},
        looked_at=row["looked_at"],
        changed_prompts=tuple(declared(row["changes"]).prompts),
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
