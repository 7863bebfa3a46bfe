"""Intervals of counts."""

from __future__ import annotations

import math

from newsproof.evaluation.statistics.student import NORMAL


def wilson(successes: float, count: int, level: float = 0.95) -> tuple[float, float]:
    """Return Wilson's score interval of a share, (0, 1) for ``count`` 0.

    Source: Wilson 1927, JASA 22, 209-212; it stays inside 0 to 1 and holds its level for small counts.
    """
    if count == 0:
        return 0.0, 1.0
    z = NORMAL.inv_cdf(0.5 + level / 2.0)
    share = successes / count
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z / (1 + z * z / count) * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    return max(0.0, middle - half), min(1.0, middle + half)
