"""Scores of probabilities: Brier score, expected calibration error, hit rate."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

BINS = 10


def brier(p: Sequence[float] | Floats, hit: Sequence[float] | Floats) -> float:
    """Return the mean of (p - hit)²: 0 is perfect, and a constant 0.5 scores 0.25.

    Raises:
        ValueError: nothing to score, or not one hit for each probability.
    """
    said, came = _paired(p, hit)
    return float(np.mean((said - came) ** 2))


def ece(p: Sequence[float] | Floats, hit: Sequence[float] | Floats, bins: int = BINS) -> float:
    """Return the expected calibration error over equal-width bins of probability, weighted by count.

    Over few cases it is mostly noise, and never negative, so small samples look worse calibrated than they are.

    Raises:
        ValueError: nothing to score, not one hit for each probability, or a probability outside 0 to 1.
    """
    said, came = _paired(p, hit)
    return float(np.abs(calibration_gaps(said, came, bins).sum(axis=0)).sum() / said.size)


def calibration_gaps(p: Floats, hit: Floats, bins: int = BINS) -> Floats:
    """Return one row per case, with (p - hit) in the column of its bin and 0 elsewhere.

    The error over any set of cases is the sum of the absolute column sums, divided by the number of cases. Bins are [0,
    1/bins), …, the last one with 1.
    """
    if p.size and not (p.min() >= 0.0 and p.max() <= 1.0):
        raise ValueError("a probability lies outside 0 to 1")
    gaps = np.zeros((p.size, bins))
    gaps[np.arange(p.size), [bin_of(said, bins) for said in p.tolist()]] = p - hit
    return gaps


def bin_of(p: float, bins: int = BINS) -> int:
    """Return the bin of a probability, counted from 0."""
    # 0.29 * 100 is 28.999…: without the small offset a probability on an edge would fall into the bin below.
    return min(int(p * bins + 1e-9), bins - 1)


def hit_rate(hit: Sequence[float] | Floats) -> float:
    """Return the share of hits.

    Raises:
        ValueError: nothing to count.
    """
    came = np.asarray(hit, dtype=np.float64)
    if came.size == 0:
        raise ValueError("there is nothing to score")
    return float(came.mean())


def _paired(p: Sequence[float] | Floats, hit: Sequence[float] | Floats) -> tuple[Floats, Floats]:
    said, came = np.asarray(p, dtype=np.float64), np.asarray(hit, dtype=np.float64)
    if said.size == 0:
        raise ValueError("there is nothing to score")
    if said.shape != came.shape:
        raise ValueError(f"{said.size} probabilities and {came.size} hits: one hit for each is needed")
    return said, came
