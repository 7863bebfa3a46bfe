"""How an asset moves with the market: its beta on BTC, from bars before an event alone. Pure."""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt

from schemas.prices import PriceSeries

BENCHMARK = "BTC"
BETA_DAYS = 30
BETA_RETURNS = 48
"""Hourly returns that a beta needs at least. With the correlations of coins its standard error is then about 0.15."""
_LATE_MS = 300_000
"""By how much a price of the benchmark may be later than the asset's."""
_HOUR_MS = 3_600_000
_NONE = 1e-12
"""A variance below this share of all squares is rounding: the market stood still."""

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class Hourly(msgspec.Struct, frozen=True):
    """Hours since 1970 of which both markets have a bar that opens at one time, and both opens; the first such bar of each hour."""

    hours: Ints
    asset: Floats
    benchmark: Floats


def hourly(series: PriceSeries, benchmark: PriceSeries) -> Hourly:
    """Return what betas of a market are computed from."""
    times = np.asarray(series.times_ms, dtype=np.int64)
    both, mine, its = np.intersect1d(
        times, np.asarray(benchmark.times_ms, dtype=np.int64), assume_unique=True, return_indices=True
    )
    hours, first = np.unique(both // _HOUR_MS, return_index=True)
    return Hourly(hours, np.asarray(series.opens)[mine[first]], np.asarray(benchmark.opens)[its[first]])


def bars_from(times: Ints, at_ms: Ints, late_ms: int | Ints) -> Ints:
    """Return the place of the first bar from each time on, -1 where it comes later than ``late_ms``."""
    place = np.searchsorted(times, at_ms)
    found = times[np.minimum(place, len(times) - 1)]
    return np.where((found >= at_ms) & (found - at_ms <= late_ms), place, -1)


def benchmark_return(benchmark: PriceSeries, begin_ms: Ints, end_ms: Ints) -> Floats:
    """Return what the benchmark did between the bars of an asset that open at these times; NaN where it has no price near one."""
    times, opens = np.asarray(benchmark.times_ms, dtype=np.int64), np.asarray(benchmark.opens)
    first, last = (bars_from(times, at, _LATE_MS) for at in (begin_ms, end_ms))
    return np.where((first < 0) | (last < 0), np.nan, opens[last] / opens[first] - 1)


def is_benchmark(series: PriceSeries) -> bool:
    """Whether a market is that of the benchmark itself, which has no beta."""
    return series.symbol.partition("/")[0] == BENCHMARK


def betas_before(prices: Hourly, at_ms: Ints) -> Floats:
    """Return for each time the slope of the asset's hourly returns on the benchmark's in the :data:`BETA_DAYS` days that end
    an hour before; NaN where there are fewer than :data:`BETA_RETURNS` of them."""
    if len(prices.hours) < BETA_RETURNS + 1:
        return np.full(len(at_ms), np.nan)
    follows = np.diff(prices.hours) == 1
    x, y = (np.where(follows, np.diff(of) / of[:-1], 0.0) for of in (prices.benchmark, prices.asset))
    sums = np.zeros((5, len(x) + 1))
    np.cumsum([follows, x, y, x * y, x * x], axis=1, out=sums[:, 1:])
    end = (at_ms - _HOUR_MS) // _HOUR_MS  # the hour that is still running is left out
    first, last = (np.searchsorted(prices.hours, hour) for hour in (end - 24 * BETA_DAYS, end))
    count, of_x, of_y, of_xy, of_xx = sums[:, np.maximum(last - 1, first)] - sums[:, first]
    with np.errstate(divide="ignore", invalid="ignore"):
        varies = of_xx - of_x * of_x / count
        beta = (of_xy - of_x * of_y / count) / varies
    return np.where((count >= BETA_RETURNS) & (varies > _NONE * sums[4, -1]), beta, np.nan)
