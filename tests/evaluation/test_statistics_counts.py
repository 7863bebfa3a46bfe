"""Counts, scores and corrections: beside scipy where it has them, by hand where it has not."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from evaluation.statistics import bin_of, brier_parts, holm, share_interval
from streams.reputation.intervals import wilson


@pytest.mark.parametrize(("k", "n"), [(0, 9), (1, 3), (5, 10), (97, 100), (10, 10)])
def test_wilson_is_that_of_scipy(k: int, n: int) -> None:
    expected = stats.binomtest(k, n).proportion_ci(method="wilson")
    assert wilson(k, n) == (pytest.approx(expected.low, abs=1e-12), pytest.approx(expected.high, abs=1e-12))


def test_of_nothing_wilson_says_nothing() -> None:
    assert wilson(0, 0) == (0.0, 1.0)


@pytest.mark.parametrize("share", [0.3, 0.5])
def test_the_interval_of_a_share_holds_its_level_with_six_blocks_that_differ(share: float) -> None:
    # Without the factor for so few blocks it holds 0.3 in 89 and 0.5 in 90 of 100.
    rng, within = np.random.default_rng(1), 0.2
    labels = np.repeat(np.arange(6), 20)
    held = 0
    for _ in range(1000):
        of_blocks = rng.beta(share * (1 - within) / within, (1 - share) * (1 - within) / within, 6)
        low, high = share_interval((rng.random(120) < of_blocks[labels]).astype(float), labels) or (1.0, 0.0)
        held += low <= share <= high
    assert 930 <= held <= 970


@pytest.mark.parametrize(("hits", "of"), [(0, 3), (1, 2), (1, 3), (3, 7), (7, 10), (3, 3)])
def test_where_all_blocks_have_one_share_there_are_as_many_cases_as_blocks(hits: int, of: int) -> None:
    each = np.tile(np.arange(of) < hits, 10).astype(float)
    assert share_interval(each, np.repeat(np.arange(10), of)) == pytest.approx(wilson(10 * hits / of, 10))


def test_holm_by_hand() -> None:
    # In order: 0.005 x 4, 0.01 x 3, 0.03 x 2, 0.04 x 1, and never below the one before.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.6]) == [1.0, 1.0]
    assert holm([0.02, 0.02]) == [0.04, 0.04]
    assert holm([]) == []


def test_brier_and_its_parts_by_hand() -> None:
    # One bin: 0.82 and 0.88 (mean 0.85, one of two came); another: 0.3 (none came). Overall one of three.
    found = brier_parts([0.82, 0.88, 0.3], [1, 0, 0])
    assert found.brier == pytest.approx((0.18**2 + 0.88**2 + 0.09) / 3)
    assert found.reliability == pytest.approx((2 * 0.35**2 + 0.3**2) / 3)
    assert found.resolution == pytest.approx((2 * (0.5 - 1 / 3) ** 2 + (1 / 3) ** 2) / 3)
    assert found.uncertainty == pytest.approx(1 / 3 * 2 / 3)
    assert found.ece == pytest.approx((2 * 0.35 + 0.3) / 3)
    sum_of_parts = found.reliability - found.resolution + found.uncertainty + found.within_bins
    assert sum_of_parts == pytest.approx(found.brier)
    assert brier_parts([0.5] * 4, [1, 0, 1, 1]).brier == 0.25
    assert brier_parts([0.75] * 4, [1, 1, 1, 0]).ece == 0.0
    assert brier_parts([0.75] * 4, [1, 1, 1, 0]).within_bins == pytest.approx(0.0)


def test_a_probability_on_the_edge_of_a_bin_belongs_to_the_upper_one() -> None:
    assert [bin_of(n / 10) for n in range(11)] == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 9]


def test_scores_of_nothing_or_of_no_probabilities_are_refused() -> None:
    with pytest.raises(ValueError, match="nothing to score"):
        brier_parts([], [])
    with pytest.raises(ValueError, match="one hit for each"):
        brier_parts([0.5], [1, 0])
    with pytest.raises(ValueError, match="outside 0 to 1"):
        brier_parts([1.2], [1])
