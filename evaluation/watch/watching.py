"""What the watched metric of a run says so far, and whether the run's stop rule holds."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Literal

import msgspec

from evaluation.backtest.run.code_check import read_code_change
from evaluation.backtest.run.growing import watch_in
from evaluation.backtest.run.plan import StopWhen, Watch
from evaluation.compare.reading import read_returns, read_runs
from evaluation.compare.rows import LIVE, Returns
from evaluation.compare.terms import Better
from evaluation.statistics.blocks import DAY_S
from evaluation.statistics.sequence import FIRST_BLOCK, LEVEL, Look, look
from evaluation.watch.differences import Differences, Metric, differences_of, parse_metric
from infra.clickhouse.client import ClickHouse
from schemas.errors import ConfigError

Said = Literal["too early", "not yet distinguishable", "better", "worse", "higher", "lower"]


class Watched(msgspec.Struct, frozen=True, kw_only=True):
    """One look at a run, beside live. ``low`` to ``high`` holds at all looks together with probability ``level``.

    ``blocks`` closed blocks of ``block_days`` UTC days; ``first_block`` of them are needed for an interval, which is None
    before. ``delta_low`` to ``delta_high`` is the mean over blocks of the block's mean difference, candidate minus live: one
    figure where all its cases worked in both, else both ends of what it can be. ``decided_at``: after how many blocks an
    interval first excluded 0. ``cases`` counts the differences, those of open blocks included, ``left_out``
    later tellings of a story that began in an earlier block. ``stop``: the run's stop rule holds. ``code_change``: how the
    code that decided the run differs from live's, "" if it does not; no rule holds then, for a difference may be the code's.
    """

    run_id: str
    metric: str
    better: Better
    stop_when: StopWhen
    verdict: Said
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
    left_out: int
    stop: bool
    code_change: str


def checked_watch(metric: str, stop_when: StopWhen) -> Watch:
    """Return what to watch.

    Raises:
        ConfigError: there is no such metric, or it has no better side to stop at.
    """
    chosen = parse_metric(metric)
    if stop_when in ("better", "worse") and chosen.better == "neither":
        raise ConfigError(
            f"--stop-when {stop_when}: {chosen.label} has no better side: write --stop-when either, or another --metric"
        )
    return Watch(metric=chosen.label, stop_when=stop_when)


async def watch_of(tables: ClickHouse, run_id: str) -> Watch:
    """Return what the run is watched by, from its row.

    Raises:
        ConfigError: the run does not exist, or was begun without a metric.
    """
    sql = "SELECT changes FROM runs FINAL WHERE run_id = {run:String}"
    rows = (await tables.query(sql, {"run": run_id})).rows
    if not rows:
        raise ConfigError(f"there is no run {run_id!r}: `newsproof backtest list` shows those that there are")
    found = watch_in(rows[0][0])
    if found is None:
        raise ConfigError(
            f"run {run_id} was begun without a metric to watch, and one that is chosen after a look proves nothing: begin a "
            "run with `newsproof shadow --metric`, or compare this one once, at its end"
        )
    return found


async def watched(tables: ClickHouse, run_id: str, watch: Watch, cap: float) -> Watched:
    """Look at the run, beside the live judgements of its cases. ``cap``: that of a profit.

    Raises:
        ConfigError: no case worked in both yet.
    """
    metric = parse_metric(watch.metric, cap)
    runs, received, change = await asyncio.gather(
        read_runs(tables, LIVE, run_id), _received(tables, run_id), read_code_change(tables, LIVE, run_id, allow=True)
    )
    returns = Returns() if metric.horizon_s is None else await read_returns(tables, runs)
    differences = differences_of(*runs, returns, received, metric)
    return told(run_id, watch, metric, differences, code_change="" if change is None else change.text)


def told(run_id: str, watch: Watch, metric: Metric, differences: Differences, *, code_change: str = "") -> Watched:
    """Return what the differences say."""
    seen = look(differences.least, differences.most, differences.blocks, differences.open_from)
    verdict = _verdict(seen, metric.better)
    return Watched(
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
        cases=differences.blocks.size,
        left_out=differences.left_out,
        stop=not code_change and _stops(verdict, watch.stop_when),
        code_change=code_change,
    )


def in_words(seen: Watched) -> str:
    """Return the verdict as a sentence, with figures."""
    one, unit = ("day", "days") if seen.block_days == 1 else ("block", f"blocks of {seen.block_days} days")
    if seen.low is None or seen.high is None:
        return f"too early: {seen.blocks} of {seen.first_block} {unit}"
    figures = (
        f"{delta_in_words(seen)} a case, {100 * seen.level:g} % interval {seen.low:+.4g} … {seen.high:+.4g} at any look"
    )
    since = "" if seen.decided_at is None else f" since {one} {seen.decided_at}"
    return f"{seen.verdict}{since}: {figures}, {seen.blocks} {unit}"


def delta_in_words(seen: Watched) -> str:
    """Return the difference, or both ends of what it can be."""
    if seen.delta_low is None or seen.delta_high is None:
        return "–"
    if seen.delta_low == seen.delta_high:
        return f"{seen.delta_low:+.4g}"
    return f"{seen.delta_low:+.4g} to {seen.delta_high:+.4g}"


def _verdict(seen: Look, better: Better) -> Said:
    if seen.low is None:
        return "too early"
    if seen.decided_at is None:
        return "not yet distinguishable"
    side: Literal["higher", "lower"] = "higher" if seen.direction > 0 else "lower"
    if better == "neither":
        return side
    return "better" if side == better else "worse"


def _stops(verdict: Said, rule: StopWhen) -> bool:
    decided = verdict not in ("too early", "not yet distinguishable")
    return decided and rule in ("either", verdict)


async def _received(tables: ClickHouse, run_id: str) -> dict[str, datetime]:
    sql = "SELECT case_id, min(received_at) FROM run_cases WHERE run_id = {run:String} GROUP BY case_id"
    found = (await tables.query(sql, {"run": run_id})).rows
    return {case_id: at if at.tzinfo else at.replace(tzinfo=UTC) for case_id, at in found}
