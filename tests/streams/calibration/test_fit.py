"""The fit of a calibration map: what it takes, what it leaves out, and that nothing later reaches it."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace
from scipy import optimize

from agents.calibration import clipped_logit, probability
from schemas.calibration import STOOD, CalibrationMap, moved
from streams.calibration.fit import (
    CURVE_FROM,
    GROUP_FROM,
    NOTHING_SOLD,
    STANDS_FOR,
    WINDOW,
    Sample,
    fit_map,
    fit_platt,
    sell_from,
)
from streams.reputation.intervals import wilson

HOUR = moved(3600)
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
LATER = BEGIN + timedelta(days=40)


def samples(
    count: int, target: str = HOUR, seed: int = 1, event_type: str = "hack", language: str = "en"
) -> list[Sample]:
    """Return one sample a story, four an hour, of an overconfident forecaster."""
    rng = random.Random(seed)
    found = []
    for n in range(count):
        confidence = round(rng.betavariate(5, 2.5), 2)
        outcome = rng.random() < probability(-0.4 + 0.6 * clipped_logit(confidence))
        decided_at = BEGIN + timedelta(minutes=15 * n)
        known_at = decided_at + (STANDS_FOR if target == STOOD else timedelta(hours=1))
        found.append(
            Sample(
                target=target, story=f"{event_type}-{language}-{n:04d}", confidence=confidence, outcome=1 if outcome else 0,
                event_type=event_type, language=language, decided_at=decided_at, known_at=known_at,
            )
        )  # fmt: skip
    return found


def fitted(given: list[Sample], as_of: datetime = LATER) -> CalibrationMap:
    return fit_map(given, as_of, false_share=None)


def test_a_fit_is_the_maximum_that_scipy_finds_and_its_covariance_the_inverse_of_the_curvature() -> None:
    rng = np.random.default_rng(3)
    logits = rng.normal(1.0, 1.5, 120)
    outcomes = (rng.random(120) < 1 / (1 + np.exp(0.5 - 0.4 * logits))).astype(float)

    def loss(at: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
        eta = at[0] + at[1] * logits
        return float(np.sum(np.logaddexp(0, eta) - outcomes * eta) + (at[0] ** 2 + (at[1] - 1) ** 2) / 2)

    best = optimize.minimize(loss, [0.0, 1.0], method="BFGS", options={"gtol": 1e-9})
    intercept, slope, covariance = fit_platt(logits, outcomes)
    assert (intercept, slope) == pytest.approx(tuple(best.x), abs=1e-6)
    step, hessian = 1e-4, np.zeros((2, 2))
    for i, j in ((0, 0), (0, 1), (1, 0), (1, 1)):
        e = np.eye(2) * step
        corners = (e[i] + e[j], e[i] - e[j], -e[i] + e[j], -e[i] - e[j])
        up, across, back, down = (loss(best.x + corner) for corner in corners)
        hessian[i, j] = (up - across - back + down) / (4 * step * step)
    inverse = np.linalg.inv(hessian)
    assert covariance == pytest.approx((inverse[0, 0], inverse[0, 1], inverse[1, 1]), rel=1e-3)


def test_without_data_a_fit_is_the_identity_and_with_separated_data_it_stays_finite() -> None:
    none = np.array([])
    assert fit_platt(none, none) == (0.0, 1.0, (1.0, 0.0, 1.0))
    extreme = np.array([5.29] * 400 + [-5.29] * 400)
    intercept, slope, _ = fit_platt(extreme, np.array([0.0] * 400 + [1.0] * 400))
    assert intercept == pytest.approx(0.0, abs=1e-9) and -3.0 < slope < -0.5


def test_a_curve_needs_50_stories_and_a_group_200() -> None:
    assert fitted(samples(CURVE_FROM - 1)).curves == ()
    assert [(c.stories, c.event_type) for c in fitted(samples(GROUP_FROM - 1)).curves] == [(199, "")]
    both = fitted(samples(GROUP_FROM) + samples(60, language="zh") + samples(70, STOOD))
    named = [(c.target, c.event_type, c.language, c.stories) for c in both.curves]
    assert named == [(HOUR, "", "", 260), (HOUR, "hack", "en", 200), (STOOD, "", "", 70)]


def test_a_story_counts_once_by_its_first_case() -> None:
    first = samples(60)
    hour = timedelta(hours=1)
    again = [
        replace(s, confidence=0.99, outcome=0, decided_at=s.decided_at + hour, known_at=s.known_at + hour)
        for s in first
    ]
    assert fitted(again + first) == fitted(first)
    assert fitted(again) != fitted(first)


def test_the_same_samples_in_any_order_are_the_same_bytes() -> None:
    given = samples(230) + samples(90, STOOD) + samples(210, moved(300), language="zh")
    expected = msgspec.json.encode(fit_map(given, LATER, false_share=0.5))
    for seed in range(5):
        random.Random(seed).shuffle(given)
        assert msgspec.json.encode(fit_map(given, LATER, false_share=0.5)) == expected


def test_outcomes_that_became_known_later_change_no_earlier_map() -> None:
    cut = BEGIN + timedelta(days=17)
    given = samples(1800) + samples(1800, STOOD)
    days = [BEGIN + timedelta(days=n) for n in range(1, 35)]
    changed = [
        s if s.known_at <= cut else replace(s, outcome=0 if s.outcome else 1, known_at=s.known_at + timedelta(days=1))
        for s in given
    ]
    before, after = (
        [msgspec.json.encode(fit_map(of, day, false_share=0.6)) for day in days] for of in (given, changed)
    )
    known = sum(day <= cut for day in days)
    assert before[:known] == after[:known]
    assert before[known:] != after[known:], "the change is one that a fit could see"
    assert b"curves" in before[known - 1]


def test_outcomes_older_than_180_days_no_longer_count() -> None:
    given = samples(CURVE_FROM)
    first = given[0].known_at
    assert len(fitted(given, first + WINDOW - timedelta(seconds=1)).curves) == 1
    assert fitted(given, first + WINDOW).curves == ()


def test_a_claim_denied_early_counts_when_its_14_days_are_over_like_one_that_stood() -> None:
    given = samples(400, STOOD)
    denied = [s if s.outcome else replace(s, known_at=s.decided_at + timedelta(hours=2)) for s in given]
    for days in (13, 14, 15, 16):
        as_of = BEGIN + timedelta(days=days)
        assert fitted(denied, as_of) == fitted(given, as_of)


def test_the_selling_rule_is_the_smallest_confidence_whose_false_share_is_surely_small() -> None:
    given = [
        replace(s, confidence=0.5 + n // 40 / 10, outcome=0 if n % 40 < false else 1)
        for n, s in enumerate(samples(160, STOOD))
        for false in ((20, 6, 2, 1)[n // 40],)
    ]
    assert wilson(9, 120)[1] < 0.15 < wilson(29, 160)[1]
    assert sell_from(given, 0.15) == 0.6
    assert sell_from(given, 0.3) == 0.5
    assert sell_from(given, 0.01) == NOTHING_SOLD
    assert sell_from([], 0.5) == NOTHING_SOLD
    assert fit_map(given, LATER, false_share=0.15).sell_from == 0.6
    assert fit_map(given, LATER, false_share=None).sell_from is None
    assert fit_map(samples(160), LATER, false_share=0.5).sell_from == NOTHING_SOLD, "moves say nothing of truth"
