"""Reads the runs of one trial beside their baseline from ClickHouse."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np

from infra.clickhouse.client import ClickHouse
from newsproof.evaluation.backtest.run.code_check import read_code_change
from newsproof.evaluation.backtest.run.ledger import Trial, read_trials
from newsproof.evaluation.compare.reading import read_returns, read_runs
from newsproof.evaluation.statistics.blocks import DAY_S
from newsproof.evaluation.trials.walk_forward import WalkForward, walk_forward
from newsproof.evaluation.watch.differences import Differences, Metric, differences_of
from schemas.errors import ConfigError


def runs_of(trials: Sequence[Trial], name: str) -> list[str]:
    """Return the ids of the trial's runs.

    Raises:
        ConfigError: there is no such trial; the text lists those that there are.
    """
    if found := [t.run_id for t in trials if t.trial == name]:
        return found
    known = ", ".join(dict.fromkeys(t.trial for t in reversed(trials) if t.trial))
    raise ConfigError(
        f"there is no trial {name!r}: there are {known or 'none yet'}; `newsproof backtest run --candidate …` makes one"
    )


async def read_walk_forward(
    tables: ClickHouse, trial: str, *, against: str, metric: Metric, seed: int, allow_code_change: bool
) -> WalkForward:
    """Choose among the candidates of the trial block by block, over the cases that all of them measure.

    Raises:
        ConfigError: the metric has no better side, there are too few blocks, or the trial does not exist.
    """
    if metric.better == "neither":
        raise ConfigError(f"--metric {metric.label}: neither side of it is better, so nothing can be chosen by it")
    runs = runs_of(await read_trials(tables), trial)
    found: list[Differences] = []
    for run_id in runs:
        await read_code_change(tables, against, run_id, allow=allow_code_change)
        a, b = await read_runs(tables, against, run_id)
        at = {row.case_id: datetime.fromtimestamp(row.knowable_ms / 1000, UTC) for row in b.rows}
        found.append(differences_of(a, b, await read_returns(tables, (a, b)), at, metric))
    by_case = [
        dict(zip(one.cases, zip(one.least.tolist(), one.most.tolist(), strict=True), strict=True)) for one in found
    ]
    block_of = dict(zip(found[0].cases, found[0].blocks.tolist(), strict=True))
    common = [case for case in found[0].cases if all(case in one for one in by_case)]
    values = np.array([[one[case] for one in by_case] for case in common]).reshape(len(common), len(runs), 2)
    blocks = np.array([block_of[case] for case in common], dtype=np.int64)
    # A case's outcome is known a horizon after it, which may be in the next block: that block is not chosen by.
    chosen = walk_forward(runs, values[:, :, 0], blocks, most=values[:, :, 1], embargo=1, seed=seed)
    if chosen is None:
        raise ConfigError(
            f"the trial {trial} has {len(set(blocks.tolist()))} blocks of {metric.block_s // DAY_S} days with prices for all its candidates, "
            "and the first 6 are only chosen by: run it on a longer period, import prices, or take a shorter horizon"
        )
    return chosen
