"""The wild bootstrap over blocks: beside its definition, by hand, beside a t test, and on nulls whose truth is known."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from evaluation.statistics.blocks import (
    DAY_S,
    MIN_BLOCKS,
    Estimate,
    Floats,
    Labels,
    block_length_s,
    blocks_of,
    grid_of,
    heterogeneity,
    holm,
    mean_of,
    scores_of,
    share_interval,
    t_quantile,
    t_two_sided,
    wild_bootstrap,
)
from evaluation.statistics.calibration import bin_of, brier_parts
from streams.reputation.intervals import wilson


def of(differences: Floats, labels: Labels | None = None, seed: int = 0, draws: int = 1_999) -> Estimate:
    """Test paired differences, each a block of its own unless labelled."""
    ones = np.ones(len(differences))
    estimate, scores, shares = scores_of(np.zeros(len(differences)), ones, differences, ones)
    return wild_bootstrap(
        estimate, scores, shares, np.arange(len(differences)) if labels is None else labels, seed=seed, draws=draws
    )


def t_of(sums: Floats, sizes: Floats) -> float:
    """Return the t-statistic of a mean over clusters with these sums and sizes, written out."""
    mean = sums.sum() / sizes.sum()
    error = math.sqrt(((sums - sizes * mean) ** 2).sum())
    return abs(sums.sum()) / error if error else math.inf


@pytest.mark.parametrize("df", [1, 2, 3, 6, 19, 40, 9_999, 250_000])
@pytest.mark.parametrize("t", [0.0, 0.4, 2.1, 7.0])
def test_students_distribution_is_that_of_scipy(t: float, df: int) -> None:
    assert t_two_sided(t, df) == pytest.approx(2 * stats.t.sf(t, df), abs=1e-9, rel=1e-4)
    assert t_quantile(0.05, df) == pytest.approx(stats.t.ppf(0.975, df), rel=1e-4)


@pytest.mark.parametrize("seed", range(4))
def test_the_pvalue_of_few_blocks_is_the_share_of_all_signs_that_are_as_extreme(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 6, 8)
    labels = np.repeat(np.arange(8), sizes)
    differences = rng.normal(0.4, 1.0, len(labels))
    sums = np.bincount(labels, weights=differences)
    seen = t_of(sums, sizes)
    signed = [t_of(sums * signs, sizes) for signs in itertools.product((1.0, -1.0), repeat=8)]
    assert of(differences, labels).pvalue == pytest.approx(np.mean([t >= seen * (1 - 1e-9) for t in signed]))


def test_the_interval_holds_what_the_test_does_not_reject() -> None:
    differences = np.random.default_rng(3).normal(0.5, 1.0, 40)
    found = of(differences)
    assert found.low is not None and found.high is not None
    for edge, inwards in ((found.low, 1e-2), (found.high, -1e-2)):
        inside, outside = (of(differences - edge - step).pvalue for step in (inwards, -inwards))
        assert inside is not None and outside is not None and outside < 0.05 <= inside


def test_a_factor_multiplies_the_pvalue_widens_the_interval_and_at_none_leaves_it_alone() -> None:
    values, labels = np.random.default_rng(5).normal(0.6, 1.0, 40), np.arange(40)
    one, three, none = (mean_of(values, labels, seed=0, factor=factor) for factor in (1, 3, 0))
    assert one.pvalue and three.pvalue == pytest.approx(3 * one.pvalue) and none.pvalue is None
    assert three.low is not None and one.low is not None and three.low < one.low == none.low
    assert three.detectable is not None and one.detectable is not None and three.detectable > one.detectable


def test_with_many_blocks_it_is_about_a_t_test() -> None:
    differences = np.random.default_rng(4).normal(0.15, 1.0, 300)
    found, theirs = of(differences, draws=9_999), stats.ttest_1samp(differences, 0.0)
    interval = theirs.confidence_interval()
    assert found.pvalue == pytest.approx(theirs.pvalue, abs=0.01)
    assert (found.low, found.high) == (pytest.approx(interval.low, abs=0.015), pytest.approx(interval.high, abs=0.015))
    error = differences.std(ddof=1) / math.sqrt(300)
    assert found.detectable == pytest.approx((stats.t.ppf(0.975, 299) + stats.t.ppf(0.8, 299)) * error, rel=1e-3)


def test_a_constant_difference_has_an_interval_without_width_and_the_smallest_pvalue() -> None:
    found = of(np.full(8, 0.25))
    assert (found.low, found.high, found.pvalue) == (0.25, 0.25, 2 / 2**8)
    assert of(np.zeros(8)).pvalue == 1.0


def test_fewer_blocks_than_six_are_not_tested() -> None:
    found = of(np.arange(200.0), np.arange(200) % (MIN_BLOCKS - 1))
    assert (found.pvalue, found.low, found.high, found.detectable, found.blocks) == (None, None, None, None, 5)
    assert of(np.arange(200.0), np.arange(200) % MIN_BLOCKS).pvalue is not None


def test_a_day_told_ten_times_is_as_sure_as_told_once() -> None:
    once = np.random.default_rng(6).normal(0.0, 1.0, 30)
    single, tenfold = of(once), of(np.repeat(once, 10), np.repeat(np.arange(30), 10))
    assert (single.pvalue, single.blocks) == (tenfold.pvalue, tenfold.blocks)
    assert single.low == pytest.approx(tenfold.low)


def test_blocks_are_utc_days_or_twice_the_horizon() -> None:
    assert [block_length_s(horizon) for horizon in (0, 14_400, 43_200, 43_201, 604_800)] == [
        *(DAY_S, DAY_S, DAY_S, 86_402, 14 * DAY_S)
    ]
    assert blocks_of([0.0, DAY_S - 1.0, DAY_S, 3.5 * DAY_S, 9.0 * DAY_S], DAY_S).tolist() == [0, 0, 1, 2, 3]


def moods(seed: int, days: int, rho: float) -> Floats:
    """Return one number a day, each correlated with that of the day before by ``rho``."""
    drawn = np.random.default_rng(seed).standard_normal(days)
    for day in range(1, days):
        drawn[day] = rho * drawn[day - 1] + math.sqrt(1 - rho * rho) * drawn[day]
    return drawn


def by_grid(values: Floats, at_day: Floats | None = None) -> Estimate:
    """Test the mean of one value a day, in the blocks that its own correlation asks for."""
    at_s = (np.arange(len(values)) if at_day is None else at_day) * float(DAY_S)
    ones = np.ones(len(values))
    estimate, scores, shares = scores_of(np.zeros(len(values)), ones, values, ones)
    grid = grid_of(at_s, scores, shares, DAY_S)
    return wild_bootstrap(estimate, scores, shares, grid.labels, seed=0, draws=499, inflation=grid.inflation)


def test_days_that_depend_on_each_other_lie_in_longer_blocks_and_a_null_keeps_its_level() -> None:
    rho, days = 0.5, 120
    found = [by_grid(moods(seed, days, rho)) for seed in range(300)]
    assert np.mean([one.pvalue is None for one in found]) < 0.25
    assert np.mean([one.blocks for one in found]) < days / 6
    assert sum((one.pvalue or 1.0) < 0.05 for one in found if one.pvalue) <= stats.binom.ppf(0.999, 300, 0.055)
    # In blocks of a day they cry wolf.
    daily = [of(moods(seed, days, rho), draws=499).pvalue for seed in range(100)]
    assert np.mean([(p or 1.0) < 0.05 for p in daily]) > 0.15


def test_days_that_depend_too_strongly_are_not_tested_and_independent_ones_are() -> None:
    assert np.mean([by_grid(moods(seed, 40, 0.9)).pvalue is None for seed in range(100)]) > 0.95
    assert np.mean([by_grid(moods(seed, 40, 0.0)).pvalue is None for seed in range(200)]) < 0.05
    assert by_grid(moods(1, 6, 0.0)).pvalue is not None, "what can be chance costs a small sample nothing"
    apart = np.arange(40) * 30.0
    assert by_grid(moods(1, 40, 0.9), apart).blocks == 40, "days that are a month apart are no neighbours"
    constant = grid_of(np.arange(40) * float(DAY_S), np.full(40, 0.2 / 40), np.full(40, 1 / 40), DAY_S)
    assert (constant.length_s, constant.inflation) == (DAY_S, 1.0)


def test_scores_sum_to_the_difference_of_two_shares_over_other_cases() -> None:
    hit_a, in_a = np.array([1.0, 0.0, 1.0, 0.0]), np.array([1.0, 1.0, 1.0, 0.0])
    hit_b, in_b = np.array([1.0, 0.0, 0.0, 1.0]), np.array([1.0, 0.0, 0.0, 1.0])
    estimate, scores, shares = scores_of(hit_a, in_a, hit_b, in_b)
    assert estimate == pytest.approx(1.0 - 2 / 3)
    assert scores.sum() == pytest.approx(estimate)
    assert shares.sum() == pytest.approx(1.0)
    with pytest.raises(ValueError, match="no case"):
        scores_of(hit_a, in_a, hit_b, np.zeros(4))


@given(st.lists(st.floats(-1, 1, allow_nan=False), min_size=6, max_size=10), st.floats(0.01, 100))
def test_neither_sign_nor_unit_change_the_pvalue(differences: list[float], unit: float) -> None:
    values = np.array(differences)
    one = of(values).pvalue
    assert of(-values).pvalue == one
    assert of(values * unit).pvalue == pytest.approx(one)


def shared(seed: int, days: int, per_day: int, part: float, *, fat: bool = False) -> tuple[Floats, Labels]:
    """Return differences whose cases of a day share a part of the variance, and the days."""
    rng = np.random.default_rng(seed)
    draw = (lambda *shape: rng.standard_t(3, shape)) if fat else (lambda *shape: rng.standard_normal(shape))
    values = math.sqrt(part) * draw(days, 1) + math.sqrt(1 - part) * draw(days, per_day)
    return values.ravel(), np.repeat(np.arange(days), per_day)


@pytest.mark.parametrize(("days", "per_day", "part", "fat"), [(6, 40, 0.6, False), (40, 10, 0.6, True)])
def test_a_null_is_rejected_in_about_one_of_twenty(days: int, per_day: int, part: float, *, fat: bool) -> None:
    nulls = [shared(seed, days, per_day, part, fat=fat) for seed in range(400)]
    rejected = sum((of(*one, seed=n, draws=499).pvalue or 1.0) < 0.05 for n, one in enumerate(nulls))
    assert rejected <= stats.binom.ppf(0.999, 400, 0.05), rejected
    # Cases taken for independent cry wolf.
    wrongly = sum(stats.ttest_1samp(values, 0.0).pvalue < 0.05 for values, _ in nulls)
    assert wrongly > 3 * stats.binom.ppf(0.999, 400, 0.05), wrongly


def test_segments_that_differ_are_seen_and_a_common_shift_is_no_difference_between_them() -> None:
    values, labels = shared(1, 40, 10, 0.3)
    segments = np.arange(len(values)) % 4
    assert (heterogeneity(values + 5.0, labels, segments, seed=0, draws=999) or 0.0) > 0.05
    moved = values + np.where(segments < 2, 0.8, -0.8)
    assert (heterogeneity(moved, labels, segments, seed=0, draws=999) or 1.0) < 0.01
    assert heterogeneity(values, labels, np.where(labels < 3, 0, 1), seed=0) is None, "one segment lies on three days"


def test_segments_of_one_truth_differ_in_about_one_of_twenty() -> None:
    def rejects(seed: int) -> bool:
        values, labels = shared(seed, 20, 10, 0.6)
        segments = np.random.default_rng(seed).integers(0, 4, len(values))
        return (heterogeneity(values, labels, segments, seed=seed, draws=499) or 1.0) < 0.05

    assert sum(map(rejects, range(400))) <= stats.binom.ppf(0.999, 400, 0.05)


# Shares, scores and corrections


def test_the_interval_of_a_share_holds_its_level_with_six_blocks_that_differ() -> None:
    # Without the factor for so few blocks it holds 0.3 in 89 of 100.
    share, rng, within = 0.3, np.random.default_rng(1), 0.2
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
