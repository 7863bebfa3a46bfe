"""The bench of nulls: its worlds are what it says, and the comparison holds its level on a few of them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from lab.bench.simulated.null_worlds import SHARED, World, cases_of, common
from lab.bench.simulated.nulls import NULLS, POWER, WATCHED, one_null, one_power, one_watched

REPETITIONS = 6


def test_cases_of_a_day_share_what_is_said() -> None:
    world = World(days=2_000, per_day=2)
    rng = np.random.default_rng(1)
    drawn = common(rng, world, cases_of(rng, world)).reshape(-1, 2)
    assert np.corrcoef(drawn.T)[0, 1] == pytest.approx(SHARED, abs=0.05)
    assert drawn.std() == pytest.approx(1.0, abs=0.05)


def test_days_follow_each_other_and_tails_are_heavy_as_a_world_says() -> None:
    rng = np.random.default_rng(2)
    world = World(days=4_000, per_day=1, shared=1.0, mood=0.7, tails=3)
    cases = cases_of(rng, world)
    drawn = common(rng, world, cases)
    assert np.corrcoef(drawn[:-1], drawn[1:])[0, 1] == pytest.approx(0.7, abs=0.05)
    assert np.corrcoef(cases.returned[:-1], cases.returned[1:])[0, 1] > 0.05, "returns over a day share hours"
    assert stats.kurtosis(cases.returns[300]) > 1.0
    assert cases_of(rng, World(days=99, per_day=10, unbalanced=True)).at.size != 990


@pytest.mark.slow
def test_a_null_is_called_different_in_about_one_of_twenty() -> None:
    found = {name: [one_null(name, seed) for seed in range(REPETITIONS)] for name in NULLS}
    for kind in ("primary", "secondary"):
        called = {name: sum(getattr(one, kind) for one in seen) for name, seen in found.items()}
        # With a true rate of 6 %, a world reaches its limit in one of ten thousand, and so do all together.
        assert max(called.values()) <= stats.binom.ppf(0.9999, REPETITIONS, 0.06), (kind, called)
        assert sum(called.values()) <= stats.binom.ppf(0.9999, REPETITIONS * len(NULLS), 0.06), (kind, called)
    silent = [name for name, seen in found.items() if all(one.silent for one in seen)]
    assert silent == ["5 days x 40 cases (too few days)"]


@pytest.mark.parametrize("name", POWER)
def test_a_difference_that_is_there_is_seen(name: str) -> None:
    assert sum(one_power(name, seed) for seed in range(5)) >= 4


@pytest.mark.slow
def test_watching_misleads_rarely_holds_back_a_rare_crash_and_sees_a_filter_of_losers() -> None:
    held, alarms, seen = (
        sum(one_watched(*WATCHED[name], seed) for seed in range(many))
        for name, many in (("a rare crash", 8), ("40 days x 10 cases", 8), ("filter of losers", 6))
    )
    assert held <= 3 and alarms <= 3 and seen >= 4, (held, alarms, seen)
