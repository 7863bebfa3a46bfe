"""``newsproof backtest leaderboard`` and ``walk-forward``."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from newsproof.app.data_access import database
from newsproof.app.invocation import Invocation, json_line, say_result, table
from newsproof.evaluation.compare.terms import Scoring
from newsproof.evaluation.trials.leaderboard import Leaderboard, Ranked
from newsproof.evaluation.trials.reading import read_leaderboard, read_walk_forward
from newsproof.evaluation.trials.walk_forward import WalkForward
from newsproof.evaluation.watch.differences import Metric


async def show_leaderboard(
    invocation: Invocation, trial: str, *, against: str, how: Scoring, as_json: bool, **keywords: Any
) -> None:
    """Print the leaderboard of a trial. Raises as :func:`read_leaderboard`."""
    async with database(invocation, admin=True) as tables:
        found = await read_leaderboard(tables, trial, against=against, how=how, **keywords)
    if as_json:
        json_line(found)
    else:
        _print_leaderboard(found)


async def show_walk_forward(
    invocation: Invocation, trial: str, *, against: str, metric: Metric, as_json: bool, **keywords: Any
) -> None:
    """Print the walk-forward choice of a trial. Raises as :func:`read_walk_forward`."""
    async with database(invocation, admin=True) as tables:
        found = await read_walk_forward(tables, trial, against=against, metric=metric, **keywords)
    if as_json:
        json_line(found)
    else:
        _print_walk_forward(found, against, metric)


def _print_leaderboard(found: Leaderboard) -> None:
    for warning in found.warnings:
        say_result(f"! {warning}")
    rows = [
        (one.run_id, one.change, _delta(one), _interval(one.low, one.high), "–" if one.p_holm is None else f"{one.p_holm:.3f}",
         "–" if one.cost_usd is None else f"{one.cost_usd:.6f}", _yes(one.pareto), f"{one.cases:,}",
         one.verdict + (f"; {one.note}" if one.note else ""))
        for one in found.candidates
    ]  # fmt: skip
    cost = "–" if found.cost_usd is None else f"{found.cost_usd:.6f}"
    rows.append((found.against, "the baseline", "", "", "", cost, _yes(found.pareto), "", ""))
    table(
        ("run", "change", found.metric, "95 % interval", "p (Holm)", "USD a case", "on the front", "cases", "verdict"),
        rows,
        title=f"Trial {found.trial}: {found.metric} beside {found.against}, {found.better} is better",
        right=(found.metric, "95 % interval", "p (Holm)", "USD a case", "cases"),
    )
    say_result("On the front: nothing here is better and not dearer, or cheaper and not worse.")


def _print_walk_forward(found: WalkForward, against: str, metric: Metric) -> None:
    days = [(f"{datetime.fromtimestamp(c.block * metric.block_s, UTC):%Y-%m-%d}", c.candidate, c.cases, f"{c.delta:+.4g}") for c in found.choices]  # fmt: skip
    table(
        ("block from (UTC)", "chosen by the past", "cases", metric.label),
        days,
        title=f"{metric.label} beside {against}",
        right=("cases", metric.label),
    )
    least, most = found.out_of_sample, found.at_most
    came, p = f"{least.estimate:+.4g}", f"not tested: {least.blocks} blocks are too few"
    if least.pvalue is not None and most.pvalue is not None:
        p = f"p {max(least.pvalue, most.pvalue) if least.estimate * most.estimate > 0 else 1.0:.3f}"
    if found.unknown:
        came += f" to {most.estimate:+.4g} ({found.unknown:,} of the cases are not known in both runs: taken both ways)"
    say_result(f"Chosen by the past: {came} a case, 95 % interval {_interval(least.low, most.high)}, {p}.")
    say_result(f"Chosen afterwards ({found.best}): {found.in_sample:+.4g} a case over the same cases, which flatters.")


def _yes(known: bool | None) -> str:
    return "–" if known is None else "yes" if known else "no"


def _delta(one: Ranked) -> str:
    if one.delta_low is None or one.delta_high is None:
        return "–"
    if one.delta_low == one.delta_high:
        return f"{one.delta_low:+.4g}"
    return f"{one.delta_low:+.4g} to {one.delta_high:+.4g}"


def _interval(low: float | None, high: float | None) -> str:
    return "–" if low is None or high is None else f"{low:+.4g} … {high:+.4g}"
