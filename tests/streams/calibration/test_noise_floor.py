"""The noise floor of the ECE is what chance alone makes of a perfect forecaster."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from streams.calibration.noise_floor import noise_floor

BINS = [(10, 0.35), (20, 0.55), (40, 0.72), (30, 0.85), (12, 0.95)]


def test_a_perfect_forecaster_exceeds_the_floor_in_one_of_twenty_samples() -> None:
    cases, said = (np.array(column) for column in zip(*BINS, strict=True))
    hits = np.random.default_rng(1).binomial(cases, said, size=(4_000, len(BINS)))
    errors = np.abs(hits - cases * said).sum(axis=1) / cases.sum()
    above = int((errors > noise_floor(BINS)).sum())
    assert stats.binom.ppf(0.0001, 4_000, 0.035) <= above <= stats.binom.ppf(0.9999, 4_000, 0.065)


def test_one_bin_is_the_binomial_distribution_itself() -> None:
    exact = max(abs(end - 20) for end in stats.binom(40, 0.5).interval(0.95)) / 40
    assert noise_floor([(40, 0.5)]) == pytest.approx(exact, abs=1 / 40)


def test_equal_bins_in_any_order_have_one_floor_and_empty_ones_none() -> None:
    assert noise_floor(BINS) == noise_floor(list(reversed(BINS))) == noise_floor([*BINS, (0, 0.15)])
    assert noise_floor([]) == noise_floor([(0, 0.5)]) == 0.0
    assert noise_floor([(50, 1.0)]) == noise_floor([(50, 1.0 + 1e-12)]) == 0.0, "a sum of confidences may round above 1"


def test_more_cases_lower_it_by_the_root_of_their_number() -> None:
    more = noise_floor([(100 * cases, said) for cases, said in BINS])
    assert noise_floor(BINS) / more == pytest.approx(10, rel=0.1)
