"""Confidence sequences: intervals that hold at every look, so that a growing comparison may be watched.

An ordinary 95 % interval holds at one look, fixed beforehand. Who looks after every day and stops at the first interval
without 0 tells two equal runs apart in about a quarter of all comparisons. A confidence sequence holds at all looks
together: the probability that *any* of its intervals excludes the truth is at most ``1 - level``, asymptotically.

The observations are means of blocks of time, never cases: cases of one day share the day's market. A look changes
something only when a block closes, and the first one is at :data:`FIRST_BLOCK` blocks.

Source: Waudby-Smith, Arbour, Sinha, Kennedy, Ramdas 2021, "Time-uniform central limit theory and asymptotic confidence
sequences", eq. (2), whose boundary is the Gaussian mixture of Robbins (Howard, Ramdas, McAuliffe, Sekhon 2021, Annals of
Statistics 49, eq. (14)).
"""

from __future__ import annotations

import math

import msgspec
import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

LEVEL = 0.95
FIRST_BLOCK = 10
"""Blocks before the first look. The variance is estimated: with fewer blocks the promise, an asymptotic one, fails."""
NARROWEST_AT = 60
"""The number of blocks at which the sequence is as narrow as it can be: 1.55 times an ordinary interval's width there."""
DAY_S = 86_400


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """What the closed blocks say. ``estimate`` is the mean of ``blocks`` block means, None without a closed block.

    ``low`` and ``high`` hold at all looks together, and are None before :data:`FIRST_BLOCK` blocks. ``decided_at`` is the
    number of blocks at which an interval first excluded 0, ``direction`` on which side the estimate then was (1 or -1);
    None and 0: never yet. A decision stays, whatever comes after it.
    """

    blocks: int
    estimate: float | None
    low: float | None
    high: float | None
    decided_at: int | None
    direction: int


def look(differences: Floats, blocks: Ints, level: float = LEVEL) -> Look:
    """Look at paired differences so far.

    ``differences`` holds one value per case (B minus A), ``blocks`` the block of each, ascending in time but in any order
    of cases. The last block is open, for more of its cases may come, so it does not count.

    Raises:
        ValueError: not one block for each difference.
    """
    means = closed_means(differences, blocks)
    if not means.size:
        return Look(blocks=0, estimate=None, low=None, high=None, decided_at=None, direction=0)
    estimates, widths = sequence(means, level)
    out = np.flatnonzero(np.abs(estimates) > widths)
    estimate, width = float(estimates[-1]), float(widths[-1])
    return Look(
        blocks=means.size,
        estimate=estimate,
        low=estimate - width if math.isfinite(width) else None,
        high=estimate + width if math.isfinite(width) else None,
        decided_at=int(out[0]) + 1 if out.size else None,
        direction=int(np.sign(estimates[out[0]])) if out.size else 0,
    )


def looked_at(differences: Floats, days: Ints, every: int) -> bool:
    """Return whether somebody who looks after every ``every`` cases ever sees an interval without 0.

    ``differences`` and ``days`` are in the order of arrival. What a look shows are the blocks closed by then, so all looks
    of one day show the same; a day that closes and is followed by no further look is not seen.

    Raises:
        ValueError: ``every`` is below 1, days that descend, or not one day for each difference.
    """
    if every < 1 or (np.diff(days) < 0).any():
        raise ValueError("look after at least one case, and give the days in the order of arrival")
    seen = differences.size // every * every
    return bool(seen) and look(differences[:seen], days[:seen]).decided_at is not None


def closed_means(differences: Floats, blocks: Ints) -> Floats:
    """Return the mean difference of each closed block, in order of time. Blocks without a case do not exist.

    Raises:
        ValueError: not one block for each difference.
    """
    if differences.shape != blocks.shape:
        raise ValueError(f"{differences.size} differences and {blocks.size} blocks: one block for each is needed")
    if not blocks.size:
        return np.empty(0)
    _, numbers = np.unique(blocks, return_inverse=True)
    sums, counts = np.bincount(numbers, weights=differences), np.bincount(numbers)
    return np.asarray((sums / counts)[:-1], dtype=np.float64)


def sequence(means: Floats, level: float = LEVEL) -> tuple[Floats, Floats]:
    """Return the running mean after each block, and the half width of its interval.

    The half width is infinite before :data:`FIRST_BLOCK` blocks. It is ``s * sqrt(2 (n r + 1) / (n² r) * log(sqrt(n r + 1)
    / alpha))`` after n blocks, with the sample standard deviation s of the means and r chosen so that it is narrowest at
    :data:`NARROWEST_AT` blocks.
    """
    n = np.arange(1, means.size + 1, dtype=np.float64)
    running = np.cumsum(means) / n
    # Around a fixed point near the data, as a sum of squares of large numbers that differ little loses its digits.
    centred = means - running[-1]
    squares = np.cumsum(centred**2) - np.cumsum(centred) ** 2 / n
    variance = np.maximum(squares, 0.0) / np.maximum(n - 1.0, 1.0)
    spread = n * _tuned(1.0 - level)
    width = np.sqrt(variance * 2.0 * (spread + 1.0) / (n * spread) * np.log(np.sqrt(spread + 1.0) / (1.0 - level)))
    width[: FIRST_BLOCK - 1] = np.inf
    return running, width


def _tuned(alpha: float) -> float:
    # Waudby-Smith et al., appendix on the choice of rho: rho² = (-2 log a + log(-2 log a) + 1) / n*.
    evidence = -2.0 * math.log(alpha)
    return (evidence + math.log(evidence) + 1.0) / NARROWEST_AT


def block_s(horizon_s: int = 0) -> int:
    """Return the length of a block in seconds: a UTC day, and at least twice the horizon of an outcome.

    Prices of two cases overlap for as long as a horizon: in longer blocks only neighbours at the border share a market.
    """
    return max(DAY_S, 2 * horizon_s)
