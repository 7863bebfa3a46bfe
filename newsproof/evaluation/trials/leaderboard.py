"""The candidates of one trial side by side: quality beside the baseline, cost per case, the Pareto front. Pure.

The p values are corrected over the candidates (Holm): of twenty equal candidates one looks better at 5 % by chance.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from newsproof.evaluation.compare.comparison import Comparison
from newsproof.evaluation.compare.metrics import SIGNIFICANT, MetricResult, Verdict
from newsproof.evaluation.compare.terms import Better
from newsproof.evaluation.statistics import holm


class Ranked(msgspec.Struct, frozen=True, kw_only=True):
    """One candidate. ``delta_low`` to ``delta_high``: the primary metric minus the baseline's, at both ends of what it can be
    where cases worked in one run alone; ``low`` to ``high`` is its 95 % interval, of this candidate alone.

    ``p_holm`` is corrected over all candidates. ``cost_usd``: a case without a recording, None where a price is unknown.
    ``pareto``: no candidate, nor the baseline, is better and not dearer, or cheaper and not worse; None where quality or cost is not known. What is not measured is
    None, and ``note`` says why.
    """

    run_id: str
    change: str
    cases: int
    delta_low: float | None
    delta_high: float | None
    low: float | None
    high: float | None
    p: float | None
    p_holm: float | None
    verdict: Verdict
    cost_usd: float | None
    pareto: bool | None
    note: str


class Leaderboard(msgspec.Struct, frozen=True, kw_only=True):
    """A trial, the best candidate first. ``cost_usd``: a case of the baseline. ``warnings`` are those of the comparisons."""

    trial: str
    against: str
    metric: str
    better: Better
    cost_usd: float | None
    pareto: bool | None
    candidates: tuple[Ranked, ...]
    warnings: tuple[str, ...]


def leaderboard(trial: str, against: str, compared: Sequence[Comparison]) -> Leaderboard:
    """Rank the comparisons of each candidate (B) with the same baseline (A), of one and the same primary metric.

    Raises:
        ValueError: no comparison.
    """
    if not compared:
        raise ValueError("a leaderboard of no candidate")
    primary = compared[0].primary
    ranked = [_ranked(one) for one in compared]
    tested = [n for n, one in enumerate(ranked) if one.p is not None and one.verdict != "identical"]
    for n, p_holm in zip(tested, holm([ranked[n].p or 0.0 for n in tested]), strict=True):
        ranked[n] = _with_verdict(ranked[n], p_holm, primary.better)
    baseline = (0.0, next((c for one in compared if (c := _cost(one, of_a=True)) is not None), None))
    points = [baseline, *((_worst(one, primary.better), one.cost_usd) for one in ranked)]
    front = [_on_front(n, points) for n in range(len(points))]
    order = sorted(
        range(len(ranked)), key=lambda n: (points[n + 1][0] is None, -(points[n + 1][0] or 0.0), ranked[n].run_id)
    )
    return Leaderboard(
        trial=trial,
        against=against,
        metric=primary.label,
        better=primary.better,
        cost_usd=baseline[1],
        pareto=front[0],
        candidates=tuple(replace(ranked[n], pareto=front[n + 1]) for n in order),
        warnings=tuple(dict.fromkeys(warning for one in compared for warning in one.warnings)),
    )


def _ranked(found: Comparison) -> Ranked:
    m = found.primary
    return Ranked(
        run_id=found.b,
        change=found.changes_b,
        cases=m.cases,
        delta_low=m.delta_low,
        delta_high=m.delta_high,
        low=m.low,
        high=m.high,
        p=m.p,
        p_holm=None,
        verdict=m.verdict,
        cost_usd=_cost(found, of_a=False),
        pareto=False,
        note=m.note,
    )


def _with_verdict(one: Ranked, p_holm: float, better: Better) -> Ranked:
    if p_holm >= SIGNIFICANT or not one.delta_low or not one.delta_high:
        return replace(one, p_holm=p_holm, verdict="not distinguishable")
    return replace(one, p_holm=p_holm, verdict="better" if (one.delta_low > 0) == (better == "higher") else "worse")


def _cost(found: Comparison, *, of_a: bool) -> float | None:
    cost: MetricResult | None = next((m for m in found.metrics if m.metric == "full_cost"), None)
    return None if cost is None else cost.a if of_a else cost.b


def _worst(one: Ranked, better: Better) -> float | None:
    """Return the quality at the end that is worse for the candidate, more being better."""
    if one.delta_low is None or one.delta_high is None:
        return None
    return one.delta_low if better == "higher" else -one.delta_high


def _on_front(n: int, points: Sequence[tuple[float | None, float | None]]) -> bool | None:
    quality, cost = points[n]
    if quality is None or cost is None:
        return None
    return not any(
        q is not None and c is not None and q >= quality and c <= cost and (q, c) != (quality, cost) for q, c in points
    )
