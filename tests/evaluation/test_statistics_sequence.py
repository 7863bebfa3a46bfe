"""Confidence sequences: what they say by hand, and how often somebody who keeps looking is misled by them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from evaluation.statistics.blocks import inflation_of, t_quantile
from evaluation.statistics.sequence import FIRST_BLOCK, Look, closed_means, look, sequence

A_DAY, DAYS = 10, 40
"""Cases of a day, and days: 400 cases in the order of their arrival."""
OF_DAY = np.repeat(np.arange(DAYS), A_DAY)


def null(rng: np.random.Generator, *, heavy: bool) -> np.ndarray:
    """Differences of two equal candidates, whose cases of one day correlate by 0.6."""

    def drawn(size: int) -> np.ndarray:
        return rng.standard_t(3, size) if heavy else rng.standard_normal(size)

    return np.asarray(math.sqrt(0.6) * drawn(DAYS)[OF_DAY] + math.sqrt(0.4) * drawn(DAYS * A_DAY))


def false_alarms(nulls: int, *, heavy: bool, seed: int) -> float:
    rng = np.random.default_rng(seed)
    return sum(seen(null(rng, heavy=heavy), OF_DAY).decided_at is not None for _ in range(nulls)) / nulls


@pytest.mark.parametrize("heavy", [False, True])
def test_who_looks_as_each_day_closes_is_rarely_misled(heavy: bool) -> None:
    assert false_alarms(400, heavy=heavy, seed=1) <= 0.075


def test_an_ordinary_interval_looked_at_as_often_misleads_many_times_as_often() -> None:
    rng, misled = np.random.default_rng(3), 0
    beyond = [t_quantile(0.05, n - 1) for n in range(6, DAYS + 1)]
    for _ in range(400):
        means = null(rng, heavy=False).reshape(DAYS, A_DAY).mean(axis=1)
        looks = [means[:n].mean() / (means[:n].std(ddof=1) / math.sqrt(n)) for n in range(6, DAYS + 1)]
        misled += bool((np.abs(looks) > beyond).any())
    print(misled / 400)
    assert misled / 400 > 0.15


def seen(differences: np.ndarray, blocks: np.ndarray) -> Look:
    """A look at known differences of which the last block is open."""
    return look(differences, differences, blocks, int(blocks[-1]))


def test_a_true_difference_is_found_and_stays_found() -> None:
    found = seen(null(np.random.default_rng(4), heavy=False) + 0.9, OF_DAY)
    assert found.direction == 1 and found.decided_at is not None and found.decided_at >= FIRST_BLOCK
    assert found.low is not None and found.high is not None and found.low < 0.9 < found.high
    worse_later = np.concatenate([np.ones(150) + np.tile([0.1, -0.1], 75), np.full(250, -2.0)])
    assert (seen(worse_later, OF_DAY).direction, seen(worse_later, OF_DAY).decided_at) == (1, FIRST_BLOCK)


def test_what_is_unknown_is_taken_both_ways_and_only_what_holds_at_both_ends_is_decided() -> None:
    least = null(np.random.default_rng(4), heavy=False) * 0.1 + 0.9
    most = least + np.where(np.arange(400) % 5 == 0, 1.0, 0.0)
    found = look(least, most, OF_DAY, 39)
    assert (found.delta_low, found.delta_high) == (pytest.approx(least[:390].mean()), pytest.approx(most[:390].mean()))
    assert found.direction == 1 and found.low == seen(least, OF_DAY).low and found.high == seen(most, OF_DAY).high
    assert look(least - 3.0, most, OF_DAY, 39).decided_at is None
    assert look(least - 3.0, most - 3.0, OF_DAY, 39).direction == -1


def test_the_interval_is_the_formula_worked_out_by_hand() -> None:
    means = np.tile([0.1, 0.3], 6)
    estimates, widths = sequence(means)
    # n = 12: s² = 12 * 0.01 / 11; r = (-2 log 0.05 + log(-2 log 0.05) + 1) / 60 = (5.99146 + 1.79033 + 1) / 60 = 0.146363
    # n r = 1.756357; 2 * 2.756357 / (12 * 1.756357) * log(sqrt(2.756357) / 0.05) = 0.261560 * 3.502691 = 0.916164
    assert estimates[-1] == pytest.approx(0.2)
    assert widths[-1] == pytest.approx(math.sqrt(0.12 / 11 * 0.916164), rel=1e-5)
    assert np.isinf(widths[: FIRST_BLOCK - 1]).all() and np.isfinite(widths[FIRST_BLOCK - 1 :]).all()
    # Blocks that depend on each other: 1.9 times the variance, and 12 of them say as much as 6.3 independent ones.
    inflated = sequence(means, inflation=1.9)[1]
    assert inflated[-1] == pytest.approx(widths[-1] * math.sqrt(1.9)) and np.isinf(inflated[:-1]).all()


def test_the_dependence_of_blocks_is_the_strongest_one_that_the_days_do_not_exclude() -> None:
    at_s, drawn = np.arange(400) * 86_400.0, np.random.default_rng(8).standard_normal(400)
    slow = np.convolve(drawn, 0.7 ** np.arange(30))[:400]
    # Two standard errors above 0: 0.1, so (1 + 0.1) / (1 - 0.1) for blocks of a day.
    assert 1.2 <= inflation_of(at_s, drawn, 86_400) < 1.5
    assert 5.0 < inflation_of(at_s, slow, 86_400) < 14.0
    assert inflation_of(at_s, slow, 20 * 86_400) < 1.7


def test_at_sixty_blocks_the_interval_is_about_one_and_a_half_times_an_ordinary_one() -> None:
    means = np.random.default_rng(5).normal(size=60)
    ordinary = 1.96 * means.std(ddof=1) / math.sqrt(60)
    assert sequence(means)[1][-1] / ordinary == pytest.approx(1.549, abs=0.002)


def test_the_open_block_does_not_count_however_loud_it_is() -> None:
    blocks = np.array([3, 3, 7, 9, 9])
    assert closed_means(np.array([1.0, 3.0, 5.0, 99.0, -99.0]), blocks, 9).tolist() == [2.0, 5.0]
    early = seen(np.ones(FIRST_BLOCK), np.arange(FIRST_BLOCK))
    assert (early.blocks, early.delta_low, early.low, early.decided_at) == (FIRST_BLOCK - 1, 1.0, None, None)
    ready = seen(np.ones(FIRST_BLOCK + 1), np.arange(FIRST_BLOCK + 1))
    assert (ready.blocks, ready.low, ready.high, ready.decided_at) == (FIRST_BLOCK, 1.0, 1.0, FIRST_BLOCK)
    assert seen(np.array([1.0]), np.array([0])).delta_low is None
    assert look(np.empty(0), np.empty(0), np.empty(0, dtype=np.int64), 5).blocks == 0


def test_a_look_between_two_closings_changes_nothing() -> None:
    differences = null(np.random.default_rng(6), heavy=False) + 0.5
    same_day = {seen(differences[:n], OF_DAY[:n]) for n in range(201, 211)}
    assert len(same_day) == 1 and next(iter(same_day)).blocks == 20


def test_equal_runs_are_never_told_apart() -> None:
    assert seen(np.zeros(400), OF_DAY).decided_at is None


def test_figures_far_from_zero_keep_their_digits() -> None:
    noise = np.random.default_rng(7).normal(size=60)
    assert sequence(noise + 1e9)[1][-1] == pytest.approx(sequence(noise)[1][-1], rel=1e-4)


def test_what_cannot_be_looked_at_is_refused() -> None:
    with pytest.raises(ValueError, match="one block for each"):
        look(np.ones(3), np.ones(3), np.arange(2), 9)
