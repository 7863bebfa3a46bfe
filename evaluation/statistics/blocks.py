"""Tests and intervals of a difference between two runs, clustered by blocks of time alone.

Cases of one day share the market of that day, and cases of one story its luck, so neither is an independent observation:
with a common market factor, clusters by story called a true null different in 15 to 57 % of runs. So the clusters are blocks
of time. A block is as long as the horizon demands, and longer where the data's own days depend on each other.

The p-value is that of the *restricted wild cluster bootstrap-t* (Cameron, Gelbach, Miller 2008, Review of Economics and
Statistics 90, 414-427): the sum of each block, under the null hypothesis, gets a random sign (Rademacher), and the
t-statistic of the data is compared with those of the signed data. Up to :data:`ENUMERATED` blocks all signs are tried, so that
the p-value is exact. The interval holds every difference that this test does not reject at 5 %.

Also here: the t distribution without scipy, intervals of shares, and Holm's correction for several tests.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from statistics import NormalDist

import msgspec
import numpy as np
import numpy.typing as npt

from streams.reputation.intervals import wilson

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


Floats = npt.NDArray[np.float64]
Labels = npt.NDArray[np.intp]

LEVEL = 0.95
DRAWS = 9_999
ENUMERATED = 12
"""With so many blocks or fewer, all signs are tried."""
MIN_BLOCKS = 6
"""With five blocks no split of signs is rarer than 2 / 2**5 = 0.0625: no test at 5 % can reject, so none is made."""
FEW_BLOCKS = 20
"""Below this number a result is said to rest on few blocks."""
DAY_S = 86_400
POWER = 0.8
LAGS = (1, 2, 3, 4, 6, 8)
"""Days after which a correlation is looked for."""
LONGER = 6
"""A block is this many times longer than the dependence of its days, so that it misses at most a sixth of the variance."""
_AT_A_TIME = 512
_KEPT = 8_000_000
"""Signs of so many draws and blocks (64 MB) are kept for the next metric; more are drawn anew."""
NONE = 1e-24
"""A variance below this share of the squared sums is rounding: all blocks say the same."""


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """A difference with its interval and two-sided p-value.

    ``low``, ``high``, ``pvalue`` and ``detectable`` are None with fewer than :data:`MIN_BLOCKS` blocks; an end is infinite
    where so few blocks reject nothing at its level. ``detectable`` is the
    smallest true difference that a sample with these block sums shows with a probability of 80 %.
    """

    estimate: float
    low: float | None
    high: float | None
    pvalue: float | None
    detectable: float | None
    blocks: int


def block_length_s(horizon_s: int = 0) -> int:
    """Return the length of a block: a UTC day, or twice the horizon over which an outcome is measured if that is longer."""
    return max(DAY_S, 2 * horizon_s)


def blocks_of(at_s: Sequence[float], length_s: int) -> Labels:
    """Return the number of each case's block, from 0. ``at_s``: Unix seconds of each case."""
    return np.unique(np.asarray(at_s) // length_s, return_inverse=True)[1].astype(np.intp)


class Grid(msgspec.Struct, frozen=True, kw_only=True):
    """The blocks of one test. ``labels`` number each case's block, ``correlation`` is that of neighbouring days' sums.

    ``inflation``: what is still missing in the variance of such blocks, as a factor from 1 on.
    """

    length_s: int
    labels: Labels
    inflation: float
    correlation: float


def grid_of(at_s: Sequence[float], scores: Floats, shares: Floats, rule_s: int) -> Grid:
    """Return blocks of at least ``rule_s``, and longer where neighbouring days depend on each other.

    ``scores`` and ``shares`` are those of the cases (:func:`scores_of`).

    If the days' sums followed an AR(1) process, blocks of ``length`` days would miss the share ``dependence / length`` of the
    variance. Blocks are so long that this is at most 1 / :data:`LONGER`, and the rest is added. A correlation that could be
    chance costs no sample its test: only one beyond 1.6 standard errors makes blocks so long that fewer than
    :data:`MIN_BLOCKS` remain. Half of a standard error is then added to it, or a whole one if it lasts for four days or longer.
    """
    days, day = np.unique(np.asarray(at_s) // DAY_S, return_inverse=True)
    sums = np.bincount(day, weights=scores - shares * scores.sum())
    count = len(days)
    square = float(sums @ sums)
    if square <= NONE * float(scores @ scores):
        return Grid(length_s=rule_s, labels=blocks_of(at_s, rule_s), inflation=1.0, correlation=0.0)
    daily = np.zeros(int(days[-1] - days[0]) + 1)
    daily[(days - days[0]).astype(int)] = sums
    # Around its own mean, a series of n days seems less correlated than it is (Kendall 1954, Biometrika 41, 403-404).
    bias, chance = float((np.diff(days) == 1).mean()) / count, 1.6 / math.sqrt(count)
    raw = {lag: float(daily[lag:] @ daily[:-lag]) / square if lag < daily.size else 0.0 for lag in LAGS}
    of = {lag: correlation + bias * (1.0 + 4.0 * max(correlation, 0.0)) for lag, correlation in raw.items()}
    rho, beyond_chance = of[1], raw[1] > chance
    if beyond_chance:
        # Where each day has noise of its own, what lasts shows in later days: there a correlation falls more slowly.
        lasting = {lag: correlation for lag, correlation in of.items() if lag == 1 or correlation > chance}
        rho = max(correlation ** (1.0 / lag) for lag, correlation in lasting.items())
        rho += (1.0 if max(lasting) > 3 else 0.5) * math.sqrt(max(1.0 - rho * rho, 0.02) / count)
    rho = min(max(rho, 0.0), 0.99)
    dependence = 2.0 * rho / (1.0 - rho * rho)
    length = math.ceil(LONGER * dependence)
    if not beyond_chance:
        length = min(length, count // MIN_BLOCKS)
    length_s = max(rule_s, length * DAY_S)
    inflation = 1.0 / (1.0 - min(dependence * DAY_S / length_s, 0.8))
    return Grid(length_s=length_s, labels=blocks_of(at_s, length_s), inflation=inflation, correlation=rho)


def inflation_of(at_s: Floats, values: Floats, block_s: int, errors: float = 2.0) -> float:
    """Return by how much the variance of a mean of blocks exceeds that of independent blocks, at the strongest correlation of
    neighbouring days (AR(1)) that the days do not exclude: so many standard errors above the one that they show."""
    share = np.full(values.size, 1.0 / values.size)
    seen = grid_of(at_s.tolist(), values * share, share, block_s).correlation
    rho = min(seen + errors * math.sqrt(max(1.0 - seen * seen, 0.02) / len(np.unique(at_s // DAY_S))), 0.99)
    days, whole = block_s / DAY_S, (1.0 + rho) / (1.0 - rho)
    return float(whole / (whole - 2.0 * rho * (1.0 - rho**days) / (days * (1.0 - rho) ** 2)))


def sums_of(columns: Floats, labels: Labels) -> Floats:
    """Sum the rows of each block: (cases x k) becomes (blocks x k)."""
    count = int(labels.max()) + 1 if labels.size else 0
    return np.column_stack([np.bincount(labels, weights=column, minlength=count) for column in columns.T])


def scores_of(a: Floats, in_a: Floats, b: Floats, in_b: Floats) -> tuple[float, Floats, Floats]:
    """Return the difference of two figures, each case's score under the null that there is none, and its share.

    A figure is the sum of values over the sum of memberships (0 or 1), in each run over its own cases. The scores sum to the
    difference, the shares to 1; a score less its share of the difference is the case's residual.

    Raises:
        ValueError: a run has no case.
    """
    count_a, count_b = float(in_a.sum()), float(in_b.sum())
    if not count_a or not count_b:
        raise ValueError("a figure over no case")
    pooled = float((a.sum() + b.sum()) / (count_a + count_b))
    scores = (b - pooled * in_b) / count_b - (a - pooled * in_a) / count_a
    return float(b.sum() / count_b - a.sum() / count_a), scores, (in_b / count_b + in_a / count_a) / 2.0


def wild_bootstrap(
    estimate: float,
    scores: Floats,
    shares: Floats,
    labels: Labels,
    *,
    seed: int,
    draws: int = DRAWS,
    inflation: float = 1.0,
    factor: int = 1,
) -> Estimate:
    """Test a difference. ``scores`` and ``shares`` are those of the cases (:func:`scores_of`). Same seed, same result.

    ``inflation`` multiplies the variance of the blocks' sums (:class:`Grid`). ``factor`` multiplies the p-value, and the interval
    is that of a level so much nearer to 1; 0: there is no p-value, and the interval is that of one look.
    """
    used = shares != 0.0
    s, h = sums_of(np.column_stack([scores, shares])[used], np.unique(labels[used], return_inverse=True)[1]).T
    count = len(s)
    if count < MIN_BLOCKS:
        return Estimate(estimate=estimate, low=None, high=None, pvalue=None, detectable=None, blocks=count)
    signed, rejected = _Signed(s, h, seed, draws, inflation), (1.0 - LEVEL) / (factor or 1)
    error = math.sqrt(count / (count - 1) * signed.variance)
    low, high = (
        (estimate, estimate) if not error else (_edge(signed, estimate, side * error, rejected) for side in (-1.0, 1.0))
    )
    pvalue = min(1.0, factor * signed.pvalue(0.0)) if factor else None
    both = t_quantile(rejected, count - 1) + t_quantile(2.0 * (1.0 - POWER), count - 1)
    return Estimate(estimate=estimate, low=low, high=high, pvalue=pvalue, detectable=both * error, blocks=count)


def mean_of(values: Floats, labels: Labels, *, seed: int, draws: int = DRAWS, factor: int = 1) -> Estimate:
    """Test whether the mean of values, one per case, is 0; ``labels`` number the block of each."""
    share = 1.0 / values.size
    return wild_bootstrap(
        float(values.mean()), values * share, np.full(values.size, share), labels, seed=seed, draws=draws, factor=factor
    )


class _Signed:
    """The blocks' sums under all drawn signs. A hypothesis ``null`` is about the true difference."""

    def __init__(self, s: Floats, h: Floats, seed: int, draws: int, inflation: float) -> None:
        self._s, self._h = s, h
        self._estimate = float(s.sum())
        self._ws, self._wh, self._wsh, self._whh = project(np.column_stack([s, h, s * h, h * h]), seed, draws).T
        self._hh = float((h * h).sum())
        residuals = s - h * self._estimate
        variance = float((residuals * residuals).sum())
        self.variance = inflation * variance if variance > NONE * float((s * s).sum()) else 0.0
        self._exact = len(s) <= ENUMERATED

    def pvalue(self, null: float) -> float:
        numerator = self._ws - null * self._wh
        square = self._s - null * self._h
        total = float((square * square).sum())
        if total == 0.0:
            return 1.0
        variance = total - 2.0 * numerator * (self._wsh - null * self._whh) + numerator * numerator * self._hh
        there = self._estimate - null
        # |t*| >= |t| without dividing, for a variance may be 0: t² = numerator² / variance.
        beyond = numerator * numerator * self.variance >= there * there * np.maximum(variance, 0.0) * (1.0 - 1e-9)
        if self.variance == 0.0:
            beyond = variance <= NONE * total
        many = int(np.count_nonzero(beyond))
        return many / len(beyond) if self._exact else (many + 1) / (len(beyond) + 1)


def _edge(signed: _Signed, estimate: float, step: float, rejected: float) -> float:
    """Return the end of the interval on the side of ``step`` (a signed standard error)."""
    inside, reach = estimate, 2.5
    while signed.pvalue(estimate + reach * step) >= rejected:
        inside, reach = estimate + reach * step, reach * 1.7
        if reach > 1e6:
            return math.copysign(math.inf, step)
    outside = estimate + reach * step
    for _ in range(12):
        middle = (inside + outside) / 2.0
        inside, outside = (middle, outside) if signed.pvalue(middle) >= rejected else (inside, middle)
    return outside


def heterogeneity(
    differences: Floats, labels: Labels, segments: Labels, *, seed: int, draws: int = DRAWS
) -> float | None:
    """Return the p-value of "all segments have the same mean difference": Cochran's Q with wild signs of whole blocks.

    ``segments`` numbers each case's segment from 0. None: fewer than two segments, or a segment in fewer than
    :data:`MIN_BLOCKS` blocks. Source of Q: Cochran 1954, Biometrics 10, 101-129.
    """
    number, blocks = int(segments.max()) + 1, int(labels.max()) + 1
    counts = np.bincount(segments, minlength=number).astype(np.float64)
    cell = segments * blocks + labels
    size = np.bincount(cell, minlength=number * blocks).reshape(number, blocks).astype(np.float64)
    if number < 2 or int((size > 0).sum(axis=1).min()) < MIN_BLOCKS:
        return None
    total = np.bincount(cell, weights=differences - differences.mean(), minlength=number * blocks)
    s: Floats = total.reshape(number, blocks).astype(np.float64)
    if not np.any(s):
        return 1.0
    ones = np.ones((1, blocks))
    observed = _q(ones, s, size, counts)[0]
    signed = np.concatenate([_q(signs, s, size, counts) for signs in _signs(blocks, seed, draws)])
    many = int(np.count_nonzero(signed >= observed * (1.0 - 1e-9)))
    return many / len(signed) if blocks <= ENUMERATED else (many + 1) / (len(signed) + 1)


def _q(signs: Floats, s: Floats, size: Floats, counts: Floats) -> Floats:
    sums = signs @ s.T
    means = sums / counts
    squares = (s * s).sum(axis=1) - 2.0 * means * (signs @ (s * size).T) + means * means * (size * size).sum(axis=1)
    least = 1e-12 * (s * s).sum()
    weights = counts * counts / np.maximum(squares, least)
    centre = (weights * means).sum(axis=1) / weights.sum(axis=1)
    return np.asarray((weights * (means - centre[:, None]) ** 2).sum(axis=1), dtype=np.float64)


def project(columns: Floats, seed: int, draws: int = DRAWS) -> Floats:
    """Return the sums of the rows of ``columns`` (blocks x k) under each draw of signs: (draws x k)."""
    return np.concatenate([signs @ columns for signs in _signs(len(columns), seed, draws)])


def _signs(blocks: int, seed: int, draws: int) -> Iterable[Floats]:
    """Return the draws of signs, some at a time."""
    if blocks * draws <= _KEPT:
        return _kept_signs(blocks, seed, draws)
    return _drawn_signs(blocks, seed, draws)


@lru_cache(maxsize=4)  # All metrics with blocks of one length use the same signs.
def _kept_signs(blocks: int, seed: int, draws: int) -> tuple[Floats, ...]:
    return tuple(_drawn_signs(blocks, seed, draws))


def _drawn_signs(blocks: int, seed: int, draws: int) -> Iterator[Floats]:
    if blocks <= ENUMERATED:
        # Both signs of everything give the same |t|, so the first block's may stay as it is.
        every = np.arange(1 << (blocks - 1))[:, None] >> np.arange(blocks)[None, :] & 1
        yield (1.0 - 2.0 * every).astype(np.float64)
        return
    rng = np.random.default_rng(seed)
    for begin in range(0, draws, _AT_A_TIME):
        drawn = rng.integers(0, 2, (min(_AT_A_TIME, draws - begin), blocks), dtype=np.int8)
        yield 1.0 - 2.0 * drawn.astype(np.float64)


def share_interval(hits: Floats, labels: Labels) -> tuple[float, float] | None:
    """Return the 95 % interval of a share, with whole blocks as what is drawn; None below ``MIN_BLOCKS`` of them.

    ``hits``: 1 or 0 of each case, ``labels``: its block. Wilson's interval of as many independent cases as would vary like the
    blocks' sums do, fewer by Korn and Graubard's factor for a variance that is estimated from so few blocks, and never more
    than there are cases; where the share is the same in every block, of as many as there are blocks. With six blocks of
    cases that correlate by 0.2 to 0.5 it holds a share of 10 % in 91 to 93 of 100 samples, one of 30 or 50 % in 94 to 95. Random
    signs of blocks, which serve means elsewhere, do not do here: a share of 3 % lies in their interval 20 to 85 times in 100.

    Source: Korn, Graubard 1998, Survey Methodology 24, 193-201, with Wilson's interval for the exact one.
    """
    blocks = len(np.unique(labels))
    if blocks < MIN_BLOCKS:
        return None
    share = float(hits.mean())
    sums = sums_of((hits - share)[:, None], labels) / hits.size
    variance = blocks / (blocks - 1) * float((sums * sums).sum())
    if variance <= NONE * share * share:
        return wilson(share * blocks, blocks)
    factor = NORMAL.inv_cdf(0.5 + LEVEL / 2.0) / t_quantile(1.0 - LEVEL, blocks - 1)
    count = min(share * (1.0 - share) / variance * factor * factor, hits.size)
    return wilson(share * count, count)


def holm(pvalues: Sequence[float]) -> list[float]:
    """Return adjusted p-values in input order; comparing them with 0.05 bounds the family-wise error rate at 5 %.

    Source: Holm 1979, Scandinavian Journal of Statistics 6, 65-70. Needs no independence between the tests.
    """
    adjusted = [0.0] * len(pvalues)
    largest = 0.0
    for rank, index in enumerate(sorted(range(len(pvalues)), key=pvalues.__getitem__)):
        largest = max(largest, min(1.0, (len(pvalues) - rank) * pvalues[index]))
        adjusted[index] = largest
    return adjusted
