"""The bench of nulls: its worlds are what it says, and the comparison holds its level on a few of them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from lab.bench.nulls import NULLS, POWER, SHARED, World, common, moves, one_null, one_power, one_watched


def test_cases_of_a_day_share_what_is_said() -> None:
    world = World(days=2_000, per_day=2)
    drawn = common(np.random.default_rng(1), world).reshape(-1, 2)
    assert np.corrcoef(drawn.T)[0, 1] == pytest.approx(SHARED, abs=0.05)
    assert drawn.std() == pytest.approx(1.0, abs=0.05)


def test_returns_that_overlap_are_alike_on_neighbouring_days() -> None:
    world = World(days=4_000, per_day=1, overlapping=True)
    _, returns = moves(np.random.default_rng(2), world)
    _, apart = moves(np.random.default_rng(2), World(days=4_000, per_day=1))
    alike, unlike = (float(np.corrcoef(one[:-1], one[1:])[0, 1]) for one in (returns, apart))
    assert alike > 0.05 > abs(unlike) + 0.01


@pytest.mark.parametrize("name", NULLS)
def test_a_null_is_called_different_in_about_one_of_twenty(name: str) -> None:
    found = [one_null(name, seed) for seed in range(24)]
    # With a true rate of 6 %, 24 repetitions reach this in one of ten thousand.
    most = stats.binom.ppf(0.9999, 24, 0.06)
    assert sum(one.primary for one in found) <= most
    assert sum(one.secondary for one in found) <= most
    assert all(one.untested for one in found) == name.startswith("5 days")


@pytest.mark.parametrize("name", POWER)
def test_a_difference_that_is_there_is_seen(name: str) -> None:
    assert sum(one_power(name, seed) for seed in range(12)) >= 9


def test_watching_a_null_rarely_ends_in_a_difference() -> None:
    assert sum(map(one_watched, range(200))) <= stats.binom.ppf(0.9999, 200, 0.06)
