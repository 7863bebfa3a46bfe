"""Confidence sequences: intervals that hold at every look, so that a growing comparison may be watched.

An ordinary 95 % interval holds at one look, fixed beforehand. Who looks after every day and stops at the first interval
without 0 tells two equal runs apart in about a quarter of all comparisons. A confidence sequence holds at all looks
together: the probability that *any* of its intervals excludes the truth is at most ``1 - level``, asymptotically.

The observations are means of blocks of time (:mod:`evaluation.statistics.blocks`), never cases: cases of one day
share the day's market. A look changes something only when a block closes, and the first one is at :data:`FIRST_BLOCK` blocks.
Blocks that depend on each other say less than as many independent ones: ``inflation`` multiplies their variance.

Source: Waudby-Smith, Arbour, Sinha, Kennedy, Ramdas 2021, "Time-uniform central limit theory and asymptotic confidence
sequences", eq. (2), whose boundary is the Gaussian mixture of Robbins (Howard, Ramdas, McAuliffe, Sekhon 2021, Annals of
Statistics 49, eq. (14)).
"""

from __future__ import annotations

import math

import msgspec
import numpy as np
import numpy.typing as npt

from evaluation.statistics.blocks import MIN_BLOCKS

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

LEVEL = 0.95
FIRST_BLOCK = 10
"""Blocks before the first look. The variance is estimated: with fewer blocks the promise, an asymptotic one, fails."""
NARROWEST_AT = 60
"""The number of blocks at which the sequence is as narrow as it can be: 1.55 times an ordinary interval's width there."""


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """What the closed blocks say. ``delta_low`` to ``delta_high`` is the mean of ``blocks`` block means at both ends of what
    unknown differences can be (equal where all are known), None without a closed block.

    ``low`` and ``high`` hold at all looks together, and are None before :data:`FIRST_BLOCK` blocks. ``decided_at`` is the
    number of blocks at which an interval first excluded 0, ``direction`` on which side (1 or -1); None and 0: never yet. A
    decision stays, whatever blocks come after it.
    """

    blocks: int
    delta_low: float | None
    delta_high: float | None
    low: float | None
    high: float | None
    decided_at: int | None
    direction: int


def look(
    least: Floats, most: Floats, blocks: Ints, open_from: int, level: float = LEVEL, inflation: Floats | float = 1.0
) -> Look:
    """Look at paired differences so far.

    ``least`` and ``most`` hold one value per case (B minus A), the ends of what it can be; ``blocks`` the number of each
    case's block, in the order of time. Blocks from ``open_from`` on are open, as cases of them may come: they do not count. ``inflation``:
    one figure, or one as each block closed.

    Raises:
        ValueError: not one block for each difference.
    """
    means = [closed_means(ends, blocks, open_from) for ends in (least, most)]
    count = means[0].size
    if not count:
        return Look(blocks=0, delta_low=None, delta_high=None, low=None, high=None, decided_at=None, direction=0)
    (low_mean, low_width), (high_mean, high_width) = (sequence(of_end, level, inflation) for of_end in means)
    above, below = low_mean - low_width, high_mean + high_width
    out = np.flatnonzero((above > 0.0) | (below < 0.0))
    ready = math.isfinite(above[-1])
    return Look(
        blocks=count,
        delta_low=float(low_mean[-1]),
        delta_high=float(high_mean[-1]),
        low=float(above[-1]) if ready else None,
        high=float(below[-1]) if ready else None,
        decided_at=int(out[0]) + 1 if out.size else None,
        direction=0 if not out.size else 1 if above[out[0]] > 0.0 else -1,
    )


def closed_means(differences: Floats, blocks: Ints, open_from: int) -> Floats:
    """Return the mean difference of each block before ``open_from``, in order of time. Blocks without a case do not exist.

    Raises:
        ValueError: not one block for each difference.
    """
    if differences.shape != blocks.shape:
        raise ValueError(f"{differences.size} differences and {blocks.size} blocks: one block for each is needed")
    closed = blocks < open_from
    _, numbers = np.unique(blocks[closed], return_inverse=True)
    return np.asarray(np.bincount(numbers, weights=differences[closed]) / np.bincount(numbers), dtype=np.float64)


def sequence(means: Floats, level: float = LEVEL, inflation: Floats | float = 1.0) -> tuple[Floats, Floats]:
    """Return the running mean after each block, and the half width of its interval.

    The half width is infinite before :data:`FIRST_BLOCK` blocks, and before they say as much as :data:`MIN_BLOCKS` independent
    ones. It is ``s * sqrt(2 (n r + 1) / (n² r) * log(sqrt(n r + 1)
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
    width = np.sqrt(
        inflation * variance * 2.0 * (spread + 1.0) / (n * spread) * np.log(np.sqrt(spread + 1.0) / (1.0 - level))
    )
    width[(n < FIRST_BLOCK) | (n < MIN_BLOCKS * inflation)] = np.inf
    return running, width


def _tuned(alpha: float) -> float:
    # Waudby-Smith et al., appendix on the choice of rho: rho² = (-2 log a + log(-2 log a) + 1) / n*.
    evidence = -2.0 * math.log(alpha)
    return (evidence + math.log(evidence) + 1.0) / NARROWEST_AT
