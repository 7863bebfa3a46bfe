"""How far confidence tells of returns: its rank correlation with them by horizon, and the return by its quantile. Pure.

The **information coefficient** is Spearman's correlation of signed confidence (negative for a claim that lowers the price) with
the return of the asset; over the horizons it shows how fast what a signal knew is in the price. Grinold, Kahn 1999, "Active
Portfolio Management".
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from evaluation.statistics.blocks import mean_of

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

QUANTILES = 5
DRAWS = 1_999
_DAY_MS, _MINUTE_MS = 86_400_000, 60_000


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """A figure over the events that have a price ``minutes`` from the base, with its 95 % interval by random signs of blocks of time.

    A block is a UTC day, or twice the offset where that is more; ``low`` and ``high`` are None below six of them. ``value``
    None: there is no such event, or they do not vary.
    """

    minutes: int
    events: int = 0
    blocks: int = 0
    value: float | None = None
    low: float | None = None
    high: float | None = None


class Quantile(msgspec.Struct, frozen=True, kw_only=True):
    """The events whose confidence lies from ``least`` to ``most``, a fifth of all, and their mean return in the claim's direction."""

    least: float
    most: float
    events: int
    returns: tuple[Measurement, ...]


class ConfidenceStudy(msgspec.Struct, frozen=True, kw_only=True):
    """Of raw or of abnormal returns: the information coefficient at each horizon, and the quantiles, the lowest first."""

    coefficients: tuple[Measurement, ...] = ()
    quantiles: tuple[Quantile, ...] = ()


def confidence_study(
    confidence: Floats, sides: Ints, at_ms: Ints, directed: Floats, offsets_min: Sequence[int], *, seed: int
) -> ConfidenceStudy:
    """Study events with a side (1 or -1). ``directed``: a row for each with its returns in that direction at the offsets; NaN:
    none. ``at_ms``: the base of each."""
    used, ahead = sides != 0, [n for n, minutes in enumerate(offsets_min) if minutes > 0]
    if not used.any():
        return ConfidenceStudy()
    coefficients, edges = [], np.quantile(confidence[used], np.arange(1, QUANTILES) / QUANTILES)
    group = np.searchsorted(edges, confidence, side="left")
    of_group: dict[int, list[Measurement]] = {int(quantile): [] for quantile in np.unique(group[used])}
    for n in ahead:
        minutes = offsets_min[n]
        priced = used & ~np.isnan(directed[:, n])
        signed, moved = (sides * confidence)[priced], (sides * directed[:, n])[priced]
        brought = _contributions(signed, moved)
        coefficients.append(
            measured(minutes, brought, at_ms[priced], seed)
            if brought.size
            else Measurement(minutes=minutes, events=signed.size)
        )
        for quantile, measurements in of_group.items():
            measurements.append(
                measured(minutes, directed[used & (group == quantile), n], at_ms[used & (group == quantile)], seed)
            )
    quantiles = (
        Quantile(least=float(inside.min()), most=float(inside.max()), events=inside.size, returns=tuple(measurements))
        for quantile, measurements in of_group.items()
        for inside in (confidence[used & (group == quantile)],)
    )
    return ConfidenceStudy(coefficients=tuple(coefficients), quantiles=tuple(quantiles))


def _contributions(x: Floats, y: Floats) -> Floats:
    """Return what each event brings to Spearman's correlation, so that the mean is the correlation; nothing where one does not vary.

    Linear in the event (the influence function of a correlation; Hampel 1974, JASA 69, 383-393), so that a block's sum says how
    much the correlation would change with its events.
    """
    if x.size < 2 or x.min() == x.max() or y.min() == y.max():
        return np.empty(0)
    a, b = ((ranks - ranks.mean()) / ranks.std() for ranks in (_ranks(x), _ranks(y)))
    rho = float((a * b).mean())
    return np.asarray(a * b - rho / 2.0 * (a * a + b * b) + rho)


def _ranks(values: Floats) -> Floats:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2.0)[inverse])


def measured(minutes: int, values: Floats, at_ms: Ints, seed: int) -> Measurement:
    """Return the mean of the values with its interval. ``at_ms``: the base of each; NaN is no observation."""
    there = ~np.isnan(values)
    if not there.any():
        return Measurement(minutes=minutes)
    blocks = at_ms[there] // max(_DAY_MS, 2 * abs(minutes) * _MINUTE_MS)
    estimate = mean_of(values[there], np.unique(blocks, return_inverse=True)[1].astype(np.intp), seed=seed, draws=DRAWS)
    return Measurement(
        minutes=minutes,
        events=int(there.sum()),
        blocks=estimate.blocks,
        value=estimate.estimate,
        low=estimate.low,
        high=estimate.high,
    )
