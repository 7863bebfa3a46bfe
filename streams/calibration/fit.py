"""The fit of a calibration map: from samples, which are signals with known outcomes, to curves and the selling rule. Pure.

Prequential (Dawid 1984, JRSS A 147, 278-292): a map contains only outcomes that were known at its ``as_of``, and no sample
whose time was not up by then. Otherwise the last 14 days of claims would be the denied ones alone: a denial is known before the
14 days are over, and that there was none is not.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from agents.calibration import clipped_logit
from schemas.calibration import STOOD, CalibrationMap, Curve
from streams.reputation.intervals import wilson

WINDOW = timedelta(days=180)
"""Samples that began to count earlier than this before ``as_of`` no longer do."""
STANDS_FOR = timedelta(days=14)
"""Time after its decision for which a claim has to stand."""
CURVE_FROM = 50
"""Minimum stories of a curve."""
GROUP_FROM = 200
"""Minimum stories of a curve of one event type in one language."""
NOTHING_SOLD = 2.0
"""``sell_from`` if no threshold keeps the false share: no confidence reaches it."""
DIGITS = 10
"""Decimals of a curve's numbers, so that the order of a sum changes no byte of a map."""
_STEPS = 50
_CONVERGED = 1e-12

Floats = NDArray[np.float64]


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One signal and whether its target came true.

    ``target``: :data:`schemas.calibration.STOOD` or a name made by :func:`schemas.calibration.moved`. ``story``: the story's id.
    ``confidence``: raw, 0-1. ``decided_at`` and ``known_at`` (UTC): when the signal was decided, and when its outcome (exit
    price, label or the end of the 14 days) was known.
    """

    target: str
    story: str
    confidence: float
    outcome: Literal[0, 1]
    event_type: str
    language: str
    decided_at: datetime
    known_at: datetime


def fit_map(samples: Iterable[Sample], as_of: datetime, *, false_share: float | None) -> CalibrationMap:
    """Return the map of everything that was known at ``as_of`` (UTC).

    A story counts once per target: its first sample. A target has a curve of all its stories from ``CURVE_FROM`` stories, and
    one of each event type and language from ``GROUP_FROM``. Guarantees: the same samples in any order give the same bytes, and
    samples with ``known_at`` after ``as_of`` change none.

    ``false_share``: the selling rule's largest share of false claims, as in :func:`sell_from`; None: no rule.
    """
    known = _first_of_stories(_known_before(samples, as_of))
    curves = []
    for target, of_target in groupby(known, key=lambda s: s.target):
        groups: dict[tuple[str, str], list[Sample]] = defaultdict(list)
        for sample in of_target:
            groups["", ""].append(sample)
            if sample.event_type and sample.language:
                groups[sample.event_type, sample.language].append(sample)
        for (event_type, language), group in sorted(groups.items(), key=lambda item: item[0]):
            if len(group) >= (GROUP_FROM if event_type else CURVE_FROM):
                curves.append(_curve(target, event_type, language, group))
    stood = [sample for sample in known if sample.target == STOOD]
    threshold = None if false_share is None else sell_from(stood, false_share)
    return CalibrationMap(as_of=as_of, curves=tuple(curves), sell_from=threshold)


def stories_with_outcomes(samples: Iterable[Sample], as_of: datetime) -> dict[str, int]:
    """Return target → number of stories that :func:`fit_map` counts for it."""
    return dict(Counter(sample.target for sample in _first_of_stories(_known_before(samples, as_of))))


def sell_from(stood: Sequence[Sample], false_share: float) -> float:
    """Return the smallest raw confidence from which the share of false claims is at most ``false_share``.

    The upper bound of Wilson's 95 % interval has to keep it, over the samples with at least this confidence.
    :data:`NOTHING_SOLD` if no confidence does.
    """
    lowest, false, count = NOTHING_SOLD, 0, 0
    for confidence, group in groupby(sorted(stood, key=lambda s: -s.confidence), key=lambda s: s.confidence):
        outcomes = [sample.outcome for sample in group]
        count += len(outcomes)
        false += outcomes.count(0)
        if wilson(false, count)[1] <= false_share:
            lowest = confidence
    return lowest


def fit_platt(logits: Floats, outcomes: Floats) -> tuple[float, float, tuple[float, float, float]]:
    """Return intercept, slope and covariance (variance, covariance, variance) of ``logit(p) = intercept + slope * logit``.

    It maximises the likelihood minus ``(intercept**2 + (slope - 1)**2) / 2``, which is a normal prior of variance 1 on the
    identity, by Newton's method with halved steps. The covariance is Laplace's: the inverse of the Hessian there.

    Source: Platt 1999, "Probabilistic outputs for support vector machines"; MacKay 1992, Neural Computation 4, 720-736.
    """
    identity = np.array([0.0, 1.0])
    inputs = np.column_stack([np.ones_like(logits), logits])

    def loss(at: Floats) -> float:
        eta = inputs @ at
        return float(np.sum(np.logaddexp(0.0, eta) - outcomes * eta) + np.sum((at - identity) ** 2) / 2.0)

    def hessian(p: Floats) -> Floats:
        curvature: Floats = inputs.T @ (inputs * (p * (1.0 - p))[:, None]) + np.eye(2)
        return curvature

    at, best = identity, loss(identity)
    for _ in range(_STEPS):
        p = 1.0 / (1.0 + np.exp(-(inputs @ at)))
        step = np.linalg.solve(hessian(p), inputs.T @ (outcomes - p) - (at - identity))
        while (now := loss(at + step)) > best and np.max(np.abs(step)) > _CONVERGED:
            step = step / 2.0
        at, best = at + step, now
        if np.max(np.abs(step)) <= _CONVERGED:
            break
    p = 1.0 / (1.0 + np.exp(-(inputs @ at)))
    covariance = np.linalg.inv(hessian(p))
    return float(at[0]), float(at[1]), (float(covariance[0, 0]), float(covariance[0, 1]), float(covariance[1, 1]))


def _known_before(samples: Iterable[Sample], as_of: datetime) -> list[Sample]:
    return [sample for sample in samples if as_of - WINDOW < _counts_from(sample) <= as_of]


def _counts_from(sample: Sample) -> datetime:
    """Return when the outcome was known and the target's time was up."""
    time = STANDS_FOR if sample.target == STOOD else timedelta(seconds=int(sample.target.partition(":")[2]))
    return max(sample.known_at, sample.decided_at + time)


def _first_of_stories(samples: Iterable[Sample]) -> list[Sample]:
    """Return each story's first sample per target, in an order that does not depend on the given one."""

    def order(s: Sample) -> tuple[Any, ...]:
        return s.target, s.story, s.decided_at, s.known_at, s.confidence, s.outcome, s.event_type, s.language

    return [next(story) for _, story in groupby(sorted(samples, key=order), key=lambda s: (s.target, s.story))]


def _curve(target: str, event_type: str, language: str, group: Sequence[Sample]) -> Curve:
    logits = np.array([clipped_logit(sample.confidence) for sample in group])
    intercept, slope, covariance = fit_platt(logits, np.array([float(sample.outcome) for sample in group]))
    v_intercept, common, v_slope = (round(number, DIGITS) for number in covariance)
    return Curve(
        target=target,
        stories=len(group),
        intercept=round(intercept, DIGITS),
        slope=round(slope, DIGITS),
        covariance=(v_intercept, common, v_slope),
        event_type=event_type,
        language=language,
    )
