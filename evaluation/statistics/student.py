"""Student's t distribution with integer degrees of freedom, without scipy."""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

NORMAL = NormalDist()

_AS_GOOD_AS_NORMAL = 100_000
"""Degrees of freedom from which t and normal quantiles differ by less than 1e-4 of their value."""


def t_two_sided(t: float, df: int) -> float:
    """Return the probability that ``|T| >= t`` with ``df`` degrees of freedom, by the finite series for integer ``df``.

    Source: Abramowitz & Stegun, Handbook of Mathematical Functions, 26.7.3 and 26.7.4.
    """
    t = abs(t)
    if df >= _AS_GOOD_AS_NORMAL:
        return 2.0 * NORMAL.cdf(-t)
    angle = math.atan2(t, math.sqrt(df))
    cos, sin = math.cos(angle), math.sin(angle)
    odd = df % 2
    term, series = (cos if odd else 1.0), 0.0
    for k in range(1 + odd, df, 2):
        series += term
        term *= cos * cos * k / (k + 1)
    inside = 2.0 / math.pi * (angle + sin * series) if odd else sin * series
    return min(max(1.0 - inside, 0.0), 1.0)


@lru_cache(maxsize=256)  # A comparison asks for the same few again and again.
def t_quantile(two_sided: float, df: int) -> float:
    """Return the ``t >= 0`` that ``|T|`` reaches with probability ``two_sided`` (above 0, at most 1), by bisection."""
    low, high = 0.0, 1.0
    while t_two_sided(high, df) > two_sided:
        high *= 2.0
    for _ in range(80):
        middle = (low + high) / 2.0
        low, high = (middle, high) if t_two_sided(middle, df) > two_sided else (low, middle)
    return (low + high) / 2.0
