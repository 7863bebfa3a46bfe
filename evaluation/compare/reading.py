"""Reads the input of a comparison from ClickHouse: the cases in both runs, returns, and a few texts."""

from __future__ import annotations

import asyncio
import difflib
import time
from collections.abc import Sequence

import msgspec

from evaluation.compare.comparison import Comparison
from evaluation.compare.pricing import LATENCY_S, CaseTimes, asked_of, entry_ms, returns_of, symbols_of
from evaluation.compare.rows import HOW_NOT_WHAT, LIVE, CaseText, ComparedCase, Returns, RunRows, Texts
from evaluation.compare.texts import visible
from evaluation.prices.run_signals import read_withdrawals
from evaluation.prices.study import BENCHMARK, BETA_DAYS
from infra.clickhouse.client import ClickHouse
from infra.market.outcomes.bar_files import SYNTHETIC
from infra.market.outcomes.bars import standing_imports, stored_bars
from infra.market.outcomes.markets import DOLLARS, Markets
from newsproof.report.run_name import run_name
from schemas.errors import ConfigError

# Matches canonical JSON: a string, null or a flat list after the field's name. Inside a text the quotes are escaped.
HOW = rf'"({"|".join(HOW_NOT_WHAT)})":("[^"]*"|null|\\[[^]]*\\])'
_COMPUTED = {
    "look_ahead": "look_ahead_evidence + look_ahead_memory + look_ahead_prices",
    "signal_hash": f"if(signal = '', 0, cityHash64(replaceRegexpAll(signal, '{HOW}', '')))",
    "notes_hash": "if(notes = '', 0, cityHash64(notes))",
    "knowable_ms": "toUnixTimestamp64Milli(knowable_at)",
}
_COLUMNS = ", ".join(
    f"{_COMPUTED[name]} AS {name}" if name in _COMPUTED else name for name in ComparedCase.__struct_fields__
)
# The cases of a run; of a backtest from the table alone, for the view joins much that a list of ids does not need.
_CASES = {
    True: "SELECT case_id FROM v_run_cases WHERE run_id = {run:String}",
    False: "SELECT case_id FROM run_cases WHERE run_id = {run:String}",
}
_TIMES = """
SELECT case_id, toUnixTimestamp64Milli(knowable_at), if(live, toUnixTimestamp64Milli(emitted_at), NULL)
FROM v_judgements WHERE run_id = 'live'
"""
_BEFORE_MS = (BETA_DAYS + 1) * 86_400_000
"""Bars of so much time before the first entry say how an asset moves with the market, and how dense its bars are."""
_AFTER_MS = 7 * 86_400_000
TITLE_LENGTH = 80
"""Characters of a case's news that name it."""
_TITLES = """
SELECT case_id, substringUTF8(replaceRegexpAll(any(text), '\\s+', ' '), 1, {length:UInt32}) FROM news FINAL
WHERE case_id IN {cases:Array(String)} GROUP BY case_id
"""
_MODELS = """
SELECT step, run_id, arraySort(groupUniqArray(concat(provider_name, ':', request_model))) FROM llm_calls
WHERE run_id IN ({{a:String}}, {{b:String}}) AND accepted AND error_type = '' AND execution != 'miss'
  AND case_id IN ({in_a}) AND case_id IN ({in_b})
GROUP BY step, run_id ORDER BY step, run_id
"""
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


async def read_titles(tables: ClickHouse, comparison: Comparison) -> dict[str, str]:
    """Return how the news of each case that a comparison names begins, on one line; those whose text is not kept are absent."""
    named = {one.case_id for one in (*comparison.flips, *comparison.verdict_flips, *comparison.differences)}
    if not named:
        return {}
    found = await tables.query(_TITLES, {"cases": list(named), "length": TITLE_LENGTH})
    return {case_id: title for case_id, title in found.rows if title}


async def other_models(tables: ClickHouse, a: str, b: str) -> list[str]:
    """Return a sentence that says, for each step that another model answered in run A than in B, which did; none if none did."""
    sql = _MODELS.format(in_a=_CASES[a == LIVE].replace("{run", "{a"), in_b=_CASES[b == LIVE].replace("{run", "{b"))
    by: dict[str, dict[str, Sequence[str]]] = {}
    for step, run_id, models in (await tables.query(sql, {"a": a, "b": b})).rows:
        by.setdefault(step, {})[run_id] = models
    other = [
        f"{step} by {', '.join(of[a])} in {a} and by {', '.join(of[b])} in {b}"
        for step, of in by.items()
        if a in of and b in of and of[a] != of[b]
    ]
    return [visible(f"other models judged: {'; '.join(other)}; a difference may be the model's")] if other else []


async def _read_run(tables: ClickHouse, run: str, other: str) -> RunRows:
    rows_of = (
        f"SELECT {_COLUMNS} FROM v_run_cases WHERE run_id = {{one:String}} AND case_id IN ({_CASES[other == LIVE]})"
    )
    counted = f"SELECT uniqExact(case_id) FROM ({_CASES[run == LIVE]})"
    described = "SELECT status, changes FROM runs FINAL WHERE run_id = {run:String}"
    rows, count, about, name = await asyncio.gather(
        tables.query(rows_of, {"one": run, "run": other}),
        tables.query(counted, {"run": run}),
        tables.query(described, {"run": run}),
        run_name(tables, run),
    )
    status, changes = about.rows[0] if about.rows and run != LIVE else ("", "")
    return RunRows(
        run_id=run,
        cases=int(count.rows[0][0]),
        rows=[ComparedCase(*row) for row in rows.rows],
        status=status,
        changes=changes,
        name=name,
    )


async def read_returns(tables: ClickHouse, runs: Sequence[RunRows], *, latency_s: float = LATENCY_S) -> Returns:
    """Read what the market did after the cases of these runs: one entry a case, whichever run acts on it."""
    rows = [row for run in runs for row in run.rows]
    times, imports = await asyncio.gather(_read_times(tables, rows), standing_imports(tables))
    asked = asked_of(rows)
    if not asked or not imports:
        return Returns()
    renamed = [row for one in imports for row in one.maps]
    begin = min(entry_ms(times[case_id], latency_s) for case_id, _ in asked)
    last = max(entry_ms(times[key[0]], latency_s) + 2_000 * max(horizons) for key, horizons in asked.items())
    series = await stored_bars(
        tables,
        symbols=symbols_of(asked, times, renamed, latency_s) | {f"{BENCHMARK}/{quote}" for quote in DOLLARS},
        since_ms=begin - _BEFORE_MS,
        until_ms=last + _AFTER_MS,
        imports=imports,
    )
    found = returns_of(
        asked,
        times,
        Markets(series, renamed),
        now_ms=int(time.time() * 1000),
        latency_s=latency_s,
        entry_within_s={one.version: one.entry_within_s for one in imports},
    )
    return msgspec.structs.replace(found, invented=any(one.source.startswith(SYNTHETIC) for one in imports))


async def _read_times(tables: ClickHouse, rows: Sequence[ComparedCase]) -> dict[str, CaseTimes]:
    """Return the times of each case; its live signal says how late the entry is, and whether it was withdrawn."""
    found = {row.case_id: CaseTimes(knowable_ms=row.knowable_ms, emitted_ms=None, withdrawn_ms=None) for row in rows}
    judged, withdrawn = await asyncio.gather(tables.query(_TIMES), read_withdrawals(tables))
    for case_id, knowable_ms, emitted_ms in judged.rows:
        if case_id in found:
            known, told = withdrawn.get(case_id, (None, None))
            heard = known if emitted_ms is None else told
            found[case_id] = CaseTimes(knowable_ms=knowable_ms, emitted_ms=emitted_ms, withdrawn_ms=heard)
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
