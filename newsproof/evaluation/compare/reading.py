"""Reads the input of a comparison from ClickHouse: the cases in both runs, returns, and a few texts."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Sequence

from infra.clickhouse.client import ClickHouse
from newsproof.evaluation.compare.comparison import Comparison
from newsproof.evaluation.compare.rows import HOW_NOT_WHAT, LIVE, CaseText, ComparedCase, Hits, RunRows, Texts
from schemas.errors import ConfigError

# Matches canonical JSON: a string, null or a flat list after the field's name. Inside a text the quotes are escaped.
HOW = rf'"({"|".join(HOW_NOT_WHAT)})":("[^"]*"|null|\\[[^]]*\\])'
_COMPUTED = {
    "look_ahead": "look_ahead_evidence + look_ahead_memory + look_ahead_prices",
    "signal_hash": f"if(signal = '', 0, cityHash64(replaceRegexpAll(signal, '{HOW}', '')))",
    "notes_hash": "if(notes = '', 0, cityHash64(notes))",
}
_COLUMNS = ", ".join(
    f"{_COMPUTED[name]} AS {name}" if name in _COMPUTED else name for name in ComparedCase.__struct_fields__
)
# The cases of a run, from its narrowest source: the full view joins much that a list of case ids does not need.
_CASES = {
    True: "SELECT case_id FROM v_judgements WHERE run_id = {run:String}",
    False: "SELECT case_id FROM run_cases WHERE run_id = {run:String}",
}
_TEXT_FIELDS = (
    *("event_type", "asset", "action", "direction", "verdict", "horizon_s", "preliminary_confidence", "confidence"),
)


async def read_runs(tables: ClickHouse, a: str, b: str) -> tuple[RunRows, RunRows]:
    """Read both runs.

    Raises:
        ConfigError: a run does not exist or has no cases yet; the text names the existing runs.
    """
    first, second = await asyncio.gather(_read_run(tables, a, b), _read_run(tables, b, a))
    for run in (first, second):
        if not run.cases:
            raise ConfigError(await _unknown(tables, run))
    return first, second


async def read_texts(tables: ClickHouse, a: str, b: str, comparison: Comparison) -> Texts:
    """Read the signals and notes of the largest differences, for the repeats that the comparison shows."""
    cases = [one.case_id for one in comparison.differences]
    if not cases:
        return {}
    sql = (
        f"SELECT run_id, case_id, repeat, signal, notes, {', '.join(_TEXT_FIELDS)} FROM v_run_cases "
        "WHERE run_id IN {runs:Array(String)} AND case_id IN {cases:Array(String)} AND has_signal"
    )
    found = (await tables.query(sql, {"runs": [a, b], "cases": cases})).rows
    return {
        (run_id, case_id, repeat): CaseText(
            signal=signal, notes=notes, fields={name: str(v) for name, v in zip(_TEXT_FIELDS, fields, strict=True)}
        )
        for run_id, case_id, repeat, signal, notes, *fields in found
    }


async def _read_run(tables: ClickHouse, run: str, other: str) -> RunRows:
    rows_of = (
        f"SELECT {_COLUMNS} FROM v_run_cases WHERE run_id = {{one:String}} AND case_id IN ({_CASES[other == LIVE]})"
    )
    counted = f"SELECT uniqExact(case_id) FROM ({_CASES[run == LIVE]})"
    described = "SELECT status, changes FROM runs FINAL WHERE run_id = {run:String}"
    rows, count, about, hits = await asyncio.gather(
        tables.query(rows_of, {"one": run, "run": other}),
        tables.query(counted, {"run": run}),
        tables.query(described, {"run": run}),
        _read_hits(tables, run),
    )
    status, changes = about.rows[0] if about.rows and run != LIVE else ("", "")
    return RunRows(
        run_id=run,
        cases=int(count.rows[0][0]),
        rows=[ComparedCase(*row) for row in rows.rows],
        hits=hits,
        status=status,
        changes=changes,
    )


async def _read_hits(tables: ClickHouse, run: str) -> Hits:
    # The view decides which outcomes count: the asset that the run named, entered when the news was knowable, not withdrawn.
    sql = "SELECT horizon_s, case_id, repeat, hit FROM v_judged_outcomes WHERE run_id = {run:String} AND standing = 'counted'"
    found: dict[int, dict[tuple[str, int], int]] = {}
    for horizon_s, case_id, repeat, hit in (await tables.query(sql, {"run": run})).rows:
        found.setdefault(horizon_s, {})[case_id, repeat] = hit
    return found


async def _unknown(tables: ClickHouse, run: RunRows) -> str:
    if run.run_id == LIVE:
        return "there are no live judgements in ClickHouse yet: publish news, and let the sink catch up"
    if run.status:
        return f"run {run.run_id} has no cases in ClickHouse yet (it is {run.status}): wait for it or run it again"
    known = [str(row[0]) for row in (await tables.query("SELECT DISTINCT run_id FROM run_cases ORDER BY run_id")).rows]
    return f"there is no run {run.run_id!r}: {_hint(run.run_id, known)}"


def _hint(asked: str, known: Sequence[str]) -> str:
    if not known:
        return "none was made yet (newsproof backtest run)"
    near = difflib.get_close_matches(asked, known, n=3)
    some = near or [*known[-5:], LIVE]
    return f"did you mean {', '.join(some)}? (newsproof backtest list)" if near else f"there are {', '.join(some)}"
