"""Segments: the profit of the cases in A and in B by event type, source and so on, with a test of whether segments differ.

A mean over all cases hides a change that helps one half and harms the other. So each comparison is split by the news (source,
language, month) and by what A read in it (event type, asset, path, confidence, verdict). Only cases that worked in both runs.

What A read is shown and not tested: two readings of one prompt differ there too, for where A acted B can only act less
(regression to the mean; a test called that a difference in 13 % of 2,000 nulls).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import msgspec
import numpy as np

from evaluation.compare.metrics import SIGNIFICANT, Floats, Verdict
from evaluation.compare.pairing import Pair
from evaluation.compare.terms import Scoring, Terms
from evaluation.statistics.blocks import MIN_BLOCKS, Labels, grid_of, heterogeneity, holm, mean_of

MOST = 12
"""Segments of one dimension; the smaller ones are put together as :data:`OTHER`."""
OTHER = "(other)"


class Segment(msgspec.Struct, frozen=True, kw_only=True):
    """The mean profit of one part of the cases in A and B, and the difference with its 95 % interval.

    ``p_holm`` is corrected for the segments of its dimension. None: too few blocks for a test.
    """

    value: str
    cases: int
    blocks: int
    a: float
    b: float
    delta: float
    low: float | None
    high: float | None
    p_holm: float | None
    verdict: Verdict


class Dimension(msgspec.Struct, frozen=True, kw_only=True):
    """One way to split the cases. ``p_holm``: of "all segments differ from A by the same", corrected for all dimensions.

    Segments have a verdict only where that is rejected (``differs``): else what looks like a difference is chance.
    """

    name: str
    differs: bool
    p: float | None
    p_holm: float | None
    note: str
    segments: tuple[Segment, ...]


def _of_a(word: str) -> Callable[[Pair], str]:
    def found(pair: Pair) -> str:
        # Without a signal in A, what B says of the case.
        return next(
            (value for judged in (pair.a, pair.b) if judged is not None and (value := getattr(judged, word))), "(none)"
        )

    return found


def _band(pair: Pair) -> str:
    confidence = None if pair.a is None else pair.a.confidence
    if confidence is None:
        return "(none)"
    low = min(int(confidence * 5 + 1e-9), 4)
    return f"{low / 5:.1f} to {(low + 1) / 5:.1f}"


OF_THE_NEWS = frozenset({"source", "language", "month"})
DIMENSIONS: dict[str, Callable[[Pair], str]] = {
    "source": lambda pair: pair.source or "(none)",
    "language": lambda pair: pair.language or "(none)",
    "month": lambda pair: f"{datetime.fromtimestamp(pair.at_s, UTC):%Y-%m}",
    "event_type": _of_a("event_type"),
    "asset": _of_a("asset"),
    "path": lambda pair: pair.path_a,
    "confidence": _band,
    "verdict": lambda pair: (pair.a.verdict if pair.a is not None else "") or "(none)",
}


def split_by_segment(pairs: Sequence[Pair], profit: Terms, how: Scoring) -> tuple[Dimension, ...]:
    """Split the profit by each of :data:`DIMENSIONS` that has two values or more."""
    use = np.logical_and((profit.counts > 0).all(axis=1), ~profit.unknown.any(axis=1))
    chosen = [pair for pair, used in zip(pairs, use.tolist(), strict=True) if used]
    if not chosen:
        return ()
    x = profit.low[use]
    more = x[:, 1] - x[:, 0]
    labels = grid_of([pair.at_s for pair in chosen], more, np.full(len(more), 1 / len(more)), profit.block_s).labels
    dimensions = [
        _dimension(name, [of(pair) for pair in chosen], x, labels, how)
        for name, of in DIMENSIONS.items()
        if len({of(pair) for pair in chosen}) > 1
    ]
    measured = [n for n, dimension in enumerate(dimensions) if dimension.p is not None]
    corrected = dict(zip(measured, holm([dimensions[n].p or 0.0 for n in measured]), strict=True))
    return tuple(_with_verdicts(dimension, corrected.get(n)) for n, dimension in enumerate(dimensions))


def _dimension(name: str, values: Sequence[str], x: Floats, labels: Labels, how: Scoring) -> Dimension:
    grouped = _grouped(values)
    names = sorted(set(grouped), key=lambda value: (-grouped.count(value), value))
    number = np.array([names.index(value) for value in grouped], dtype=np.intp)
    segments = [_segment(value, x[number == n], labels[number == n], how) for n, value in enumerate(names)]
    testable = [n for n, segment in enumerate(segments) if segment.blocks >= MIN_BLOCKS]
    inside = np.isin(number, testable)
    left_out = len(names) - len(testable)
    p = None
    if len(testable) > 1 and name in OF_THE_NEWS:
        renumbered = np.searchsorted(np.array(testable), number[inside]) if testable else number[inside]
        within = np.unique(labels[inside], return_inverse=True)[1].astype(np.intp)
        p = heterogeneity(x[inside, 1] - x[inside, 0], within, renumbered, seed=how.seed, draws=how.draws)
        p = None if p is None or not how.factor else min(1.0, how.factor * p)
    if name in OF_THE_NEWS and not how.factor:
        note = how.note
    elif name not in OF_THE_NEWS:
        note = "not tested, because A itself chose it: a second run of A would differ here, too"
    else:
        note = f"{left_out} of {len(names)} in fewer than {MIN_BLOCKS} blocks of days: not tested" if left_out else ""
    tests = [segments[n].p_holm for n in testable]
    tested = how.factor and name in OF_THE_NEWS
    corrected = dict(zip(testable, holm([p or 0.0 for p in tests]), strict=True)) if tested else {}
    corrected_segments = [
        msgspec.structs.replace(segment, p_holm=corrected.get(n)) for n, segment in enumerate(segments)
    ]
    return Dimension(name=name, differs=False, p=p, p_holm=None, note=note, segments=tuple(corrected_segments))


def _grouped(values: Sequence[str]) -> list[str]:
    """Merge all but the most frequent values into one."""
    counts = {value: sum(other == value for other in values) for value in set(values)}
    kept = set(sorted(counts, key=lambda value: (-counts[value], value))[: MOST if len(counts) <= MOST else MOST - 1])
    return [value if value in kept else OTHER for value in values]


def _segment(value: str, x: Floats, labels: Labels, how: Scoring) -> Segment:
    estimate = mean_of(x[:, 1] - x[:, 0], labels, seed=how.seed, draws=how.draws, factor=how.factor)
    return Segment(
        value=value,
        cases=len(x),
        blocks=estimate.blocks,
        a=float(x[:, 0].mean()),
        b=float(x[:, 1].mean()),
        delta=estimate.estimate,
        low=estimate.low,
        high=estimate.high,
        p_holm=estimate.pvalue,
        verdict="identical" if np.array_equal(x[:, 0], x[:, 1]) else "not distinguishable",
    )


def _with_verdicts(dimension: Dimension, p_holm: float | None) -> Dimension:
    differs = p_holm is not None and p_holm < SIGNIFICANT
    segments = [_judged(segment) for segment in dimension.segments] if differs else dimension.segments
    return msgspec.structs.replace(dimension, p_holm=p_holm, differs=differs, segments=tuple(segments))


def _judged(segment: Segment) -> Segment:
    if segment.p_holm is None or segment.p_holm >= SIGNIFICANT or not segment.delta:
        return segment
    return msgspec.structs.replace(segment, verdict="better" if segment.delta > 0 else "worse")
