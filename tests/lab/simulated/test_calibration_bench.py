"""The bench of calibration, on fewer seeds: it holds its targets, and its worlds are what it says."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest

from lab.bench.simulated.calibration import (
    BEGIN,
    CONFIDENCES,
    HOUR,
    WEIGHTS,
    changed_after,
    distance,
    draw,
    maps_of,
    one_brier,
    one_fit,
    one_log,
    one_rule,
    overconfident,
    simulated_log,
)

REPETITIONS = 60


def test_the_overconfident_truth_is_as_far_from_the_raw_confidence_as_the_page_says() -> None:
    assert distance(CONFIDENCES, overconfident) == pytest.approx(0.0243, abs=0.0001)
    confidences, outcomes = draw(np.random.default_rng(1), overconfident, 40_000)
    assert np.mean(confidences) == pytest.approx(WEIGHTS @ CONFIDENCES, abs=0.005)
    assert np.mean(outcomes) == pytest.approx(WEIGHTS @ [overconfident(c) for c in CONFIDENCES.tolist()], abs=0.01)


@pytest.mark.parametrize(("stories", "most"), [(20, 0.0243), (200, 0.0035), (1_000, 0.0008)])
def test_a_map_comes_nearer_to_the_truth_the_more_stories_there_are(stories: int, most: float) -> None:
    assert np.mean([one_fit("overconfident", stories, seed).distance for seed in range(REPETITIONS)]) < most


def test_intervals_cover_the_truth_in_about_95_of_100() -> None:
    for stories in (50, 200):
        share = np.mean([one_fit("overconfident", stories, seed).covered for seed in range(REPETITIONS)])
        assert 0.90 <= share <= 0.99  # four standard errors of 60 repetitions around the targets


@pytest.mark.parametrize("truth", ["overconfident", "in steps"])
def test_the_calibrated_brier_score_of_fresh_signals_is_not_above_the_raw_one(truth: str) -> None:
    assert sum(one_brier(truth, seed) for seed in range(40)) >= 39


def test_a_log_is_calibrated_day_by_day_by_what_was_known() -> None:
    found = one_log(3)
    assert found.calibrated < found.raw and found.changed == 0 and found.maps > 40
    assert 5 < found.first_day < 15 and found.signals > 600
    log, cut = simulated_log(3, days=60), 30
    before, after = (maps_of(each, 60) for each in (log, changed_after(log, BEGIN + timedelta(days=cut))))
    assert before[: cut + 1] == after[: cut + 1] and before[cut + 1] != after[cut + 1], "a fit sees a change at once"
    assert {curve.target for curve in before[-1].curves} == {HOUR, "stood"}


def test_the_selling_rule_keeps_its_share_and_sells_more_the_more_it_knows() -> None:
    few, many = ([one_rule(stories, seed) for seed in range(40)] for stories in (100, 400))
    for found in (few, many):
        assert sum(held for held, _ in found) >= 36
    assert np.mean([sold for _, sold in few]) < np.mean([sold for _, sold in many])
