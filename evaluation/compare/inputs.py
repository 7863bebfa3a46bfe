"""Reads what a comparison compares: the rows of both runs, the returns after their cases, and a few texts.

Returns have one entry per case, whichever run acts on it. They are computed by pure functions from rows, times, retractions and
price series; the other functions here read those from ClickHouse.
"""

from __future__ import annotations

import asyncio
import difflib
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np
from msgspec.structs import replace

from agents.signal import HORIZON_S
from evaluation.compare.comparison import Comparison
from evaluation.compare.run_rows import (
    HORIZONS,
    HOW_NOT_WHAT,
    CaseText,
    ComparedCase,
    ReturnKey,
    Returns,
    RunRows,
    Texts,
    Unadjusted,
    visible,
)
from evaluation.declaration import parse_declaration
from evaluation.prices.run_signals import cases_of, read_withdrawals
from evaluation.prices.study import BENCHMARK, BETA_DAYS, benchmark_return, betas_before, hourly, is_benchmark
from evaluation.prices.trades import LATENCY_S, Order, TradeRules, bars_of
from evaluation.replay.cutoffs import cutoff_of
from evaluation.replay.journal import FileSource, recordings
from evaluation.replay.log_file import read_log_file
from infra.clickhouse.client import ClickHouse
from infra.market.outcomes.bar_files import SYNTHETIC
from infra.market.outcomes.bars import standing_imports, stored_bars
from infra.market.outcomes.markets import DOLLARS, ENTRY_WITHIN_S, Markets, wanted_symbols
from infra.market.outcomes.returns import Within, exit_within_s, is_stable
from newsproof.report.run_name import run_name
from schemas.errors import ConfigError
from schemas.ids import LIVE_RUN
from schemas.prices import JudgedCase, PriceSeries, Renaming


class CaseTimes(msgspec.Struct, frozen=True, kw_only=True):
    """The times of one case, Unix milliseconds. ``emitted_ms``: of its live signal if the news was live, else None.

    ``withdrawn_ms``: from when on one could know that the live signal was retracted or superseded (for live news not before bots
    were told); None: never.
    """

    knowable_ms: int
    emitted_ms: int | None
    withdrawn_ms: int | None

    @property
    def signal_ms(self) -> int:
        """When a trader has the signal."""
        return max(self.knowable_ms, self.emitted_ms or 0)


def entry_ms(times: CaseTimes, latency_s: float = LATENCY_S) -> int:
    """Return the time at which a case is entered: ``latency_s`` after its signal."""
    return times.signal_ms + round(latency_s * 1000)


def horizons_of(rows: Iterable[ComparedCase]) -> dict[tuple[str, str], set[int]]:
    """Return by case and asset the horizons that a comparison needs: each signal's own, all that another one may have, and
    :data:`HORIZONS`."""
    horizons: dict[tuple[str, str], set[int]] = {}
    for row in rows:
        if row.has_signal and row.asset:
            horizons.setdefault((row.case_id, row.asset), {*HORIZONS, *HORIZON_S.values()}).add(row.horizon_s)
    return horizons


def symbols_of(
    asked: Iterable[tuple[str, str]], times: Mapping[str, CaseTimes], renamed: Iterable[Renaming], latency_s: float
) -> set[str]:
    """Return the markets that may measure these cases and assets."""
    rows = tuple(renamed)
    return {symbol for key in asked for symbol in wanted_symbols(_case(*key, times, latency_s), rows)}


def returns_of(
    asked: Mapping[tuple[str, str], Iterable[int]],
    times: Mapping[str, CaseTimes],
    markets: Markets,
    *,
    now_ms: int,
    latency_s: float = LATENCY_S,
    entry_within_s: Within = ENTRY_WITHIN_S,
) -> Returns:
    """Return the returns after each case and asset at each horizon, from the case's entry on.

    Entry and exit are those of :func:`bars_of`. A horizon that is not over yet has no return, also of a withdrawn signal: only
    those would be counted.
    """
    rules = TradeRules(latency_s=latency_s)
    held: dict[ReturnKey, float] = {}
    moved: dict[ReturnKey, float] = {}
    spans: dict[ReturnKey, Span] = {}
    cases: list[JudgedCase] = []
    untraded = set()
    for (case_id, asset), horizons in asked.items():
        case, withdrawn_ms = _case(case_id, asset, times, latency_s), times[case_id].withdrawn_ms
        begin = case.knowable_at_ms
        if not wanted_symbols(case, ()):
            untraded.add((case_id, asset))
            continue
        cases.append(case)
        series = markets.of(case)
        if withdrawn_ms is not None and withdrawn_ms <= begin:
            untraded.add((case_id, asset))
            continue
        if series is None:
            continue
        for horizon_s in horizons:
            order = Order(
                case_id=case_id, asset=asset, side=1, confidence=1.0, horizon_s=horizon_s,
                emitted_at_ms=times[case_id].signal_ms, withdrawn_at_ms=withdrawn_ms,
            )  # fmt: skip
            bars, key = bars_of(order, series, rules, now_ms, entry_within_s), (case_id, asset, horizon_s)
            if bars == "withdrawn_before":
                untraded.add((case_id, asset))
            elif not isinstance(bars, str):
                first, last, left_at, why = bars
                begin_ms, end_ms = series.times_ms[first], series.times_ms[last]
                if why == "horizon" and end_ms - begin_ms > (horizon_s + exit_within_s(horizon_s)) * 1000:
                    continue  # too late to be the price at this horizon
                held[key] = float(left_at) / series.opens[first] - 1.0
                spans[key] = begin_ms, end_ms
                if why == "horizon" and not is_stable(asset, series):
                    moved[key] = held[key]
    adjusted, unadjusted = adjusted_of(held, spans, cases, markets)
    return Returns(held=held, moved=moved, untraded=frozenset(untraded), adjusted=adjusted, unadjusted=unadjusted)


def _case(case_id: str, asset: str, times: Mapping[str, CaseTimes], latency_s: float) -> JudgedCase:
    at = entry_ms(times[case_id], latency_s)
    return JudgedCase(case_id=case_id, asset=asset, symbol="", venue="", knowable_at_ms=at)


Span = tuple[int, int]
"""Begin and end of a return: the opening times of its bars, milliseconds since 1970."""


def adjusted_of(
    held: Mapping[ReturnKey, float], spans: Mapping[ReturnKey, Span], cases: Iterable[JudgedCase], markets: Markets
) -> tuple[dict[ReturnKey, float], dict[tuple[str, str], Unadjusted]]:
    """Return the adjusted return of everything that was held, and why a case's asset has none.

    A case's asset has all of its returns adjusted or none, so that leaving it out does not depend on what a run made of it.
    """
    of_case: dict[tuple[str, str], list[ReturnKey]] = {}
    for key in held:
        of_case.setdefault(key[:2], []).append(key)
    groups: dict[tuple[int, int], tuple[PriceSeries, PriceSeries, list[ReturnKey]]] = {}
    left_out: dict[tuple[str, str], Unadjusted] = {}
    for case in cases:
        name = (case.case_id, case.asset)
        if not (keys := of_case.get(name)):
            continue
        series, benchmark = markets.of(case), markets.of(replace(case, asset=BENCHMARK))
        if series is not None and is_benchmark(series):
            left_out[name] = "is_benchmark"
        elif series is None or benchmark is None:
            left_out[name] = "no_beta"
        else:
            groups.setdefault((id(series), id(benchmark)), (series, benchmark, []))[2].extend(keys)
    adjusted: dict[ReturnKey, float] = {}
    for series, benchmark, keys in groups.values():
        begins, ends = np.array([spans[key] for key in keys], dtype=np.int64).T
        betas = betas_before(hourly(series, benchmark), begins)
        for key, less in zip(keys, (betas * benchmark_return(benchmark, begins, ends)).tolist(), strict=True):
            adjusted[key] = held[key] - less
            if less != less:  # noqa: PLR0124 - not a number
                left_out[key[:2]] = "no_beta"
    return {key: change for key, change in adjusted.items() if key[:2] not in left_out}, left_out


# Matches canonical JSON: a string, null or a flat list after the field's name. Inside a text the quotes are escaped.
HOW = rf'"({"|".join(HOW_NOT_WHAT)})":("[^"]*"|null|\\[[^]]*\\])'
_COMPUTED = {
    "look_ahead": "look_ahead_evidence + look_ahead_memory + look_ahead_prices",
    "signal_hash": f"if(signal = '', 0, cityHash64(replaceRegexpAll(signal, '{HOW}', '')))",
    "notes_hash": "if(notes = '', 0, cityHash64(notes))",
    "knowable_ms": "toUnixTimestamp64Milli(knowable_at)",
}
_COLUMNS = ", ".join(
    f"{_COMPUTED[name]} AS {name}" if name in _COMPUTED else name for name in ComparedCase.__struct_fields__[:-1]
)
_LATENCIES = """
SELECT case_id, request_hash, avg(latency_ms) FROM v_calls WHERE run_id = 'live' AND latency_ms IS NOT NULL
GROUP BY case_id, request_hash
"""
_REUSED = """
SELECT case_id, request_hash, count() FROM v_calls WHERE run_id = {run:String} AND execution = 'reused'
GROUP BY case_id, request_hash
"""
_TIMES = """
SELECT case_id, toUnixTimestamp64Milli(knowable_at), if(live, toUnixTimestamp64Milli(emitted_at), NULL)
FROM v_judgements WHERE run_id = 'live'
"""
_BEFORE_MS = (BETA_DAYS + 1) * 86_400_000
"""Time before the first entry whose bars are read, for betas and for the usual distance between bars."""
_AFTER_MS = 7 * 86_400_000
# What came to be known of a case's claim: labels, else its retraction, else what official pages say that were published after
# the case and that the live judgement of another case of its story quotes. What is told both ways settles nothing.
_TRUTHS = """
SELECT case_id, argMin(told, place) FROM
(
    SELECT case_id, toUInt8(truth = 'true') AS told, 1 AS place FROM v_labelled_cases WHERE truth IN ('true', 'false')
    UNION ALL
    SELECT case_id, toUInt8(0), 2 FROM v_withdrawals WHERE run_id = 'live' AND withdrawn_as = 'retracted'
    UNION ALL
    SELECT k.case_id AS case_id, toUInt8(any(o.stance) = 'supports'), 3
    FROM (SELECT case_id, argMax(story_id, version) AS story, min(knowable_at) AS at FROM run_cases GROUP BY case_id) AS k
    INNER JOIN (SELECT case_id, argMax(story_id, version) AS story FROM run_cases GROUP BY case_id) AS l ON l.story = k.story
    INNER JOIN
    (
        SELECT case_id, e.stance AS stance, e.published_at AS at
        FROM (SELECT case_id, evidence FROM v_judgements WHERE run_id = 'live') ARRAY JOIN evidence AS e
        WHERE e.official AND e.stance IN ('supports', 'denies')
    ) AS o ON o.case_id = l.case_id
    WHERE k.story != '' AND o.at > k.at AND o.case_id != k.case_id
    GROUP BY k.case_id HAVING uniqExact(o.stance) = 1
)
GROUP BY case_id
"""
TITLE_LENGTH = 80
"""Maximum length of a case's title, in characters of its news."""
_TITLES = """
SELECT case_id, substringUTF8(replaceRegexpAll(any(text), '\\s+', ' '), 1, {length:UInt32}) FROM news FINAL
WHERE case_id IN {cases:Array(String)} GROUP BY case_id
"""
_MODELS = """
SELECT step, run_id, arraySort(groupUniqArray(concat(provider_name, ':', request_model))),
       groupUniqArrayIf(request_model, provider_mode = 'live') FROM llm_calls
WHERE run_id IN ({{a:String}}, {{b:String}}) AND accepted AND error_type = '' AND execution != 'miss'
  AND case_id IN ({in_a}) AND case_id IN ({in_b})
GROUP BY step, run_id ORDER BY step, run_id
"""
_TEXT_FIELDS = (
    *("event_type", "asset", "action", "direction", "verdict", "horizon_s", "preliminary_confidence", "confidence"),
)


async def read_run_rows(tables: ClickHouse, a: str, b: str) -> tuple[RunRows, RunRows]:
    """Read both runs.

    Raises:
        ConfigError: a run does not exist or has no cases yet; the text names the existing runs.
    """
    first, second = await asyncio.gather(_read_run(tables, a, b), _read_run(tables, b, a))
    for run in (first, second):
        if not run.cases:
            raise ConfigError(await _unknown(tables, run))
    return first, second


async def read_truths(tables: ClickHouse) -> dict[str, float]:
    """Return the cases whose claims turned out true (1.0) or false (0.0): by labels, else by a retraction, else officially."""
    return {case_id: float(truth) for case_id, truth in (await tables.query(_TRUTHS)).rows}


async def read_texts(tables: ClickHouse, a: str, b: str, comparison: Comparison) -> Texts:
    """Read the signals and notes of the largest differences, for the repeats that the comparison shows."""
    cases = [change.case_id for change in comparison.differences]
    if not cases:
        return {}
    sql = (
        f"SELECT run_id, case_id, repeat, signal, notes, {', '.join(_TEXT_FIELDS)} FROM v_run_cases "
        "WHERE run_id IN {runs:Array(String)} AND case_id IN {cases:Array(String)} AND has_signal"
    )
    rows = (await tables.query(sql, {"runs": [a, b], "cases": cases})).rows
    return {
        (run_id, case_id, repeat): CaseText(
            signal=signal, notes=notes, fields={name: str(v) for name, v in zip(_TEXT_FIELDS, fields, strict=True)}
        )
        for run_id, case_id, repeat, signal, notes, *fields in rows
    }


async def read_titles(tables: ClickHouse, comparison: Comparison) -> dict[str, str]:
    """Return the beginning of the news, on one line, of each case that a comparison names; cases whose text is not kept are absent."""
    named = {change.case_id for change in (*comparison.flips, *comparison.verdict_flips, *comparison.differences)}
    if not named:
        return {}
    titles = await tables.query(_TITLES, {"cases": list(named), "length": TITLE_LENGTH})
    return {case_id: title for case_id, title in titles.rows if title}


async def other_models(tables: ClickHouse, a: str, b: str) -> list[str]:
    """Return sentences on the steps that different models answered in run A and in run B, and on models without a known cutoff."""
    sql = _MODELS.format(in_a=_case_ids(a, "a"), in_b=_case_ids(b, "b"))
    by: dict[str, dict[str, Sequence[str]]] = {}
    live_models: dict[str, set[str]] = {}
    for step, run_id, models, live in (await tables.query(sql, {"a": a, "b": b})).rows:
        by.setdefault(step, {})[run_id] = models
        live_models.setdefault(run_id, set()).update(live)
    other = [
        f"{step} by {', '.join(of[a])} in {a} and by {', '.join(of[b])} in {b}"
        for step, of in by.items()
        if a in of and b in of and of[a] != of[b]
    ]
    warnings = [f"other models judged: {'; '.join(other)}; a difference may be due to the model"] if other else []
    for run, live in live_models.items():
        if unknown := sorted(name for name in live if cutoff_of(name) is None):
            warnings.append(
                f"run {run}: the training cutoff of {', '.join(unknown)} is unknown; it may know the outcome of any case"
            )
    return [visible(warning) for warning in warnings]


def _case_ids(run: str, parameter: str) -> str:
    """Return the query for the ids of a run's cases. The run is in the query's parameter of this name."""
    return f"SELECT case_id FROM {cases_of(run)} WHERE run_id = {{{parameter}:String}}"


async def _read_run(tables: ClickHouse, run: str, other: str) -> RunRows:
    rows_of = f"SELECT {_COLUMNS} FROM {cases_of(run)} WHERE run_id = {{run:String}} AND case_id IN ({_case_ids(other, 'other')})"
    counted = f"SELECT uniqExact(case_id) FROM ({_case_ids(run, 'run')})"
    described = "SELECT status, changes FROM runs FINAL WHERE run_id = {run:String}"
    rows, count, about, name = await asyncio.gather(
        tables.query(rows_of, {"run": run, "other": other}),
        tables.query(counted, {"run": run}),
        tables.query(described, {"run": run}),
        run_name(tables, run),
    )
    status, changes = about.rows[0] if about.rows and run != LIVE_RUN else ("", "")
    recorded = await _recorded_ms(tables, run, parse_declaration(changes).log)
    every = [ComparedCase(*row) for row in rows.rows]
    reused = Counter[str]()
    for row in every:
        reused[row.case_id] += row.reused
    return RunRows(
        run_id=run,
        cases=int(count.rows[0][0]),
        rows=[replace(row, delay_ms=_delay_ms(row, recorded.get(row.case_id), reused[row.case_id])) for row in every],
        status=status,
        changes=changes,
        name=name,
    )


async def _recorded_ms(tables: ClickHouse, run: str, log: str) -> dict[str, float | None]:
    """Return by case the recorded latency of the calls that a run reused, over all repeats; None: not known of one of them."""
    reused, live = await asyncio.gather(tables.query(_REUSED, {"run": run}), tables.query(_LATENCIES))
    known = {(case_id, wanted): ms for case_id, wanted, ms in live.rows}
    path = None if log in ("", "sample") else Path(log)
    if any((case_id, wanted) not in known for case_id, wanted, _ in reused.rows) and (path is None or path.is_file()):
        # A run of a log file replays calls that this installation never made.
        async for recording in recordings(FileSource(read_log_file(path)), lambda _id: True):
            for call in (call for record in recording.records for call in record.event.calls):
                known.setdefault((recording.case_id, call.request_hash), call.latency_ms)
    by_case: dict[str, float | None] = {}
    for case_id, wanted, many in reused.rows:
        before, ms = by_case.get(case_id, 0.0), known.get((case_id, wanted))
        by_case[case_id] = None if before is None or ms is None else before + many * ms
    return by_case


def _delay_ms(row: ComparedCase, recorded_ms: float | None, reused: int) -> float | None:
    executed_ms = row.latency_ms if row.executed else 0.0
    if not row.reused or executed_ms is None:
        return executed_ms
    return None if recorded_ms is None else executed_ms + recorded_ms * row.reused / reused


def _delays(run: RunRows) -> dict[str, float]:
    of_case: dict[str, list[float | None]] = {}
    for row in run.rows:
        if row.status == "replayed":
            of_case.setdefault(row.case_id, []).append(row.delay_ms)
    known = {case_id: [ms for ms in every if ms is not None] for case_id, every in of_case.items()}
    return {case_id: sum(ms) / len(ms) for case_id, ms in known.items() if len(ms) == len(of_case[case_id])}


def own_times(times: Mapping[str, CaseTimes], runs: Sequence[RunRows]) -> list[dict[str, CaseTimes]]:
    """Return for each run the times of its own signals: its delay after the news was knowable.

    Where a run's delay is not known, all have their signal at one time.
    """
    delays = [_delays(run) for run in runs]
    known = set.intersection(*map(set, delays))
    return [
        {
            case_id: replace(at, emitted_ms=at.knowable_ms + round(of_run[case_id])) if case_id in known else at
            for case_id, at in times.items()
        }
        for of_run in delays
    ]


async def read_returns(
    tables: ClickHouse, runs: Sequence[RunRows], *, latency_s: float = LATENCY_S, delayed_s: int = 0
) -> Returns:
    """Read the returns after the cases of these runs: one entry per case, whichever run acts on it.

    ``delayed_s``: read :attr:`Returns.own`, too, over so many seconds; 0: do not.
    """
    rows = [row for run in runs for row in run.rows]
    times, imports = await asyncio.gather(_read_times(tables, rows), standing_imports(tables))
    asked = horizons_of(rows)
    if not asked or not imports:
        return Returns()
    renamed = [row for prices in imports for row in prices.maps]
    begin = min(entry_ms(times[case_id], latency_s) for case_id, _ in asked)
    last = max(entry_ms(times[key[0]], latency_s) + 2_000 * max(horizons) for key, horizons in asked.items())
    series = await stored_bars(
        tables,
        symbols=symbols_of(asked, times, renamed, latency_s) | {f"{BENCHMARK}/{quote}" for quote in DOLLARS},
        since_ms=begin - _BEFORE_MS,
        until_ms=last + _AFTER_MS,
        imports=imports,
    )
    markets, now_ms = Markets(series, renamed), int(time.time() * 1000)
    within = {prices.version: prices.entry_within_s for prices in imports}
    returns = returns_of(asked, times, markets, now_ms=now_ms, latency_s=latency_s, entry_within_s=within)
    if delayed_s:
        once = dict.fromkeys(asked, (delayed_s,))
        returns = replace(
            returns,
            own=tuple(
                returns_of(once, own, markets, now_ms=now_ms, latency_s=latency_s, entry_within_s=within)
                for own in own_times(times, runs)
            ),
        )
    return replace(returns, invented=any(prices.source.startswith(SYNTHETIC) for prices in imports))


async def _read_times(tables: ClickHouse, rows: Sequence[ComparedCase]) -> dict[str, CaseTimes]:
    """Return the times of each case; its live signal says how late the entry is, and whether it was withdrawn."""
    times = {row.case_id: CaseTimes(knowable_ms=row.knowable_ms, emitted_ms=None, withdrawn_ms=None) for row in rows}
    judged, withdrawn = await asyncio.gather(tables.query(_TIMES), read_withdrawals(tables))
    for case_id, knowable_ms, emitted_ms in judged.rows:
        if case_id in times:
            known, told_ms = withdrawn.get(case_id, (None, None))
            heard = known if emitted_ms is None else told_ms
            times[case_id] = CaseTimes(knowable_ms=knowable_ms, emitted_ms=emitted_ms, withdrawn_ms=heard)
    return times


async def _unknown(tables: ClickHouse, run: RunRows) -> str:
    if run.run_id == LIVE_RUN:
        return "ClickHouse has no live judgements yet: publish news and wait for the sink to catch up"
    if run.status:
        return f"run {run.run_id} has no cases in ClickHouse yet (it is {run.status}): wait for it or run it again"
    known = [str(row[0]) for row in (await tables.query("SELECT DISTINCT run_id FROM run_cases ORDER BY run_id")).rows]
    return f"there is no run {run.run_id!r}: {_hint(run.run_id, known)}"


def _hint(asked: str, known: Sequence[str]) -> str:
    if not known:
        return "there are no runs yet (newsproof backtest run)"
    near = difflib.get_close_matches(asked, known, n=3)
    some = near or [*known[-5:], LIVE_RUN]
    return f"did you mean {', '.join(some)}? (newsproof backtest list)" if near else f"existing runs: {', '.join(some)}"
