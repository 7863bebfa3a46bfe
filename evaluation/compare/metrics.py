"""Measures pairs of cases: each metric in A and in B, the difference with its interval, and a significance verdict.

A case that worked in only one run is not left out. Its value in the other run is unknown, so each metric is computed at both ends
of its possible range. Only a difference that holds at both ends counts as one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import msgspec
import numpy as np
import numpy.typing as npt

from evaluation.compare.pairing import CaseInRun, Pair
from evaluation.compare.run_rows import HORIZONS, PROFIT_HORIZONS, Returns
from evaluation.compare.terms import (
    PRIMARY,
    PROFIT,
    Better,
    Role,
    Scoring,
    Terms,
    Unit,
    hits_of,
    profit_of,
    tail_of,
    terms_of_cases,
    terms_of_outcomes,
    terms_of_truth,
)
from evaluation.statistics.blocks import (
    DAY_S,
    FEW_BLOCKS,
    MIN_BLOCKS,
    Estimate,
    Grid,
    grid_of,
    holm,
    scores_of,
    wild_bootstrap,
)
from evaluation.statistics.calibration import BrierParts, brier_parts
from schemas.errors import ConfigError
from schemas.printable import counted

Floats = npt.NDArray[np.float64]
Verdict = Literal[
    "better", "worse", "higher", "lower", "not distinguishable", "identical", "equal", "changed", "not measured"
]
"""``identical``: the runs say the same in every case. ``equal``: they do not, and the figure is the same in every case."""
EQUAL = ("identical", "equal")
DEPENDENT = "neighbouring days depend on each other"
LOOKED_AT = "another candidate was looked at on these cases before, so there is no p-value"

SIGNIFICANT = 0.05
LONGER_S = (7 * DAY_S, 30 * DAY_S)
"""Horizons of signals beyond a day. Their profits are secondary metrics, each with blocks of its own."""
WITH_HORIZON = {"profit": PROFIT_HORIZONS, "hit_rate": HORIZONS, "brier": HORIZONS}
"""Metrics that may be declared primary, each at one of these horizons; or ``profit`` at each signal's own."""


class MetricResult(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the comparison. ``delta`` is ``b - a`` over the same ``cases``, with the 95 % interval ``low`` to ``high``.

    Where cases completed in one run only, a figure that they could change is None, and the difference lies between
    ``delta_low`` and ``delta_high``; interval and ``p`` then hold at both ends. ``p_holm``: ``p`` corrected for all metrics of
    the same role. ``detectable``: the smallest true difference that this sample shows with a probability of 80 %. ``blocks``:
    blocks of time that were drawn. An unmeasured value is None, never 0, and ``note`` says why.
    """

    metric: str
    horizon: str | None
    role: Role
    unit: Unit
    better: Better
    cases: int
    blocks: int
    a: float | None
    b: float | None
    delta: float | None
    delta_low: float | None
    delta_high: float | None
    low: float | None
    high: float | None
    p: float | None
    p_holm: float | None
    detectable: float | None
    verdict: Verdict
    note: str
    reversible: bool = False
    """Of a profit: whether one block would reverse the difference if each changed trade in it lost the sample's largest move."""

    @property
    def label(self) -> str:
        """The metric with its horizon, as ``--primary`` names it: ``brier@4h``."""
        return self.metric if self.horizon is None else f"{self.metric}@{self.horizon}"


class Calibration(msgspec.Struct, frozen=True, kw_only=True):
    """The Brier score of one run's acted signals against the price at a horizon, and its parts (:class:`BrierParts`).

    Every repeat that acted counts by itself.
    """

    run_id: str
    horizon: str
    parts: BrierParts


def parse_primary(text: str) -> str:
    """Return the name of a metric that may be primary.

    Raises:
        ConfigError: it may not.
    """
    name, _, horizon = text.strip().partition("@")
    if text == PROFIT or horizon in WITH_HORIZON.get(name, {}).values():
        return text
    every = ", ".join(f"{metric}@{at}" for metric in WITH_HORIZON for at in ("4h", "24h"))
    raise ConfigError(
        f"--primary {text!r:.40}: write {PROFIT} (at each signal's own horizon), or a metric at a horizon, such as {every}"
    )


def measure(pairs: Sequence[Pair], returns: Returns, how: Scoring) -> tuple[tuple[MetricResult, ...], Terms]:
    """Measure all metrics, the primary first; and return the terms of the profit that segments are made of."""
    profit = profit_of(pairs, returns, how, profit_horizon(how))
    others = [profit_of(pairs, returns, how, profit.horizon_s, of=of) for of in ("profit_uncapped", "profit_adjusted")]
    others.append(profit_of(pairs, returns, how, profit.horizon_s or DAY_S, of="profit_delayed"))
    others += [profit_of(pairs, returns, how, at) for at in (DAY_S, *LONGER_S, None) if at != profit.horizon_s]
    every = [profit, tail_of(profit), *others, *terms_of_truth(pairs, returns.truths), *terms_of_cases(pairs)]
    every += [terms for horizon in HORIZONS for terms in terms_of_outcomes(pairs, returns, horizon)]
    terms = [
        msgspec.structs.replace(metric, role="primary") if metric.label == how.primary else metric for metric in every
    ]
    terms.sort(key=lambda metric: metric.role != "primary")
    results = [_measured(metric, pairs, how) for metric in terms]
    return _judged(results), profit


def calibration(run_id: str, judged: Sequence[tuple[str, CaseInRun | None]], returns: Returns) -> list[Calibration]:
    """Score the acted signals of one run, given with their case ids, at each horizon with outcomes."""
    calibrations = []
    for horizon_s, name in HORIZONS.items():
        scored = [
            (confidence, hit)
            for case_id, case in judged
            if case is not None
            for confidence, hit in hits_of(case_id, case.signals, returns, horizon_s)
        ]
        if scored:
            parts = brier_parts([p for p, _ in scored], [hit for _, hit in scored])
            calibrations.append(Calibration(run_id=run_id, horizon=name, parts=parts))
    return calibrations


# What is measured


def profit_horizon(how: Scoring) -> int | None:
    """Return the horizon in seconds of the profit that a comparison begins with; None: each signal's own."""
    _, _, name = (how.primary if how.primary.startswith(PROFIT) else PRIMARY).partition("@")
    return next((seconds for seconds, short in PROFIT_HORIZONS.items() if short == name), None)


# How it is tested


def _measured(terms: Terms, pairs: Sequence[Pair], how: Scoring) -> MetricResult:
    counts, unknown = terms.counts, terms.unknown
    if not (counts[:, 0].any() and counts[:, 1].any()):
        return _result(terms, note=terms.note)
    if not np.isfinite([terms.low[unknown], terms.high[unknown]]).all():
        many = int(unknown.any(axis=1).sum())
        return _result(
            terms, note=f"{counted(many, 'case')} did not complete in both runs, and this metric has no bounds"
        )
    ends = [_end(terms, pairs, how, b_at_most=side) for side in ((False, True) if unknown.any() else (False,))]
    known = [
        None if unknown[:, side].any() else float(terms.low[:, side].sum() / counts[:, side].sum()) for side in (0, 1)
    ]
    return _result(terms, known, (ends[0], ends[-1]))


def _end(terms: Terms, pairs: Sequence[Pair], how: Scoring, *, b_at_most: bool) -> tuple[Estimate, Grid]:
    """Test the difference with B's unknown values at their largest and A's at their smallest, or the other way round."""
    a, b = (terms.low, terms.high) if b_at_most else (terms.high, terms.low)
    estimate, scores, shares = scores_of(a[:, 0], terms.counts[:, 0], b[:, 1], terms.counts[:, 1])
    used = shares != 0.0
    scores, shares = scores[used], shares[used]
    grid = grid_of(np.array([pair.at_s for pair in pairs])[used], scores, shares, terms.block_s)
    bounded = wild_bootstrap(
        estimate,
        scores,
        shares,
        grid.labels,
        seed=how.seed,
        draws=how.draws,
        inflation=grid.inflation,
        factor=how.factor,
    )
    return bounded, grid


def _result(
    terms: Terms,
    known: Sequence[float | None] = (None, None),
    ends: Sequence[tuple[Estimate, Grid]] = (),
    *,
    note: str = "",
) -> MetricResult:
    a, b = known
    low, high = (ends[0][0], ends[1][0]) if ends else (None, None)
    counts, unknown = terms.counts, terms.unknown
    bounded = bool(unknown.any())
    same = low is not None and not bounded and _same(terms)
    p = low.pvalue if low is not None else None
    if bounded and low is not None and high is not None and p is not None:
        p = max(p, high.pvalue or 0.0) if (low.estimate > 0) == (high.estimate > 0) else 1.0
    if ends and low is not None and high is not None:
        p = None if high.pvalue is None else p
        blocks = min(ends, key=lambda end: end[0].blocks)
        sides = "" if bounded else _of_sides(terms, ends[0][1])  # at one extreme they are no finding
        unclaimed = LOOKED_AT if p is None and low.low is not None else ""
        notes = (unclaimed, _of_blocks(*blocks, terms.block_s), terms.remark, _of_unknown(unknown), sides)
        note = "; ".join(filter(None, notes))
    return MetricResult(
        metric=terms.name,
        horizon=None if terms.horizon_s is None else PROFIT_HORIZONS[terms.horizon_s],
        role=terms.role,
        unit=terms.unit,
        better=terms.better,
        cases=0 if low is None else int((counts > 0).any(axis=1).sum()),
        blocks=0 if low is None else low.blocks,
        a=a,
        b=b,
        delta=None if a is None or b is None else b - a,
        delta_low=None if low is None else low.estimate,
        delta_high=None if high is None else high.estimate,
        low=None if low is None or terms.role == "shown" else low.low,
        high=None if high is None or terms.role == "shown" else high.high,
        p=None if terms.role == "shown" else p,
        p_holm=None,
        detectable=None if low is None or high is None or terms.role == "shown" or same else _shown(low, high),
        verdict="not measured" if low is None else "identical" if same else "changed",
        note=note,
        reversible=low is not None and low.estimate < _one_block(terms, ends[0][1]),
    )


def _one_block(terms: Terms, grid: Grid) -> float:
    """Return what one block can take from the mean: its changed trades, as many as in the fullest block, all lose the shock."""
    if terms.exposed is None:
        return -math.inf
    used = (terms.counts > 0).any(axis=1)
    changed = np.bincount(grid.labels, weights=terms.exposed[used])
    return float(changed.max()) * terms.shock / int(used.sum())


def _of_sides(terms: Terms, grid: Grid) -> str:
    """Return in how many blocks B was above A, with a sign test, and the worst block: a mean hides a rare crash."""
    if terms.exposed is None or terms.role == "shown":
        return ""
    used = (terms.counts > 0).any(axis=1)
    return describe_sides(np.bincount(grid.labels, weights=terms.low[used, 1] - terms.high[used, 0]) / used.sum())


def describe_p(p: float) -> str:
    """Return the p-value with three decimals. No p-value is 0, so a smaller one is "p <0.001"."""
    return f"p {p:.3f}" if p >= 0.001 else "p <0.001"


def describe_sides(parts: Floats) -> str:
    """Return how many blocks are above 0, with a sign test, and the worst one; "" for too few. ``parts`` sum to the mean."""
    above, apart = int((parts > 0).sum()), int((parts != 0).sum())
    if apart < MIN_BLOCKS:
        return ""
    tail = sum(math.comb(apart, k) for k in range(min(above, apart - above) + 1)) / 2.0**apart
    return (
        f"the difference is above 0 in {above} of the {apart} blocks that differ (sign test: {describe_p(min(1.0, 2 * tail))}); "
        f"the worst block moves the mean by {parts.min():+.5f}"
    )


def _same(terms: Terms) -> bool:
    return bool(
        np.array_equal(terms.low[:, 0], terms.low[:, 1]) and np.array_equal(terms.counts[:, 0], terms.counts[:, 1])
    )


def _shown(low: Estimate, high: Estimate) -> float | None:
    """Return the true difference that shows 4 times in 5 whatever the unknown values are, so at both ends."""
    if low.detectable is None or high.detectable is None:
        return None
    return max(low.detectable, high.detectable) + high.estimate - low.estimate


def _of_blocks(estimate: Estimate, grid: Grid, rule_s: int) -> str:
    days = math.ceil(grid.length_s / DAY_S)
    of = counted(estimate.blocks, "day") if days == 1 else f"{counted(estimate.blocks, 'block')} of {days} days"
    if grid.length_s > rule_s:
        of += f" ({DEPENDENT}: correlation {grid.correlation:.2f})"
    if estimate.blocks < MIN_BLOCKS:
        return f"too few for a test: {of}; {MIN_BLOCKS} are needed"
    return f"few blocks: {of}" if estimate.blocks < FEW_BLOCKS else ""


def _of_unknown(unknown: npt.NDArray[np.bool_]) -> str:
    many = int(unknown.any(axis=1).sum())
    return f"{counted(many, 'case')} without a known result in both runs: counted at both extremes" if many else ""


def _judged(results: Sequence[MetricResult]) -> tuple[MetricResult, ...]:
    # When all pairs are equal no test can reject, so the metric does not count in the correction (Tarone 1990, Biometrics 46,
    # 515-522). One that its own data made untestable does: where most are, chance is in the few that are not.
    corrected: dict[int, float] = {}
    for role in ("primary", "secondary"):
        of_role = [(n, r) for n, r in enumerate(results) if r.role == role and r.verdict not in EQUAL]
        family = [n for n, r in of_role if r.p is not None]
        refused = sum(r.p is None and DEPENDENT in r.note for _, r in of_role)
        adjusted = holm([*(results[n].p or 0.0 for n in family), *[1.0] * refused])
        corrected |= zip(family, adjusted[: len(family)], strict=True)
    return tuple(_with_verdict(result, corrected.get(n)) for n, result in enumerate(results))


def _with_verdict(result: MetricResult, p_holm: float | None) -> MetricResult:
    if result.verdict in ("not measured", "identical") or result.role == "shown":
        return result
    verdict: Verdict = "not distinguishable"
    if p_holm is not None and p_holm < SIGNIFICANT and result.delta_low and result.delta_high:
        verdict = "higher" if result.delta_low > 0 else "lower"
        if result.better != "neither":
            verdict = "better" if verdict == result.better else "worse"
        if verdict == "better" and result.reversible:
            held = "not called better: one block in which each changed trade loses the sample's largest move would reverse it"
            note = "; ".join(filter(None, (held, result.note)))
            return msgspec.structs.replace(result, p_holm=p_holm, verdict="not distinguishable", note=note)
    return msgspec.structs.replace(result, p_holm=p_holm, verdict=verdict)
