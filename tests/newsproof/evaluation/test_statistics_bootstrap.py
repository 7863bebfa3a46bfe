"""The bootstrap beside scipy's, and what it says when there is nothing to find."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from newsproof.evaluation.statistics import MIN_CLUSTERS, cluster_sums, paired_bootstrap, resampled_sums
from newsproof.evaluation.statistics.student import NORMAL, t_quantile, t_two_sided

REPETITIONS = 200


@pytest.mark.parametrize("df", [1, 2, 3, 6, 19, 40, 9_999, 250_000])
@pytest.mark.parametrize("t", [0.0, 0.4, 2.1, 7.0])
def test_students_distribution_is_that_of_scipy(t: float, df: int) -> None:
    assert t_two_sided(t, df) == pytest.approx(2 * stats.t.sf(t, df), abs=1e-9, rel=1e-4)
    assert t_quantile(0.05, df) == pytest.approx(stats.t.ppf(0.975, df), rel=1e-4)


def test_without_clusters_the_interval_is_scipys_percentile_interval_at_the_widened_level() -> None:
    differences = np.random.default_rng(3).gamma(2.0, 0.05, size=60) - 0.08
    ours = paired_bootstrap(differences, range(60), seed=1, resamples=40_000)
    tail = NORMAL.cdf(-((60 / 59) ** 0.5) * stats.t.ppf(0.975, 59))
    theirs = stats.bootstrap(
        (differences,), np.mean, method="percentile", n_resamples=40_000, confidence_level=1 - 2 * tail, rng=2
    )
    error = theirs.standard_error
    assert ours.estimate == pytest.approx(differences.mean())
    # Both are estimates by lot: an endpoint of 40,000 resamples varies by about 1.5 % of a standard error.
    assert ours.low == pytest.approx(theirs.confidence_interval.low, abs=0.08 * error)
    assert ours.high == pytest.approx(theirs.confidence_interval.high, abs=0.08 * error)


def test_the_interval_agrees_with_bca_where_differences_are_nearly_symmetric() -> None:
    differences = np.random.default_rng(4).normal(0.02, 0.1, size=400)
    ours = paired_bootstrap(differences, range(400), seed=1, resamples=20_000)
    bca = stats.bootstrap((differences,), np.mean, method="BCa", n_resamples=20_000, rng=2)
    assert ours.low == pytest.approx(bca.confidence_interval.low, abs=0.1 * bca.standard_error)
    assert ours.high == pytest.approx(bca.confidence_interval.high, abs=0.1 * bca.standard_error)


@pytest.mark.slow
def test_the_pvalue_is_about_that_of_a_paired_t_test_and_crosses_five_percent_with_the_interval() -> None:
    rng = np.random.default_rng(5)
    for _ in range(20):
        differences = rng.normal(0.03, 0.1, size=50)
        found = paired_bootstrap(differences, range(50), seed=1, resamples=20_000)
        expected = stats.ttest_1samp(differences, 0.0).pvalue
        assert found.pvalue == pytest.approx(expected, abs=0.02)
        assert found.low is not None and found.high is not None and found.pvalue is not None
        if abs(found.pvalue - 0.05) > 0.002:
            assert (found.pvalue < 0.05) == (found.low > 0.0 or found.high < 0.0)


def test_a_story_told_ten_times_is_as_sure_as_told_once() -> None:
    once = np.random.default_rng(6).normal(0.0, 1.0, size=30)
    single = paired_bootstrap(once, range(30), seed=1)
    tenfold = paired_bootstrap(np.repeat(once, 10), np.repeat(range(30), 10).tolist(), seed=1)
    assert (tenfold.low, tenfold.high) == (pytest.approx(single.low), pytest.approx(single.high))
    assert (single.clusters, single.observations) == (30, 30)
    assert (tenfold.clusters, tenfold.observations) == (30, 300)


def test_the_same_seed_gives_the_same_interval_and_another_seed_another() -> None:
    differences = np.random.default_rng(7).normal(size=40)
    first, again, other = (paired_bootstrap(differences, range(40), seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert first.low != other.low


def test_pairs_that_are_all_equal_have_no_difference() -> None:
    same = paired_bootstrap(np.zeros(20), range(20), seed=1)
    assert (same.estimate, same.low, same.high, same.pvalue) == (0.0, 0.0, 0.0, 1.0)


def test_fewer_stories_than_could_ever_show_anything_get_no_interval() -> None:
    few = paired_bootstrap([0.5] * 10, ["a", "b", "c", "d", "e"] * 2, seed=1)
    assert (few.estimate, few.low, few.high, few.pvalue, few.clusters) == (0.5, None, None, None, MIN_CLUSTERS - 1)
    assert paired_bootstrap([0.5] * MIN_CLUSTERS, range(MIN_CLUSTERS), seed=1).low == 0.5


@pytest.mark.parametrize(("differences", "clusters"), [([], []), ([1.0], []), ([1.0], [1, 2])])
def test_differences_without_their_clusters_are_refused(differences: list[float], clusters: list[int]) -> None:
    with pytest.raises(ValueError, match="one cluster for each"):
        paired_bootstrap(differences, clusters, seed=1)


def test_sums_of_clusters_and_their_resamples_count_whole_stories() -> None:
    sums = cluster_sums(np.array([[1.0, 1.0], [2.0, 1.0], [4.0, 1.0]]), ["x", "y", "x"])
    assert sums.tolist() == [[5.0, 2.0], [2.0, 1.0]]
    drawn = resampled_sums(sums, seed=1, resamples=200)
    assert {tuple(row) for row in drawn.tolist()} == {(10.0, 4.0), (7.0, 3.0), (4.0, 2.0)}


def false_alarms(*, clustered: bool) -> int:
    """Repetitions of 200 in which A/A differs at the 5 % level: 40 stories of 1 to 6 cases, whose tellers err together."""
    alarms = 0
    for seed in range(REPETITIONS):
        rng = np.random.default_rng(10_000 + seed)
        stories = np.repeat(np.arange(40), rng.integers(1, 7, size=40))
        noise = [rng.normal(0, 0.05, 40)[stories] + rng.normal(0, 0.03, stories.size) for _ in "AB"]
        clusters = stories.tolist() if clustered else range(stories.size)
        found = paired_bootstrap(noise[1] - noise[0], clusters, seed=seed, resamples=1_000)
        assert found.pvalue is not None
        alarms += found.pvalue < 0.05
    return alarms


def test_a_against_a_differs_in_about_five_percent_of_200_repetitions() -> None:
    # 99.9 % of tests that hold their level of 5 % exactly stay within these counts of 200.
    least, most = (int(n) for n in stats.binom.interval(0.999, REPETITIONS, 0.05))
    assert (least, most) == (2, 21)
    assert least <= false_alarms(clustered=True) <= most


def test_drawing_cases_instead_of_stories_would_cry_wolf() -> None:
    assert false_alarms(clustered=False) > stats.binom.ppf(0.9999, REPETITIONS, 0.05)
