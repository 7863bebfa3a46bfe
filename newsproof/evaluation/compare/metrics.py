"""Measures pairs of cases: each metric in A and in B, the difference with its interval, and a significance verdict.

A case that worked in one run alone is not left out: what it would have been in the other is unknown, so each figure is
computed at both ends of what it can be. Only what holds at both ends is called a difference.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import msgspec
import numpy as np
import numpy.typing as npt

from newsproof.evaluation.compare.pairing import Judged, Pair, Said
from newsproof.evaluation.compare.rows import HORIZONS, Returns
from newsproof.evaluation.statistics import (
    BINS,
    FEW_BLOCKS,
    MIN_BLOCKS,
    BrierParts,
    Estimate,
    block_length_s,
    blocks_of,
    brier_parts,
    holm,
    scores_of,
    wild_bootstrap,
)
from newsproof.evaluation.statistics.blocks import DRAWS, Labels
from schemas.errors import ConfigError

Floats = npt.NDArray[np.float64]
Unit = Literal["probability", "share", "usd", "ms", "score", "return"]
Better = Literal["lower", "higher", "neither"]
Role = Literal["primary", "secondary", "shown"]
"""``primary``: the one metric that was declared beforehand, tested at 5 %. ``secondary``: tested, Holm-corrected as one family.
``shown``: not tested."""
Verdict = Literal["better", "worse", "higher", "lower", "not distinguishable", "identical", "changed", "not measured"]

SIGNIFICANT = 0.05
PRIMARY = "profit"
WITH_HORIZON = ("profit", "hit_rate", "brier")
"""Metrics that may be declared primary: ``profit`` at each signal's own horizon, or one of these at a fixed one."""


class Scoring(msgspec.Struct, frozen=True, kw_only=True):
    """How figures are made. ``cap`` bounds the return of one case, ``trade_cost`` is what one trade costs in and out together,
    both as shares of the amount traded. ``draws``: random signs of a test; equal arguments give equal figures.
    """

    primary: str = PRIMARY
    cap: float = 0.25
    trade_cost: float = 0.002
    seed: int = 0
    draws: int = DRAWS


class MetricResult(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the comparison. ``delta`` is ``b - a`` over the same ``cases``, with the 95 % interval ``low`` to ``high``.

    Where cases worked in one run alone, a figure that they could change is None, and the difference lies between
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

    @property
    def label(self) -> str:
        """The metric with its horizon, as ``--fail-on`` names it: ``brier@4h``."""
        return self.metric if self.horizon is None else f"{self.metric}@{self.horizon}"


class Calibration(msgspec.Struct, frozen=True, kw_only=True):
    """The Brier score of one run's acted signals against the price at a horizon, and its parts (:class:`BrierParts`).

    Every repeat that acted counts by itself.
    """

    run_id: str
    horizon: str
    parts: BrierParts


def of_calibration(found: Sequence[Calibration], a: str, b: str) -> tuple[MetricResult, ...]:
    """Return the calibration error of both runs as a metric of each horizon. It is not tested: over few cases it is noise."""
    results = []
    for horizon in HORIZONS.values():
        one, other = (next((c.parts for c in found if (c.run_id, c.horizon) == (run, horizon)), None) for run in (a, b))
        both = one is not None and other is not None
        delta = other.ece - one.ece if one is not None and other is not None else None
        results.append(
            MetricResult(
                metric="ece", horizon=horizon, role="shown", unit="score", better="lower",
                cases=max((parts.count for parts in (one, other) if parts is not None), default=0), blocks=0,
                a=one.ece if one is not None else None, b=other.ece if other is not None else None,
                delta=delta, delta_low=delta, delta_high=delta, low=None, high=None, p=None, p_holm=None,
                detectable=None, verdict="not measured" if not both else "changed" if delta else "identical",
                note="not tested: over few cases it is mostly noise" if both else f"no outcomes at {horizon} that count in both",
            )
        )  # fmt: skip
    return tuple(results)


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """One metric before it is tested. All arrays have a row per pair and two columns, A and B.

    The figure of a run is the sum of ``x`` over the sum of ``counts`` (0 or 1). ``unknown``: the case did not work there;
    its value lies between ``least`` and ``most``, which are None where nothing bounds it.
    """

    name: str
    unit: Unit
    better: Better
    x: Floats
    counts: Floats
    unknown: npt.NDArray[np.bool_]
    least: Floats | None = None
    most: Floats | None = None
    horizon_s: int | None = None
    block_s: int = block_length_s()
    role: Role = "secondary"
    note: str = ""
    """Why nothing was measured, where nothing was."""
    remark: str = ""
    """What to know of the figure."""

    @property
    def label(self) -> str:
        """As :attr:`MetricResult.label`."""
        return self.name if self.horizon_s is None else f"{self.name}@{HORIZONS[self.horizon_s]}"


def parse_primary(text: str) -> str:
    """Return the name of a metric that may be primary.

    Raises:
        ConfigError: it may not.
    """
    name, _, horizon = text.strip().partition("@")
    if text == PRIMARY or (name in WITH_HORIZON and horizon in HORIZONS.values()):
        return text
    every = ", ".join(f"{one}@{at}" for one in WITH_HORIZON for at in list(HORIZONS.values())[1:3])
    raise ConfigError(f"--primary {text!r:.40}: write {PRIMARY} (at each signal's own horizon), or such as {every}")


def measure(pairs: Sequence[Pair], returns: Returns, how: Scoring) -> tuple[tuple[MetricResult, ...], Terms]:
    """Measure all metrics, the primary first; and return the terms of the profit that segments are made of."""
    profit = profit_of(pairs, returns, how, _horizon_of(how.primary) if how.primary.startswith(PRIMARY) else None)
    every = [profit, profit_of(pairs, returns, how, profit.horizon_s, capped=False), *terms_of_cases(pairs)]
    every += [terms for horizon in HORIZONS for terms in _of_outcomes(pairs, returns, horizon)]
    terms = [msgspec.structs.replace(one, role="primary") if one.label == how.primary else one for one in every]
    terms.sort(key=lambda one: one.role != "primary")
    results = [_measured(one, pairs, how) for one in terms]
    return _judged(results), profit


def calibration(run_id: str, judged: Sequence[tuple[str, Judged | None]], returns: Returns) -> list[Calibration]:
    """Score the acted signals of one run, given with their case ids, at each horizon with outcomes."""
    found = []
    for horizon_s, name in HORIZONS.items():
        scored = [
            (confidence, hit)
            for case_id, one in judged
            if one is not None
            for confidence, hit in _hits(case_id, one.said, returns, horizon_s)
        ]
        if scored:
            parts = brier_parts([p for p, _ in scored], [hit for _, hit in scored], BINS)
            found.append(Calibration(run_id=run_id, horizon=name, parts=parts))
    return found


# What is measured


def _horizon_of(label: str) -> int | None:
    _, _, name = label.partition("@")
    return next((seconds for seconds, short in HORIZONS.items() if short == name), None)


def profit_of(
    pairs: Sequence[Pair], returns: Returns, how: Scoring, horizon_s: int | None, *, capped: bool = True
) -> Terms:
    """Return the profit of each case to whoever follows the run: 0 where it does not act, else its return less the trade's cost.

    ``horizon_s`` None: each signal's own.
    """
    x, counts = np.zeros((len(pairs), 2)), np.zeros((len(pairs), 2))
    reach, unknown = np.zeros((len(pairs), 2)), _unknown(pairs)
    unpriced, longest = 0, horizon_s or 0
    cap = how.cap if capped else np.inf
    for n, pair in enumerate(pairs):
        values = [_earned(pair.case_id, one, returns, horizon_s, cap, how.trade_cost) for one in (pair.a, pair.b)]
        known = [value for one, value in zip((pair.a, pair.b), values, strict=True) if one is not None]
        moved = 0.0 if pair.both else _reach(pair, returns, horizon_s, how.cap)
        if None in known or moved is None:
            unpriced += 1
            continue
        counts[n] = 1.0
        x[n] = [value or 0.0 for value in values]
        reach[n] = moved
        if horizon_s is None and (x[n, 0] != x[n, 1] or not pair.both):
            acted = [said.horizon_s for one in (pair.a, pair.b) if one is not None for said in one.said if said.side]
            longest = max([longest, *acted])
    return Terms(
        name="profit" if capped else "profit_uncapped",
        unit="return",
        better="higher",
        x=x,
        counts=counts,
        unknown=unknown,
        # Not acting earns nothing, so the best that can have been missed is never a loss.
        least=-reach - how.trade_cost if capped else None,
        most=np.maximum(reach - how.trade_cost, 0.0) if capped else None,
        horizon_s=horizon_s,
        block_s=block_length_s(longest),
        role="secondary" if capped else "shown",
        note="no case that a run acted on has a price: newsproof outcomes import",
        remark=f"{unpriced:,} cases that a run acts on have no price" if unpriced else "",
    )


def _earned(
    case_id: str, one: Judged | None, returns: Returns, horizon_s: int | None, cap: float, cost: float
) -> float | None:
    if one is None:
        return None
    if case_id in returns.untraded:
        return 0.0
    total = 0.0
    for said in one.said:
        if said.side:
            change = returns.held.get((case_id, said.asset, horizon_s or said.horizon_s))
            if change is None:
                return None
            total += min(max(said.side * change, -cap), cap) - cost
    return total / len(one.said)


def _reach(pair: Pair, returns: Returns, horizon_s: int | None, cap: float) -> float | None:
    """Return how far the market moved in a case that worked in one run alone; the cap where nobody named an asset."""
    if pair.case_id in returns.untraded:
        return 0.0
    one = pair.a if pair.a is not None else pair.b
    signals = [said for said in one.said if said.confidence is not None] if one is not None else []
    moves = [returns.held.get((pair.case_id, said.asset, horizon_s or said.horizon_s)) for said in signals]
    known = [abs(move) for move in moves if move is not None]
    return cap if not signals else min(max(known), cap) if len(known) == len(moves) else None


def terms_of_cases(pairs: Sequence[Pair]) -> list[Terms]:
    """Return the metrics that need no price: confidence, actions, flips, cost and latency."""
    alike = [
        pair.a is not None and pair.b is not None and pair.a.executed > 0 and pair.a.executed == pair.b.executed
        for pair in pairs
    ]
    why = _why_no_calls(pairs, alike)
    share = (0.0, 1.0)
    return [
        _paired(pairs, "confidence", lambda o: o.confidence, "probability", bounds=share, note="no case has a signal"),
        _paired(pairs, "action_rate", lambda o: o.acts, "share", bounds=share),
        _flips(pairs, "action_flips", lambda one: one.action),
        _flips(pairs, "verdict_flips", lambda one: one.verdict),
        _paired(pairs, "cost", lambda o: o.cost_usd, "usd", "lower", also=alike, note=why),
        _paired(pairs, "full_cost", lambda o: o.full_cost_usd, "usd", "lower", note="no case's price is fully known"),
        _paired(pairs, "latency", lambda o: o.latency_ms, "ms", "lower", also=alike, note=why),
    ]


def _paired(
    pairs: Sequence[Pair],
    name: str,
    value: Callable[[Judged], float | None],
    unit: Unit,
    better: Better = "neither",
    *,
    bounds: tuple[float, float] | None = None,
    also: Sequence[bool] | None = None,
    note: str = "",
) -> Terms:
    """The mean over the cases that have the value in both runs, or in the one in which they worked."""
    x = np.array([[np.nan if one is None else _or_nan(value(one)) for one in (p.a, p.b)] for p in pairs])
    unknown = _unknown(pairs)
    use = (~np.isnan(x) | unknown).all(axis=1)
    if also is not None:
        use &= np.array(also) | unknown.any(axis=1)
    x[~use[:, None] | unknown] = 0.0
    counts = np.repeat(use.astype(np.float64)[:, None], 2, axis=1)
    least, most = (None, None) if bounds is None else (np.full_like(x, bounds[0]), np.full_like(x, bounds[1]))
    return Terms(
        name=name, unit=unit, better=better, x=x, counts=counts, unknown=unknown, least=least, most=most, note=note
    )


def _flips(pairs: Sequence[Pair], name: str, word: Callable[[Judged], str]) -> Terms:
    words = [(word(p.a), word(p.b)) if p.a is not None and p.b is not None else ("", "") for p in pairs]
    use = np.array([bool(one and other) for one, other in words])
    x = np.zeros((len(pairs), 2))
    x[:, 1] = [one != other for one, other in words] & use
    counts = np.repeat(use.astype(np.float64)[:, None], 2, axis=1)
    note = "no case has a verdict in both: signals of schema 1 have none"
    return Terms(
        name=name, unit="share", better="neither", x=x, counts=counts, unknown=np.zeros(x.shape, bool), role="shown", note=note
    )  # fmt: skip


def _or_nan(value: float | None) -> float:
    return np.nan if value is None else value


def _unknown(pairs: Sequence[Pair]) -> npt.NDArray[np.bool_]:
    return np.array([[pair.a is None, pair.b is None] for pair in pairs], dtype=bool)


def _why_no_calls(pairs: Sequence[Pair], alike: Sequence[bool]) -> str:
    one, other = (
        any(o is not None and o.executed for o in side) for side in zip(*((p.a, p.b) for p in pairs), strict=True)
    )
    if not one and not other:
        return "nothing was executed"
    if not (one and other):
        return f"nothing was executed in {'B' if one else 'A'}; full_cost compares the cost without a recording"
    if not any(alike):
        return "A and B executed different numbers of calls in every case; full_cost compares them without a recording"
    return "the price or latency of a call is unknown in every case"


def _of_outcomes(pairs: Sequence[Pair], returns: Returns, horizon_s: int) -> list[Terms]:
    """Hits, squared errors and calibration of what each run acted on: a run that acts less is measured on less."""
    hits, errors, counts = (np.zeros((len(pairs), 2)) for _ in range(3))
    for n, pair in enumerate(pairs):
        for side, one in enumerate((pair.a, pair.b)):
            scored = [] if one is None else list(_hits(pair.case_id, one.said, returns, horizon_s))
            if scored:
                counts[n, side] = 1.0
                hits[n, side] = sum(hit for _, hit in scored) / len(scored)
                errors[n, side] = sum((p - hit) ** 2 for p, hit in scored) / len(scored)
    name, unknown = HORIZONS[horizon_s], _unknown(pairs)
    there = any(at == horizon_s for _, _, at in returns.moved)
    note = f"no outcomes at {name}: newsproof outcomes import"
    if there:
        note = "a run acts on no case with an outcome that counts (v_outcome_coverage says why)"

    def terms(of: str, unit: Unit, better: Better, x: Floats) -> Terms:
        return Terms(
            name=of, unit=unit, better=better, x=x, counts=counts, unknown=unknown, least=np.zeros_like(x),
            most=np.ones_like(x), horizon_s=horizon_s, block_s=block_length_s(horizon_s), note=note,
        )  # fmt: skip

    return [terms("hit_rate", "share", "higher", hits), terms("brier", "score", "lower", errors)]


def _hits(case_id: str, every: Sequence[Said], returns: Returns, horizon_s: int) -> list[tuple[float, float]]:
    """Return (confidence, hit) of each repeat that acted. A price that did not move is neither a hit nor a miss."""
    found = []
    for said in every:
        move = returns.moved.get((case_id, said.asset, horizon_s)) if said.side else None
        if move and said.confidence is not None:
            found.append((said.confidence, float(said.side * move > 0)))
    return found


# How it is tested


def _measured(terms: Terms, pairs: Sequence[Pair], how: Scoring) -> MetricResult:
    counts, touched = _touched(terms)
    if not (counts[:, 0].any() and counts[:, 1].any()):
        return _result(terms, note=terms.note)
    if touched.any() and (terms.least is None or terms.most is None):
        alone = [int(touched[:, side].sum()) for side in (1, 0)]
        said = " and ".join(f"{n:,} in {name} alone" for n, name in zip(alone, "AB", strict=True) if n)
        return _result(terms, note=f"of its cases {said} worked, and what they come to in the other is not known")
    labels = blocks_of([pair.at_s for pair in pairs], [pair.story_id for pair in pairs], terms.block_s)
    ends = [_end(terms, counts, touched, labels, how, b_at_most=False)]
    ends.append(_end(terms, counts, touched, labels, how, b_at_most=True) if touched.any() else ends[0])
    known = [
        None if touched[:, side].any() else float(terms.x[:, side].sum() / counts[:, side].sum()) for side in (0, 1)
    ]
    return _result(terms, counts, touched, known, ends)


def _touched(terms: Terms) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Return the memberships with those of the unknown values, and which of them are unknown."""
    # A mean of pairs has an unknown value only where the pair is used; a figure over a run's own cases may have it anywhere.
    unknown = terms.unknown if terms.name in WITH_HORIZON[1:] else terms.unknown & (terms.counts > 0)
    return np.where(unknown, 1.0, terms.counts), unknown


def _end(
    terms: Terms, counts: Floats, touched: npt.NDArray[np.bool_], labels: Labels, how: Scoring, *, b_at_most: bool
) -> Estimate:
    """Test the difference where B's unknown values are as large as they can be and A's as small, or the other way round."""
    x = terms.x
    if touched.any() and terms.least is not None and terms.most is not None:
        at = (terms.least, terms.most) if b_at_most else (terms.most, terms.least)
        x = np.where(touched, np.column_stack([at[0][:, 0], at[1][:, 1]]), x)
    estimate, scores, shares = scores_of(x[:, 0], counts[:, 0], x[:, 1], counts[:, 1])
    return wild_bootstrap(estimate, scores, shares, labels, seed=how.seed, draws=how.draws)


def _result(
    terms: Terms,
    counts: Floats | None = None,
    touched: npt.NDArray[np.bool_] | None = None,
    known: Sequence[float | None] = (None, None),
    ends: Sequence[Estimate] = (),
    *,
    note: str = "",
) -> MetricResult:
    a, b = known
    low, high = (ends[0], ends[1]) if ends else (None, None)
    bounded = touched is not None and bool(touched.any())
    same = low is not None and not bounded and counts is not None and _same(terms, counts)
    p = low.pvalue if low is not None else None
    if bounded and low is not None and high is not None and p is not None:
        p = max(p, high.pvalue or 0.0) if (low.estimate > 0) == (high.estimate > 0) else 1.0
    if low is not None:
        note = "; ".join(filter(None, (terms.remark, _of_blocks(low.blocks, terms.block_s), _of_unknown(touched))))
    return MetricResult(
        metric=terms.name,
        horizon=None if terms.horizon_s is None else HORIZONS[terms.horizon_s],
        role=terms.role,
        unit=terms.unit,
        better=terms.better,
        cases=0 if counts is None else int((counts > 0).any(axis=1).sum()),
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
        detectable=None if low is None or high is None or terms.role == "shown" else _larger(low, high),
        verdict="not measured" if low is None else "identical" if same else "changed",
        note=note,
    )


def _same(terms: Terms, counts: Floats) -> bool:
    return bool(np.array_equal(terms.x[:, 0], terms.x[:, 1]) and np.array_equal(counts[:, 0], counts[:, 1]))


def _larger(low: Estimate, high: Estimate) -> float | None:
    return None if low.detectable is None or high.detectable is None else max(low.detectable, high.detectable)


def _of_blocks(blocks: int, block_s: int) -> str:
    length = block_s // 86_400
    of = "days" if length == 1 else f"blocks of {length} days"
    if blocks < MIN_BLOCKS:
        return f"too few days: {blocks} {of}, and a test needs {MIN_BLOCKS}"
    return f"few blocks: {blocks} {of}" if blocks < FEW_BLOCKS else ""


def _of_unknown(touched: npt.NDArray[np.bool_] | None) -> str:
    many = 0 if touched is None else int(touched.any(axis=1).sum())
    return f"{many:,} cases worked in one run alone: what they would have come to is taken both ways" if many else ""


def _judged(results: Sequence[MetricResult]) -> tuple[MetricResult, ...]:
    # When all pairs are equal no test can reject, so the metric does not count in the correction (Tarone 1990,
    # Biometrics 46, 515-522).
    corrected: dict[int, float] = {}
    for role in ("primary", "secondary"):
        family = [n for n, r in enumerate(results) if r.role == role and r.p is not None and r.verdict != "identical"]
        corrected |= zip(family, holm([results[n].p or 0.0 for n in family]), strict=True)
    return tuple(_with_verdict(result, corrected.get(n)) for n, result in enumerate(results))


def _with_verdict(result: MetricResult, p_holm: float | None) -> MetricResult:
    if result.verdict in ("not measured", "identical") or result.role == "shown":
        return result
    verdict: Verdict = "not distinguishable"
    if p_holm is not None and p_holm < SIGNIFICANT and result.delta_low and result.delta_high:
        verdict = "higher" if result.delta_low > 0 else "lower"
        if result.better != "neither":
            verdict = "better" if verdict == result.better else "worse"
    return msgspec.structs.replace(result, p_holm=p_holm, verdict=verdict)
