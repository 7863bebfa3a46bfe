"""Counts, scores and corrections: beside scipy where it has them, by hand where it has not."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from newsproof.evaluation.statistics import (
    brier,
    calibration_gaps,
    ece,
    hit_rate,
    holm,
    mcnemar_by_story,
    mcnemar_exact,
    wilson,
)
from newsproof.evaluation.statistics.calibration import Floats


@pytest.mark.parametrize(("b", "c"), [(0, 0), (0, 1), (1, 0), (0, 6), (3, 9), (10, 10), (140, 90), (3_000, 2_800)])
def test_mcnemar_is_the_binomial_test_of_discordant_pairs(b: int, c: int) -> None:
    expected = stats.binomtest(b, b + c, 0.5).pvalue if b + c else 1.0
    assert mcnemar_exact(b, c) == pytest.approx(expected, rel=1e-9)
    assert mcnemar_exact(c, b) == mcnemar_exact(b, c)


def test_mcnemar_of_nine_against_one_by_hand() -> None:
    assert mcnemar_exact(1, 9) == 2 * (1 + 10) / 1024


def test_a_story_counts_once_for_mcnemar_by_the_sign_of_its_sum() -> None:
    told_six_times = [("fork", 1.0)] * 6
    assert mcnemar_by_story([*told_six_times, ("hack", -1.0), ("etf", 0.0)]) == (1, 1, 1.0)
    assert mcnemar_by_story([("fork", 1.0), ("fork", -1.0)]) == (0, 0, 1.0)
    third = 1 / 3  # of three repeats
    assert mcnemar_by_story([("fork", third), ("fork", third), ("fork", third - 1.0)])[:2] == (0, 0)


@pytest.mark.parametrize(("k", "n"), [(0, 9), (1, 3), (5, 10), (97, 100), (10, 10)])
def test_wilson_is_that_of_scipy(k: int, n: int) -> None:
    expected = stats.binomtest(k, n).proportion_ci(method="wilson")
    assert wilson(k, n) == (pytest.approx(expected.low, abs=1e-12), pytest.approx(expected.high, abs=1e-12))


def test_of_nothing_wilson_says_nothing() -> None:
    assert wilson(0, 0) == (0.0, 1.0)


def test_holm_by_hand() -> None:
    # In order: 0.005 x 4, 0.01 x 3, 0.03 x 2, 0.04 x 1, and never below the one before.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.6]) == [1.0, 1.0]
    assert holm([0.02, 0.02]) == [0.04, 0.04]
    assert holm([]) == []


def test_brier_by_hand() -> None:
    assert brier([1.0, 0.5, 0.2], [1, 0, 0]) == pytest.approx((0.0 + 0.25 + 0.04) / 3)
    assert brier([0.5] * 4, [1, 0, 1, 1]) == 0.25


def test_ece_by_hand() -> None:
    # 0.8 and 0.9 hold 0.8 … 0.9 (one of two came true: |0.85 - 0.5| x 2); 0.3 its own bin (|0.3 - 0| x 1).
    assert ece([0.82, 0.88, 0.3], [1, 0, 0]) == pytest.approx((abs(1.70 - 1) + 0.3) / 3)
    assert ece([0.75, 0.75, 0.75, 0.75], [1, 1, 1, 0]) == 0.0
    assert ece([1.0, 0.0], [1, 0]) == 0.0


def test_a_probability_on_the_edge_of_a_bin_belongs_to_the_upper_one() -> None:
    edges = [n / 10 for n in range(11)]
    gaps: Floats = calibration_gaps(*(np.array(v) for v in (edges, [2.0] * 11)))
    assert [int(row.nonzero()[0][0]) for row in gaps] == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 9]


def test_hit_rate_by_hand() -> None:
    assert hit_rate([1, 0, 0, 1, 1]) == 0.6


def test_scores_of_nothing_or_of_no_probabilities_are_refused() -> None:
    for score in (brier, ece):
        with pytest.raises(ValueError, match="nothing to score"):
            score([], [])
        with pytest.raises(ValueError, match="one hit for each"):
            score([0.5], [1, 0])
    with pytest.raises(ValueError, match="nothing to score"):
        hit_rate([])
    with pytest.raises(ValueError, match="outside 0 to 1"):
        ece([1.2], [1])
