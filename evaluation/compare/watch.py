"""Watching a run that grows: the paired differences of one metric, fixed beforehand, and what they say at any look.

The interval is a confidence sequence over blocks of time (:mod:`evaluation.statistics.sequence`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Literal

import msgspec
import numpy as np
import numpy.typing as npt

from evaluation.compare.inputs import read_returns, read_run_rows
from evaluation.compare.metrics import describe_sides
from evaluation.compare.pairing import Pair, pair_cases
from evaluation.compare.run_records import read_code_change
from evaluation.compare.run_rows import HORIZONS, Returns, RunRows
from evaluation.compare.terms import Better, Scoring, Terms, profit_of, terms_of_cases
from evaluation.declaration import StopWhen, Watch, parse_declaration
from evaluation.looks import look_at
from evaluation.statistics.blocks import DAY_S, MIN_BLOCKS, block_length_s, inflation_of
from evaluation.statistics.sequence import FIRST_BLOCK, LEVEL, Look, closed_means, look
from infra.clickhouse.client import ClickHouse
from schemas.errors import ConfigError
from schemas.ids import LIVE_RUN
from schemas.prices import PROFIT_CAP

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

OF_CASES = ("confidence", "action_rate")
"""Metrics of the case alone. Their daily differences may stay similar for weeks; those of a profit follow the market."""
PROFIT = "profit"


class Metric(msgspec.Struct, frozen=True, kw_only=True):
    """One metric as ``--metric`` names it. ``horizon_s`` in seconds, None for a metric of the case alone. ``cap``: that of
    :class:`Scoring`."""

    name: str
    horizon_s: int | None
    cap: float = PROFIT_CAP

    @property
    def label(self) -> str:
        """The metric as options name it: ``profit@24h``."""
        return self.name if self.horizon_s is None else f"{self.name}@{HORIZONS[self.horizon_s]}"

    @property
    def better(self) -> Better:
        """The better side."""
        return "higher" if self.name == PROFIT else "neither"

    @property
    def errors(self) -> float:
        """How many standard errors above the correlation that the days show is the strongest that they do not exclude. With two,
        differences that stay similar for weeks mislead a metric of the case in 20 % of nulls: the first days hardly show it."""
        return 2.0 if self.name == PROFIT else 4.5

    @property
    def block_s(self) -> int:
        """The length of a block in seconds."""
        return block_length_s(self.horizon_s or 0)


class Differences(msgspec.Struct, frozen=True, kw_only=True):
    """B minus A of each case that the metric measures, at both ends of what it can be, and when the case was received, Unix
    time. The ends differ where a case completed in one run only.

    Blocks from number ``open_from`` since 1970 UTC on are open. Of a profit, ``exposed`` are the cases in which the runs do not make
    the same trade, and ``shock`` is the largest move of the sample.
    """

    least: Floats
    most: Floats
    at_s: Floats
    open_from: int
    exposed: Bools | None = None
    shock: float = 0.0


def parse_metric(written: str, cap: float = PROFIT_CAP) -> Metric:
    """Return the metric that the option names; ``cap`` is that of a profit.

    Raises:
        ConfigError: there is none of this name that can be watched; the text lists what can.
    """
    name, at, horizon = written.strip().partition("@")
    if name in OF_CASES and not at:
        return Metric(name=name, horizon_s=None)
    if name == PROFIT and (horizon_s := {text: seconds for seconds, text in HORIZONS.items()}.get(horizon)):
        return Metric(name=name, horizon_s=horizon_s, cap=cap)
    own = " A signal's own horizon may be 30 days: ten blocks would then take 600 days." if written == PROFIT else ""
    profits = ", ".join(f"{PROFIT}@{text}" for text in HORIZONS.values())
    raise ConfigError(f"--metric {written!r}: write one of {profits}, {', '.join(OF_CASES)}.{own}")


def differences_of(
    a: RunRows, b: RunRows, returns: Returns, received: Mapping[str, datetime], metric: Metric
) -> Differences:
    """Return the differences of run B from run A. ``received``: when each case was received, UTC.

    Raises:
        ConfigError: no case worked in both runs.
    """
    _, pairs = pair_cases(a, b)
    terms = _terms(pairs, returns, metric)
    at_s = np.array([received[p.case_id].timestamp() for p in pairs])
    use = np.asarray((terms.counts > 0).all(axis=1), dtype=bool)
    unknown = np.asarray(terms.unknown.any(axis=1), dtype=bool)
    low, high = terms.low, terms.high  # every metric that can be watched is bounded
    return Differences(
        least=(low[:, 1] - high[:, 0])[use],
        most=(high[:, 1] - low[:, 0])[use],
        at_s=at_s[use],
        open_from=_open_from(pairs, (at_s // metric.block_s).astype(np.int64), use, unknown, metric),
        exposed=None if terms.exposed is None else terms.exposed[use],
        shock=terms.shock,
    )


def _terms(pairs: Sequence[Pair], returns: Returns, metric: Metric) -> Terms:
    if metric.horizon_s is not None:
        return profit_of(pairs, returns, Scoring(cap=metric.cap), metric.horizon_s)
    return next(terms for terms in terms_of_cases(pairs) if terms.name == metric.name)


def _open_from(pairs: Sequence[Pair], blocks: Ints, measured: Bools, unknown: Bools, metric: Metric) -> int:
    """Return the first open block: that of the newest case; for a profit, of the newest case that was acted on and has its price.

    Prices come later than cases. Until those of a block are there, its cases would be those that nobody acted on.
    """
    if metric.horizon_s is not None:
        acted = [
            any(signal.side for judged in (p.a, p.b) if judged is not None for signal in judged.signals) for p in pairs
        ]
        measured = measured & np.array(acted) & ~unknown
    return int(blocks[measured].max(initial=0))


WatchVerdict = Literal["too early", "untestable", "not yet distinguishable", "better", "worse", "higher", "lower"]


class WatchResult(msgspec.Struct, frozen=True, kw_only=True):
    """One look at a run, beside live. ``low`` to ``high`` holds at all looks together with probability ``level``.

    ``blocks`` closed blocks of ``block_days`` UTC days; ``first_block`` of them are needed for an interval, which is None
    before. ``delta_low`` to ``delta_high`` is the mean over blocks of the block's mean difference, candidate minus live: one
    figure where all its cases worked in both, else both ends of what it can be. ``decided_at``: after how many blocks an
    interval first excluded 0. ``cases`` counts the differences, those of open blocks included; ``left_out`` is always 0.
    ``inflation``: by how much the dependence of the blocks may multiply their variance. ``untestable``: independent days
    would have been enough by now. Of a profit, ``sides`` says in how many blocks the candidate was above live, and how bad
    the worst was; ``held``: it would be better, if one more block in which each changed trade lost the sample's largest move
    did not reverse it. ``stop``: the run's stop rule holds. ``code_change``: how the code that decided the run differs from
    live's, "" if it does not; no rule holds then, for a difference may be the code's.
    """

    run_id: str
    metric: str
    better: Better
    stop_when: StopWhen
    verdict: WatchVerdict
    delta_low: float | None
    delta_high: float | None
    low: float | None
    high: float | None
    level: float
    blocks: int
    first_block: int
    block_days: int
    decided_at: int | None
    cases: int
    left_out: int = 0
    inflation: float
    sides: str
    held: bool
    stop: bool
    code_change: str


def parse_watch(metric: str, stop_when: StopWhen) -> Watch:
    """Return the watch that the options describe.

    Raises:
        ConfigError: there is no such metric, or it has no better side to stop at.
    """
    chosen = parse_metric(metric)
    if stop_when in ("better", "worse") and chosen.better == "neither":
        raise ConfigError(
            f"--stop-when {stop_when}: {chosen.label} has no better direction: write --stop-when either, or another --metric"
        )
    return Watch(metric=chosen.label, stop_when=stop_when)


async def watch_of(tables: ClickHouse, run_id: str) -> Watch:
    """Return the watch of a run, from its row.

    Raises:
        ConfigError: the run does not exist, or was begun without a metric.
    """
    sql = "SELECT changes FROM runs FINAL WHERE run_id = {run:String}"
    rows = (await tables.query(sql, {"run": run_id})).rows
    if not rows:
        raise ConfigError(f"there is no run {run_id!r}: `newsproof backtest list` shows the runs")
    watch = parse_declaration(rows[0][0]).watch
    if watch is None:
        raise ConfigError(
            f"run {run_id} was started without a metric to watch, and a metric chosen after a look proves nothing: start a "
            "run with `newsproof shadow --metric`, or compare this one once, at its end"
        )
    return watch


async def look_at_run(tables: ClickHouse, run_id: str, watch: Watch, cap: float) -> WatchResult:
    """Compare the run so far with the live judgements of its cases. ``cap`` bounds a profit.

    Raises:
        ConfigError: no case worked in both yet.
    """
    metric = parse_metric(watch.metric, cap)
    runs, received, change = await asyncio.gather(
        read_run_rows(tables, LIVE_RUN, run_id),
        _received(tables, run_id),
        read_code_change(tables, LIVE_RUN, run_id, allow=True),
    )
    returns = Returns() if metric.horizon_s is None else await read_returns(tables, runs)
    differences = differences_of(*runs, returns, received, metric)
    await look_at(
        tables, (LIVE_RUN, run_id), {"watch": watch}, ""
    )  # its interval is valid at every look: they count as one
    return watch_result(run_id, watch, metric, differences, code_change="" if change is None else change.text)


def watch_result(
    run_id: str, watch: Watch, metric: Metric, differences: Differences, *, code_change: str = ""
) -> WatchResult:
    """Return the verdict on these differences."""
    least, blocks = differences.least, (differences.at_s // metric.block_s).astype(np.int64)
    inflation, independent = _inflations(differences, blocks, metric)
    seen = look(least, differences.most, blocks, differences.open_from, inflation=inflation)
    verdict, sides, held = _verdict(seen, metric.better), "", False
    if seen.low is None and seen.blocks >= max(FIRST_BLOCK, MIN_BLOCKS * independent):
        verdict = "untestable"
    if differences.exposed is not None and seen.blocks:
        changed = closed_means(differences.exposed.astype(np.float64), blocks, differences.open_from)
        sides = describe_sides(closed_means(least, blocks, differences.open_from) / seen.blocks)
        held = verdict == "better" and (seen.delta_low or 0.0) < float(changed.max()) * differences.shock / seen.blocks
        verdict = "not yet distinguishable" if held else verdict
    return WatchResult(
        run_id=run_id,
        metric=metric.label,
        better=metric.better,
        stop_when=watch.stop_when,
        verdict=verdict,
        delta_low=seen.delta_low,
        delta_high=seen.delta_high,
        low=seen.low,
        high=seen.high,
        level=LEVEL,
        blocks=seen.blocks,
        first_block=FIRST_BLOCK,
        block_days=metric.block_s // DAY_S,
        decided_at=seen.decided_at,
        cases=blocks.size,
        inflation=float(inflation[-1]) if inflation.size else 1.0,
        sides=sides,
        held=held,
        stop=not code_change and _stops(verdict, watch.stop_when),
        code_change=code_change,
    )


def _inflations(differences: Differences, blocks: Ints, metric: Metric) -> tuple[Floats, float]:
    """Return the factor of the variance as each block closed, so that what was said at a look stays, and that of independent days."""
    at_s, closed = differences.at_s, blocks < differences.open_from
    values = (differences.least + differences.most) / 2.0
    each = [
        inflation_of(at_s[known], values[known], metric.block_s, metric.errors) if n >= FIRST_BLOCK else 1.0
        for n, last in enumerate(np.unique(blocks[closed]), 1)
        for known in (blocks <= last,)
    ]
    independent = inflation_of(at_s[closed], 0.0 * values[closed], metric.block_s, metric.errors) if each else 1.0
    return np.array(each), independent


def describe_watch(seen: WatchResult) -> str:
    """Return the verdict as a sentence, with figures."""
    block, unit = ("day", "days") if seen.block_days == 1 else ("block", f"blocks of {seen.block_days} days")
    if seen.low is None or seen.high is None:
        if seen.blocks < seen.first_block:
            return f"too early: {seen.blocks} of {seen.first_block} {unit}"
        worth = f"and count as only {seen.blocks / seen.inflation:.1f} independent ones; {MIN_BLOCKS} are needed"
        if seen.verdict == "untestable":
            what = f"untestable: {seen.blocks} {unit} depend on each other too strongly {worth}"
            return f"{what}; watch a profit in another run, or wait for many more days"
        return f"{seen.verdict}: {seen.blocks} {unit} may depend on each other {worth}"
    figures = (
        f"{describe_delta(seen)} a case, {100 * seen.level:g} % interval {seen.low:+.4g} … {seen.high:+.4g} at any look"
    )
    since = "" if seen.decided_at is None or seen.held else f" since {block} {seen.decided_at}"
    held = "; not called better: one bad block would reverse it" if seen.held else ""
    return f"{seen.verdict}{since}: {figures}, {seen.blocks} {unit}{held}"


def describe_delta(seen: WatchResult) -> str:
    """Return the difference, or both ends of what it can be."""
    if seen.delta_low is None or seen.delta_high is None:
        return "–"
    if seen.delta_low == seen.delta_high:
        return f"{seen.delta_low:+.4g}"
    return f"{seen.delta_low:+.4g} to {seen.delta_high:+.4g}"


def _verdict(seen: Look, better: Better) -> WatchVerdict:
    if seen.low is None:
        return "too early"
    if seen.decided_at is None:
        return "not yet distinguishable"
    side: Literal["higher", "lower"] = "higher" if seen.direction > 0 else "lower"
    if better == "neither":
        return side
    return "better" if side == better else "worse"


def _stops(verdict: WatchVerdict, rule: StopWhen) -> bool:
    decided = verdict not in ("too early", "untestable", "not yet distinguishable")
    return decided and rule in ("either", verdict)


async def _received(tables: ClickHouse, run_id: str) -> dict[str, datetime]:
    sql = "SELECT case_id, min(received_at) FROM run_cases WHERE run_id = {run:String} GROUP BY case_id"
    rows = (await tables.query(sql, {"run": run_id})).rows
    return {case_id: at if at.tzinfo else at.replace(tzinfo=UTC) for case_id, at in rows}
