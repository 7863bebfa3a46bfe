"""Exact tests and intervals of counts."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable

from newsproof.evaluation.statistics.student import NORMAL


def mcnemar_exact(b: int, c: int) -> float:
    """Return the two-sided p-value of McNemar's exact test for ``b`` and ``c`` discordant pairs.

    It is the probability of a split at least as uneven if both directions are equally likely; 1 without discordant
    pairs.
    """
    count, fewer = b + c, min(b, c)
    term = ways = 1
    for k in range(fewer):
        term = term * (count - k) // (k + 1)
        ways += term
    return min(1.0, 2 * ways / (1 << count))


def mcnemar_by_story(changes: Iterable[tuple[Hashable, float]]) -> tuple[int, int, float]:
    """Return the number of stories that got worse, the number that got better, and McNemar's exact p-value over them.

    ``changes`` holds (story, hit in B minus hit in A) per case. A story counts once, by the sign of its sum: counting
    cases would count one story's luck as often as it was reported. With one case per story this is the ordinary test.
    """
    total: dict[Hashable, float] = {}
    for story, change in changes:
        total[story] = total.get(story, 0.0) + change
    worse = sum(value < -_DUST for value in total.values())
    better = sum(value > _DUST for value in total.values())
    return worse, better, mcnemar_exact(worse, better)


_DUST = 1e-9
"""Averages over repeats are sums of fractions: a smaller difference is rounding, not a change."""


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
