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

from agents.signal import HORIZON_S
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

OWN_HORIZONS = tuple(HORIZON_S.values())
"""Horizons in seconds that a signal may have as its own."""


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

    The figure of a run is the sum of values over the sum of ``counts`` (0 or 1). A value lies between ``low`` and ``high``,
    which are equal where it is known, and infinite where nothing bounds it.
    """

    name: str
    unit: Unit
    better: Better
    low: Floats
    high: Floats
    counts: Floats
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

    @property
    def unknown(self) -> npt.NDArray[np.bool_]:
        """Which values are not known."""
        return np.asarray((self.counts > 0) & (self.low != self.high), dtype=bool)


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

    ``horizon_s`` None: each signal's own. What a run would have earned in a case that it missed lies between losing and
    winning as far as the asset moved that the other run named, whichever horizon it would have had. What it acted on without a
    price may be anything up to the cap; a case in which both runs made the same trade without a price is left out, for their
    difference is nothing.
    """
    low, high, counts = (np.zeros((len(pairs), 2)) for _ in range(3))
    cap = how.cap if capped else np.inf
    priced = unpriced = left_out = 0
    longest = horizon_s or 0
    for n, pair in enumerate(pairs):
        trades = [_trades(one) for one in (pair.a, pair.b)]
        earned = [_earned(pair.case_id, one, returns, horizon_s, cap, how.trade_cost) for one in trades]
        without = [any(value is None for value in of_run) for of_run in earned]
        priced += any(
            one.side and value is not None
            for run, values in zip(trades, earned, strict=True)
            for one, value in zip(run, values, strict=True)
        )
        if all(without) and trades[0] == trades[1] and _missing(pair.a) == _missing(pair.b):
            left_out += 1
            continue
        unpriced += any(without)
        reach = _reach(pair, returns, horizon_s, cap) if max(map(_missing, (pair.a, pair.b))) else 0.0
        counts[n] = 1.0
        for column, (one, values) in enumerate(zip((pair.a, pair.b), earned, strict=True)):
            gone = _missing(one)
            least = [-cap - how.trade_cost if value is None else value for value in values] or [0.0]
            most = [cap - how.trade_cost if value is None else value for value in values] or [0.0]
            # Not acting earns nothing, so the best that can have been missed is never a loss.
            low[n, column] = _mixed(sum(least) / len(least), -reach - how.trade_cost, gone)
            high[n, column] = _mixed(sum(most) / len(most), max(reach - how.trade_cost, 0.0), gone)
        if horizon_s is None and (low[n, 0] != low[n, 1] or high[n, 0] != high[n, 1]):
            longest = max([longest, *(one.horizon_s for run in trades for one in run if one.side)])
    if not priced and (unpriced or left_out):
        counts[:] = 0.0
    said = []
    if unpriced:
        said.append(f"{unpriced:,} cases that one run acts on have no price: taken both ways")
    if left_out:
        said.append(f"{left_out:,} cases that both act on alike have no price")
    return Terms(
        name="profit" if capped else "profit_uncapped",
        unit="return",
        better="higher",
        low=low,
        high=high,
        counts=counts,
        horizon_s=horizon_s,
        block_s=block_length_s(longest),
        role="secondary" if capped else "shown",
        note="no case that a run acted on has a price: newsproof outcomes import",
        remark="; ".join(said),
    )


def _trades(one: Judged | None) -> tuple[Said, ...]:
    return () if one is None else one.said


def _missing(one: Judged | None) -> float:
    return 1.0 if one is None else one.missing


def _mixed(known: float, unknown: float, share: float) -> float:
    """Return the mean over all repeats of what worked and what did not; an infinite end stays out where nothing is unknown."""
    return known if not share else unknown if share == 1.0 else known * (1.0 - share) + unknown * share


def _earned(
    case_id: str, trades: Sequence[Said], returns: Returns, horizon_s: int | None, cap: float, cost: float
) -> list[float | None]:
    """Return what each repeat earned; None: it acted, and there is no price."""
    found: list[float | None] = []
    for said in trades:
        if not said.side or (case_id, said.asset) in returns.untraded:
            found.append(0.0)
            continue
        change = returns.held.get((case_id, said.asset, horizon_s or said.horizon_s))
        found.append(None if change is None else min(max(said.side * change, -cap), cap) - cost)
    return found


def _reach(pair: Pair, returns: Returns, horizon_s: int | None, cap: float) -> float:
    """Return how far the asset moved that one of the runs named, over any horizon that a signal may have; the cap where no
    price says so."""
    named = {said.asset for one in (pair.a, pair.b) for said in _trades(one) if said.confidence is not None}
    horizons = (horizon_s,) if horizon_s else OWN_HORIZONS
    moves = [returns.held.get((pair.case_id, asset, at)) for asset in named for at in horizons]
    known = [abs(move) for move in moves if move is not None]
    return min(max(known), cap) if known and len(known) == len(moves) else cap


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
    bounds: tuple[float, float] = (-np.inf, np.inf),
    also: Sequence[bool] | None = None,
    note: str = "",
) -> Terms:
    """The mean over the cases that have the value in both runs, or in the one in which they worked."""
    low, high, counts = (np.zeros((len(pairs), 2)) for _ in range(3))
    for n, pair in enumerate(pairs):
        known = [0.0 if one is None else value(one) for one in (pair.a, pair.b)]
        if any(one is None for one in known) or (also is not None and pair.both and not also[n]):
            continue
        counts[n] = 1.0
        for column, (one, found) in enumerate(zip((pair.a, pair.b), known, strict=True)):
            low[n, column], high[n, column] = (_mixed(found or 0.0, end, _missing(one)) for end in bounds)
    return Terms(name=name, unit=unit, better=better, low=low, high=high, counts=counts, note=note)


def _flips(pairs: Sequence[Pair], name: str, word: Callable[[Judged], str]) -> Terms:
    words = [(word(p.a), word(p.b)) if p.a is not None and p.b is not None else ("", "") for p in pairs]
    use = np.array([bool(one and other) for one, other in words])
    x = np.zeros((len(pairs), 2))
    x[:, 1] = [one != other for one, other in words] & use
    counts = np.repeat(use.astype(np.float64)[:, None], 2, axis=1)
    note = "no case has a verdict in both: signals of schema 1 have none"
    return Terms(name=name, unit="share", better="neither", low=x, high=x, counts=counts, role="shown", note=note)


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
    """Hits and squared errors of what each run acted on: a run that acts less is measured on less.

    A case that a run missed it may have acted on, rightly or wrongly. So may one that it alone acted on without a price.
    """
    hits, errors, counts = np.zeros((len(pairs), 2, 2)), np.zeros((len(pairs), 2, 2)), np.zeros((len(pairs), 2))
    known = [0, 0]
    for n, pair in enumerate(pairs):
        blind = [_blind(pair.case_id, one, returns, horizon_s) for one in (pair.a, pair.b)]
        same = pair.a is not None and pair.b is not None and pair.a.said == pair.b.said
        for side, one in enumerate((pair.a, pair.b)):
            scored = [] if one is None else _hits(pair.case_id, one.said, returns, horizon_s)
            unknown = max(_missing(one), 0.0 if same else blind[side])
            if not scored and not unknown:
                continue
            counts[n, side] = 1.0
            gone = unknown if scored else 1.0
            known[side] += not gone
            many = max(len(scored), 1)
            for values, mean in (
                (hits, sum(hit for _, hit in scored) / many),
                (errors, sum((p - hit) ** 2 for p, hit in scored) / many),
            ):
                values[n, side] = [_mixed(mean, end, gone) for end in (0.0, 1.0)]
    name = HORIZONS[horizon_s]
    there = any(at == horizon_s for _, _, at in returns.moved)
    note = f"no outcomes at {name}: newsproof outcomes import"
    if there:
        note = "a run acts on no case with an outcome that counts (v_outcome_coverage says why)"
    if not all(known):
        counts[:] = 0.0

    def terms(of: str, unit: Unit, better: Better, values: Floats) -> Terms:
        return Terms(
            name=of, unit=unit, better=better, low=values[:, :, 0], high=values[:, :, 1], counts=counts,
            horizon_s=horizon_s, block_s=block_length_s(horizon_s), note=note,
        )  # fmt: skip

    return [terms("hit_rate", "share", "higher", hits), terms("brier", "score", "lower", errors)]


def _blind(case_id: str, one: Judged | None, returns: Returns, horizon_s: int) -> float:
    """Return the share of repeats that acted on an asset without a price at this horizon."""
    if one is None:
        return 0.0
    without = [
        said
        for said in one.said
        if said.side
        and (case_id, said.asset) not in returns.untraded
        and (case_id, said.asset, horizon_s) not in returns.held
    ]
    return len(without) / len(one.said)


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
    counts, unknown = terms.counts, terms.unknown
    if not (counts[:, 0].any() and counts[:, 1].any()):
        return _result(terms, note=terms.note)
    if not np.isfinite([terms.low[unknown], terms.high[unknown]]).all():
        many = int(unknown.any(axis=1).sum())
        return _result(
            terms, note=f"{many:,} of its cases did not work in both runs, and nothing bounds what they come to"
        )
    labels = blocks_of([pair.at_s for pair in pairs], [pair.story_id for pair in pairs], terms.block_s)
    ends = [_end(terms, labels, how, b_at_most=False)]
    ends.append(_end(terms, labels, how, b_at_most=True) if unknown.any() else ends[0])
    known = [
        None if unknown[:, side].any() else float(terms.low[:, side].sum() / counts[:, side].sum()) for side in (0, 1)
    ]
    return _result(terms, known, ends)


def _end(terms: Terms, labels: Labels, how: Scoring, *, b_at_most: bool) -> Estimate:
    """Test the difference where B's unknown values are as large as they can be and A's as small, or the other way round."""
    a, b = (terms.low, terms.high) if b_at_most else (terms.high, terms.low)
    estimate, scores, shares = scores_of(a[:, 0], terms.counts[:, 0], b[:, 1], terms.counts[:, 1])
    return wild_bootstrap(estimate, scores, shares, labels, seed=how.seed, draws=how.draws)


def _result(
    terms: Terms, known: Sequence[float | None] = (None, None), ends: Sequence[Estimate] = (), *, note: str = ""
) -> MetricResult:
    a, b = known
    low, high = (ends[0], ends[1]) if ends else (None, None)
    counts, unknown = terms.counts, terms.unknown
    bounded = bool(unknown.any())
    same = low is not None and not bounded and _same(terms)
    p = low.pvalue if low is not None else None
    if bounded and low is not None and high is not None and p is not None:
        p = max(p, high.pvalue or 0.0) if (low.estimate > 0) == (high.estimate > 0) else 1.0
    if low is not None:
        note = "; ".join(filter(None, (terms.remark, _of_blocks(low.blocks, terms.block_s), _of_unknown(unknown))))
    return MetricResult(
        metric=terms.name,
        horizon=None if terms.horizon_s is None else HORIZONS[terms.horizon_s],
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
        detectable=None if low is None or high is None or terms.role == "shown" else _shown(low, high),
        verdict="not measured" if low is None else "identical" if same else "changed",
        note=note,
    )


def _same(terms: Terms) -> bool:
    return bool(
        np.array_equal(terms.low[:, 0], terms.low[:, 1]) and np.array_equal(terms.counts[:, 0], terms.counts[:, 1])
    )


def _shown(low: Estimate, high: Estimate) -> float | None:
    """Return the true difference that shows 4 times in 5, whatever the unknown values are: both ends have to be passed."""
    if low.detectable is None or high.detectable is None:
        return None
    return max(low.detectable, high.detectable) + high.estimate - low.estimate


def _of_blocks(blocks: int, block_s: int) -> str:
    length = block_s // 86_400
    of = "days" if length == 1 else f"blocks of {length} days"
    if blocks < MIN_BLOCKS:
        return f"too few days: {blocks} {of}, and a test needs {MIN_BLOCKS}"
    return f"few blocks: {blocks} {of}" if blocks < FEW_BLOCKS else ""


def _of_unknown(unknown: npt.NDArray[np.bool_]) -> str:
    many = int(unknown.any(axis=1).sum())
    return f"{many:,} cases are not known in both runs: what they may come to is taken both ways" if many else ""


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
