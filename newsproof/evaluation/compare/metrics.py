"""Measures pairs of cases: each metric in A and in B, the difference with its interval, and a significance verdict."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import msgspec
import numpy as np
import numpy.typing as npt

from newsproof.evaluation.compare.pairing import Judged, Pair
from newsproof.evaluation.compare.rows import HORIZONS, Hits
from newsproof.evaluation.statistics import (
    BINS,
    Interval,
    bin_of,
    cluster_sums,
    holm,
    interval_of,
    mcnemar_by_story,
    resampled_sums,
)

Floats = npt.NDArray[np.float64]
Unit = Literal["probability", "share", "usd", "ms", "score"]
Better = Literal["lower", "higher", "neither"]
Verdict = Literal["better", "worse", "higher", "lower", "not distinguishable", "identical", "changed", "not measured"]

SIGNIFICANT = 0.05


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One metric before it is tested: each aligned case's contribution, and whether it contributes (``use``).

    ``a`` and ``b`` have the shape (cases x k), with 0 where ``use`` is false. For ``k`` = 1 the figure is the sum over
    the cases divided by their number. For ``k`` > 1 (calibration error) it is the sum of the columns' absolute sums,
    divided likewise.
    """

    name: str
    unit: Unit
    better: Better
    use: npt.NDArray[np.bool_]
    a: Floats
    b: Floats
    horizon_s: int | None = None
    exact: bool = False
    """Whether McNemar's exact test over stories gives the p-value (hits) instead of the bootstrap."""
    tested: bool = True
    note: str = ""


class MetricResult(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the comparison. ``delta`` is ``b - a`` over the same ``cases``, with the 95 % interval ``low`` to
    ``high``.

    ``p`` is the metric's own p-value, ``p_holm`` the one corrected for all metrics and horizons of this comparison. An
    unmeasured value is None, never 0, and ``note`` says why.
    """

    metric: str
    horizon: str | None
    unit: Unit
    better: Better
    cases: int
    stories: int
    a: float | None
    b: float | None
    delta: float | None
    low: float | None
    high: float | None
    p: float | None
    p_holm: float | None
    verdict: Verdict
    note: str

    @property
    def label(self) -> str:
        """The metric with its horizon, as ``--fail-on`` names it: ``brier@4h``."""
        return self.metric if self.horizon is None else f"{self.metric}@{self.horizon}"


def measure(pairs: Sequence[Pair], hits: tuple[Hits, Hits], *, seed: int, resamples: int) -> tuple[MetricResult, ...]:
    """Measure all metrics over the same draws of stories. ``hits``: those of A and of B. Equal arguments give equal
    figures.
    """
    samples = [*_of_cases(pairs), *(s for horizon in HORIZONS for s in _of_outcomes(pairs, hits, horizon))]
    stories = [a.story_id for a, _ in pairs]
    draws: dict[bytes, list[Sample]] = {}
    for sample in samples:
        draws.setdefault(sample.use.tobytes(), []).append(sample)
    found: dict[tuple[str, int | None], MetricResult] = {}
    for group in draws.values():
        for sample, result in zip(group, _measured(group, stories, seed, resamples), strict=True):
            found[sample.name, sample.horizon_s] = result
    return _judged([found[sample.name, sample.horizon_s] for sample in samples])


def _of_cases(pairs: Sequence[Pair]) -> list[Sample]:
    every = np.ones(len(pairs), dtype=bool)
    both_say = np.array([bool(a.verdict and b.verdict) for a, b in pairs])
    calls = [a.executed > 0 and a.executed == b.executed for a, b in pairs]
    return [
        _sample(pairs, "confidence", lambda one: one.confidence, "probability", note="no case has a signal in both"),
        _sample(pairs, "action_rate", lambda one: one.acts, "share"),
        _flips("action_flips", [a.action != b.action for a, b in pairs], every),
        _flips("verdict_flips", [a.verdict != b.verdict for a, b in pairs], both_say),
        _sample(pairs, "cost", lambda o: o.cost_usd, "usd", "lower", also=calls, note=_why_no_calls(pairs, calls)),
        _sample(pairs, "full_cost", lambda o: o.full_cost_usd, "usd", "lower", note="no case's price is fully known"),
        _sample(pairs, "latency", lambda o: o.latency_ms, "ms", "lower", also=calls, note=_why_no_calls(pairs, calls)),
    ]


def _sample(
    pairs: Sequence[Pair],
    name: str,
    value: Callable[[Judged], float | None],
    unit: Unit,
    better: Better = "neither",
    *,
    also: Sequence[bool] | None = None,
    note: str = "",
) -> Sample:
    values = np.array([[_or_nan(value(a)), _or_nan(value(b))] for a, b in pairs])
    use = ~np.isnan(values).any(axis=1)
    if also is not None:
        use &= np.array(also)
    values[~use] = 0.0
    return Sample(name=name, unit=unit, better=better, use=use, a=values[:, :1], b=values[:, 1:], note=note)


def _flips(name: str, flipped: Sequence[bool], use: npt.NDArray[np.bool_]) -> Sample:
    b = (np.array(flipped) & use).astype(np.float64)[:, None]
    note = "no case has a verdict in both: signals of schema 1 have none"
    return Sample(name=name, unit="share", better="neither", use=use, a=np.zeros_like(b), b=b, tested=False, note=note)


def _or_nan(value: float | None) -> float:
    return np.nan if value is None else value


def _why_no_calls(pairs: Sequence[Pair], alike: Sequence[bool]) -> str:
    one, other = (any(pair[side].executed for pair in pairs) for side in (0, 1))
    if not one and not other:
        return "nothing was executed"
    if not (one and other):
        return f"nothing was executed in {'B' if one else 'A'}; full_cost compares the cost without a recording"
    if not any(alike):
        return "A and B executed different numbers of calls in every case; full_cost compares them without a recording"
    return "the price or latency of a call is unknown in every case"


def _of_outcomes(pairs: Sequence[Pair], hits: tuple[Hits, Hits], horizon_s: int) -> list[Sample]:
    """Sample hits, squared errors and calibration gaps of the cases with a known hit in both runs."""
    known = [found.get(horizon_s, {}) for found in hits]
    scored = [_scores(one, known[side]) for pair in pairs for side, one in enumerate(pair)]
    table = np.array(scored).reshape(len(pairs), 2, -1)
    use = ~np.isnan(table).any(axis=(1, 2))
    table[~use] = 0.0
    note = f"no outcomes at {HORIZONS[horizon_s]}: newsproof outcomes import" if not any(known) else _NO_DIRECTION

    def sample(name: str, unit: Unit, better: Better, columns: slice, *, exact: bool = False) -> Sample:
        return Sample(
            name=name,
            unit=unit,
            better=better,
            use=use,
            a=table[:, 0, columns],
            b=table[:, 1, columns],
            horizon_s=horizon_s,
            exact=exact,
            note=note,
        )

    return [
        sample("hit_rate", "share", "higher", slice(0, 1), exact=True),
        sample("brier", "score", "lower", slice(1, 2)),
        sample("ece", "score", "lower", slice(2, None)),
    ]


_NO_DIRECTION = "no case has an outcome that counts in both (v_outcome_coverage says why)"
_NOT_SCORED = [np.nan] * (2 + BINS)


def _scores(one: Judged, hits: Mapping[tuple[str, int], int]) -> list[float]:
    """Return the hit, squared error and gap in each bin, each averaged over the repeats with a known hit."""
    known = [
        (said, hit)
        for repeat, said in zip(one.repeats, one.said, strict=True)
        if (hit := hits.get((one.case_id, repeat))) is not None
    ]
    if not known:
        return _NOT_SCORED
    row = [0.0] * len(_NOT_SCORED)
    for said, hit in known:
        row[0] += hit / len(known)
        row[1] += (said - hit) ** 2 / len(known)
        row[2 + bin_of(said)] += (said - hit) / len(known)
    return row


def _measured(group: Sequence[Sample], stories: Sequence[str], seed: int, resamples: int) -> list[MetricResult]:
    use = group[0].use
    if not use.any():
        return [_result(sample, None, None, None) for sample in group]
    of_case = [story for story, used in zip(stories, use, strict=True) if used]
    columns = np.column_stack(
        [np.ones(len(of_case)), *(part[use] for sample in group for part in (sample.a, sample.b))]
    )
    sums = cluster_sums(columns, of_case)
    drawn = resampled_sums(sums, seed=seed, resamples=resamples)
    results, start = [], 1
    for sample in group:
        width = sample.a.shape[1]
        parts = (slice(start, start + width), slice(start + width, start + 2 * width))
        totals = columns.sum(axis=0)[None, :]
        a, b = (float(_figure(totals[:, part], totals[:, 0])[0]) for part in parts)
        spread = _figure(drawn[:, parts[1]], drawn[:, 0]) - _figure(drawn[:, parts[0]], drawn[:, 0])
        interval = interval_of(b - a, spread, clusters=len(sums), observations=len(of_case))
        results.append(_result(sample, a, b, interval, of_case))
        start += 2 * width
    return results


def _figure(sums: Floats, count: Floats) -> Floats:
    whole = np.abs(sums).sum(axis=1) if sums.shape[1] > 1 else sums[:, 0]
    return np.asarray(whole / count, dtype=np.float64)


def _result(
    sample: Sample, a: float | None, b: float | None, interval: Interval | None, stories: Sequence[str] = ()
) -> MetricResult:
    same = interval is not None and bool(np.array_equal(sample.a, sample.b))
    p, note = interval.pvalue if interval and sample.tested else None, sample.note if interval is None else ""
    if interval is not None and interval.low is None:
        note = f"only {interval.clusters} stories: too few for an interval"
    elif interval is not None and sample.exact and not same:
        changes = (sample.b - sample.a)[sample.use, 0]
        worse, better, p = mcnemar_by_story(zip(stories, changes.tolist(), strict=True))
        note = f"{better} stories hit more often, {worse} less; McNemar"
    return MetricResult(
        metric=sample.name,
        horizon=None if sample.horizon_s is None else HORIZONS[sample.horizon_s],
        unit=sample.unit,
        better=sample.better,
        cases=interval.observations if interval else 0,
        stories=interval.clusters if interval else 0,
        a=a,
        b=b,
        delta=interval.estimate if interval else None,
        low=interval.low if interval else None,
        high=interval.high if interval else None,
        p=p,
        p_holm=None,
        verdict="not measured" if interval is None else "identical" if same else "changed",
        note=note,
    )


def _judged(results: Sequence[MetricResult]) -> tuple[MetricResult, ...]:
    # When all pairs are equal no test can reject, so the metric does not count in the correction (Tarone 1990,
    # Biometrics 46, 515-522).
    tested = [n for n, result in enumerate(results) if result.p is not None and result.verdict != "identical"]
    corrected = dict(zip(tested, holm([results[n].p or 0.0 for n in tested]), strict=True))
    return tuple(_with_verdict(result, corrected.get(n)) for n, result in enumerate(results))


def _with_verdict(result: MetricResult, p_holm: float | None) -> MetricResult:
    if result.verdict in ("not measured", "identical") or result.metric in ("action_flips", "verdict_flips"):
        return msgspec.structs.replace(result, p_holm=p_holm)
    verdict: Verdict = "not distinguishable"
    if p_holm is not None and p_holm < SIGNIFICANT and result.delta:
        verdict = "higher" if result.delta > 0 else "lower"
        if result.better != "neither":
            verdict = "better" if verdict == result.better else "worse"
    return msgspec.structs.replace(result, p_holm=p_holm, verdict=verdict)
