"""The Brier score of probabilities and its parts."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

BINS = 10


class BrierParts(msgspec.Struct, frozen=True, kw_only=True):
    """Murphy's partition over bins: ``brier = reliability - resolution + uncertainty + within_bins``.

    ``reliability``: how far the bins' mean probabilities lie from their shares of hits (0 is perfect). ``resolution``: how far
    those shares lie from the overall one (more is better). ``uncertainty``: the variance of the hits, which no forecast
    changes. ``within_bins``: what the bins' means do not say, because probabilities differ inside a bin. ``ece``: the expected
    calibration error over the same bins. Source: Murphy 1973, Journal of Applied Meteorology 12, 595-600.
    """

    count: int
    brier: float
    reliability: float
    resolution: float
    uncertainty: float
    within_bins: float
    ece: float


def brier_parts(p: Sequence[float] | Floats, hit: Sequence[float] | Floats) -> BrierParts:
    """Return the mean of (p - hit)² and its parts. 0 is perfect, and a constant 0.5 scores 0.25.

    Raises:
        ValueError: nothing to score, not one hit for each probability, or a probability outside 0 to 1.
    """
    probabilities, came = np.asarray(p, dtype=np.float64), np.asarray(hit, dtype=np.float64)
    if probabilities.size == 0:
        raise ValueError("there is nothing to score")
    if probabilities.shape != came.shape:
        raise ValueError(f"{probabilities.size} probabilities and {came.size} hits: one hit for each is needed")
    if not (probabilities.min() >= 0.0 and probabilities.max() <= 1.0):
        raise ValueError("a probability lies outside 0 to 1")
    which = np.array([bin_of(probability) for probability in probabilities.tolist()])
    count = np.bincount(which, minlength=BINS).astype(np.float64)
    used = count > 0
    forecast = np.bincount(which, weights=probabilities, minlength=BINS)[used] / count[used]
    share = np.bincount(which, weights=came, minlength=BINS)[used] / count[used]
    weight, base = count[used] / probabilities.size, float(came.mean())
    brier = float(np.mean((probabilities - came) ** 2))
    reliability = float((weight * (forecast - share) ** 2).sum())
    resolution = float((weight * (share - base) ** 2).sum())
    uncertainty = float(np.mean((came - base) ** 2))
    return BrierParts(
        count=probabilities.size,
        brier=brier,
        reliability=reliability,
        resolution=resolution,
        uncertainty=uncertainty,
        within_bins=brier - reliability + resolution - uncertainty,
        ece=float((weight * np.abs(forecast - share)).sum()),
    )


def bin_of(p: float) -> int:
    """Return the bin of a probability, counted from 0."""
    # 0.29 * 100 is 28.999…: without the small offset a probability on an edge would fall into the bin below.
    return min(int(p * BINS + 1e-9), BINS - 1)
