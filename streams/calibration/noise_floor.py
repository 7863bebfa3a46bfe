"""The noise floor of the expected calibration error (ECE): what chance alone makes of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

DRAWS = 1_000
"""Enough for two decimals: the 95th percentile of 1,000 draws has a standard error of about 3 % of itself."""
_SEED = 20260301
_LEVEL = 0.95


def noise_floor(bins: Sequence[tuple[int, float]]) -> float:
    """Return the 95th percentile of the ECE that a perfect forecaster shows with these bins of (cases, mean confidence).

    Its hits in a bin are binomial with the bin's mean confidence. An ECE below the floor is what chance alone would show; 0
    without cases. The draws are seeded: equal bins, in any order, give the same number.

    Source: Bröcker & Smith 2007, Weather and Forecasting 22, 651-661 (consistency resampling).
    """
    filled = sorted((cases, min(1.0, max(0.0, expected))) for cases, expected in bins if cases)
    if not filled:
        return 0.0
    cases, expected = (np.array(column) for column in zip(*filled, strict=True))
    hits = np.random.default_rng(_SEED).binomial(cases, expected, size=(DRAWS, len(filled)))
    return float(np.quantile(np.abs(hits - cases * expected).sum(axis=1) / cases.sum(), _LEVEL))
