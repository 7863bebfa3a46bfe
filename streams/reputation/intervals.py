"""95 % intervals for shares, rare events and medians. Pure, checked against scipy in the tests."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from statistics import NormalDist

PRIOR = (1, 19)
"""Prior of a rare event: one in twenty, with the weight of twenty observations."""
MIN_OF_A_MEDIAN = 6
"""Minimum number of values: fewer lie all on one side of their distribution's median in more than 5 of 100 samples."""
_TAIL = 0.025


def wilson(successes: float, count: float) -> tuple[float, float]:
    """Return Wilson's 95 % score interval of a share; (0, 1) if ``count`` is 0.

    Source: Wilson 1927, JASA 22, 209-212; it stays inside 0 to 1 and holds its level for small counts.
    """
    if count == 0:
        return 0.0, 1.0
    z = NormalDist().inv_cdf(1.0 - _TAIL)
    share = successes / count
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z / (1 + z * z / count) * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    return max(0.0, middle - half), min(1.0, middle + half)


def rare(events: int, count: int) -> tuple[float, float, float]:
    """Return mean and 95 % interval of a rare event's rate: prior Beta(1, 19), posterior Beta(1 + k, 19 + n - k).

    The distribution function for integer parameters is a tail of the binomial distribution (Abramowitz & Stegun
    26.5.24).
    """
    a, b = PRIOR[0] + events, PRIOR[1] + count - events

    def below(x: float) -> float:
        return _at_least(a, a + b - 1, x)

    return a / (a + b), _inverse(below, _TAIL), _inverse(below, 1 - _TAIL)


def median_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """Return the 95 % percentile bootstrap interval of a median; None below ``MIN_OF_A_MEDIAN`` values.

    It is the interval of infinitely many draws, so nothing is random: a draw's median is at most the k-th value if at
    least half of its n values are, each with probability k/n. For an even number, the lower and the upper middle value
    bound it.

    Source: Efron 1979, Annals of Statistics 7, 1-26, section 3.
    """
    ordered, n = sorted(values), len(values)
    if n < MIN_OF_A_MEDIAN:
        return None

    def quantile(level: float, middle: int) -> float:
        return ordered[bisect_left(range(1, n), level, key=lambda k: _at_least(middle, n, k / n))]

    return quantile(_TAIL, (n + 1) // 2), quantile(1 - _TAIL, n // 2 + 1)


def _at_least(k: int, n: int, p: float) -> float:
    """Return the probability of at least ``k`` successes among ``n``, each with probability ``p``, 0 < p < 1."""
    yes, no, all_ways = math.log(p), math.log1p(-p), math.lgamma(n + 1)
    fewer = (all_ways - math.lgamma(j + 1) - math.lgamma(n - j + 1) + j * yes + (n - j) * no for j in range(k))
    return 1.0 - math.fsum(map(math.exp, fewer))


def _inverse(rising: Callable[[float], float], level: float) -> float:
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (middle, high) if rising(middle) < level else (low, middle)
    return (low + high) / 2.0
